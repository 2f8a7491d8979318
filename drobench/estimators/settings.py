"""From the parameters of an estimator to settings of the catalogue: names, strengths, budgets."""

import dataclasses
from collections.abc import Mapping
from functools import cache
from numbers import Real
from typing import Any, TypeVar

import yaml

from drobench.app.shipped_files import data_dir
from drobench.errors import SettingError
from drobench.registry import Catalogue, ProblemEntry
from drobench.registry.hints import did_you_mean
from drobench.training.budget import BudgetConfig

Settings = TypeVar("Settings")

_STRENGTHS = ("gamma", "radius", "level")
# The variant that a strength asks for, where the problem has it and none is named.
_VARIANTS = {"radius": "ball", "gamma": "penalty"}
DEFAULT_PASSES = 200.0
"""The budget of a fit, unless it is given: methods that know when they are done end long before."""


def settings_of(config: type[Settings], values: Mapping[str, Any], what: str) -> Settings:
    """Return the settings, where the config has all that are named.

    Args:
        config: A dataclass.
        values: Settings by name.
        what: The parameter of the estimator that holds them, for messages.

    Raises:
        SettingError: There is no setting of such a name.
    """
    if not isinstance(values, Mapping):
        raise SettingError(f"{what} must be a dictionary of settings or None; found {values!r}.")
    known = [item.name for item in dataclasses.fields(config)]  # type: ignore[arg-type]  # a dataclass, see above
    for name in values:
        if name not in known:
            raise SettingError(
                f"{what} must name settings of {config.__name__}, which has {', '.join(known) or 'none'}; found "
                f"{name!r}.{did_you_mean(str(name), known)}"
            )
    return config(**values)


def find_problem(name: str, endings: tuple[str, ...], catalogue: Catalogue) -> ProblemEntry:
    """Return the problem of this name, which may be short for one that goes on with `_` and one of the endings."""
    for candidate in (name, *(f"{name}_{ending}" for ending in endings)):
        if candidate in catalogue.problems:
            return catalogue.problem(candidate).entry
    short = [
        known.removesuffix(f"_{ending}")
        for known in catalogue.problems
        for ending in endings
        if known.endswith(f"_{ending}")
    ]
    raise SettingError(
        f"problem must be one of {', '.join(sorted(set(short)))}, or the full name of a problem; found {name!r}."
        f"{did_you_mean(str(name), short)}"
    )


def setting_names(entry: ProblemEntry) -> list[str]:
    """Return what can be set of a problem."""
    return [item.name for item in dataclasses.fields(entry.config)]


def problem_settings(entry: ProblemEntry, given: Mapping[str, Any], further: Mapping[str, Any] | None) -> Any:
    """Return the settings of a problem from the parameters of an estimator and further settings.

    A radius asks for the ball of that radius, and a gamma for that price, where the problem knows such variants.

    Args:
        entry: The problem.
        given: Parameters by name; those that are `None` are left to the problem.
        further: Settings by name that are no parameters.

    Raises:
        SettingError: The problem has no such setting, or a setting is given twice or contradicts another one.
    """
    strengths = {name: value for name, value in given.items() if value is not None}
    further = {} if further is None else further
    if not isinstance(further, Mapping):
        raise SettingError(f"problem_settings must be a dictionary of settings or None; found {further!r}.")
    known = setting_names(entry)
    for name in strengths:
        if name in further:
            raise SettingError(
                f"{name} is given twice: as a parameter, and in problem_settings. Leave one of them out."
            )
        if name not in known:
            others = [other for other in given if other in known]
            raise SettingError(
                f"{name} is no setting of problem={entry.name!r}; of these parameters it has "
                f"{', '.join(others) or 'none'}. Leave {name} at None."
            )
    free = "variant" in known and "variant" not in further
    if free and {"radius", "gamma"} <= set(strengths):
        raise SettingError(
            f"problem={entry.name!r} has a price (gamma) or a ball (radius); found both. Leave one of them at None."
        )
    made: Any = settings_of(entry.config, {**further, **strengths}, "problem_settings")
    if free:
        for name, variant in _VARIANTS.items():
            made = _with_variant(made, variant) if name in strengths else made
    _refuse_idle(made, strengths)
    return made


def _with_variant(settings: Any, variant: str) -> Any:
    try:
        return dataclasses.replace(settings, variant=variant)
    except SettingError:  # the problem has no such variant, and means the strength otherwise
        return settings


def _refuse_idle(settings: Any, strengths: Mapping[str, Any]) -> None:
    """Refuse a strength that changes nothing, where the settings can say what adversary they make."""
    adversary = getattr(settings, "ambiguity", None)
    if adversary is None:
        return
    for name in _STRENGTHS:
        if name not in strengths:
            continue
        value = strengths[name]
        other = dataclasses.replace(settings, **{name: 0.5 * value or 0.5})
        if other.ambiguity() == adversary():
            raise SettingError(
                f"{name} means nothing to the variant {settings.variant!r} of this problem. Leave it at None, or name "
                'another by problem_settings={"variant": ...}.'
            )


@cache
def solver_for(kind: str) -> str:
    """Return the solver that `auto` is for a kind of problem, `linear`, `kinked` or `network`."""
    chosen: dict[str, str] = yaml.safe_load((data_dir("conf") / "estimators.yaml").read_text(encoding="utf-8"))
    return chosen[kind]


def budget_of(budget: Any) -> BudgetConfig:
    """Return the budget: of so many passes, with these limits and targets, or the preset of this name."""
    if budget is None:
        return BudgetConfig(passes=DEFAULT_PASSES)
    if isinstance(budget, str):
        return settings_of(BudgetConfig, _preset(budget), "budget")
    if isinstance(budget, Real) and not isinstance(budget, bool):
        return BudgetConfig(passes=float(budget))
    if isinstance(budget, Mapping):
        return settings_of(BudgetConfig, budget, "budget")
    raise SettingError(
        f"budget must be a number of passes, a dictionary of limits, the name of a preset, or None; found {budget!r}."
    )


def _preset(name: str) -> Mapping[str, Any]:
    # It brings Hydra along, which only a budget by name is worth.
    from drobench.app.plain_yaml import read_plain_yaml  # noqa: PLC0415

    files = {file.stem: file for file in (data_dir("conf") / "budget").glob("*.yaml")}
    if name not in files:
        raise SettingError(
            f"budget must be one of the presets {', '.join(sorted(files))}, a number of passes, or a dictionary of "
            f"limits; found {name!r}.{did_you_mean(name, sorted(files))}"
        )
    found = read_plain_yaml(files[name].read_text(encoding="utf-8"), f"The preset budget={name}")
    assert isinstance(found, dict)
    return found

"""From the command line to one typed configuration.

`conf/run.yaml` extends `RunConfig`; the groups dataset, problem and solver come from the plugins' config dataclasses by
way of Hydra's config store. Wrong names, unknown keys and wrong types are refused while composing, impossible values
right after.
"""

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, make_dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast

import hydra
import yaml
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException, MissingConfigException
from omegaconf import MISSING, DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from drobench.errors import DrobenchError, require_non_negative, require_one_of, require_positive
from drobench.objective.predictor import ModelConfig
from drobench.reasons import reason_of
from drobench.reformulation.reformulation import ReformulationConfig
from drobench.registry import Catalogue, Registered
from drobench.registry.exits import attempt_to_end, exits_raise
from drobench.registry.hints import did_you_mean
from drobench.training.budget import BudgetConfig
from drobench.training.evaluation import EvaluationConfig
from drobench.training.settings import LoggerConfig, TrainerConfig

PLUGIN_GROUPS = ("dataset", "problem", "solver")
CONFIG_NAME = "run"
HYDRA_VERSION_BASE = "1.3"
_PACKAGE = Path(__file__).resolve().parent.parent


class ConfigError(DrobenchError):
    """The configuration cannot be composed."""


@dataclass
class RunConfig:
    """One run, in the order of the data flow."""

    dataset: Any = MISSING
    problem: Any = MISSING
    model: ModelConfig = MISSING
    solver: Any = MISSING
    reformulation: ReformulationConfig = field(default_factory=ReformulationConfig)
    budget: BudgetConfig = MISSING
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    trainer: TrainerConfig = MISSING
    logger: LoggerConfig = MISSING
    seed: int = 0
    timeout: float | None = None
    """Seconds after which the whole run is given up; null: never."""
    trust: str = "same"
    """What a stored run must have in common with the code here to be taken instead of being computed: `same`, the code
    itself; `patch`, the versions of its packages up to the last number; `any`, nothing."""
    results: str = "results"

    def __post_init__(self) -> None:
        require_non_negative(self, "seed")
        require_positive(self, "timeout")
        require_one_of(self, "trust", ("same", "patch", "any"))


def data_dir(name: str) -> Path:
    """Return `conf/` or `sweeps/`: inside the package when installed from a wheel, beside it in a checkout."""
    installed = _PACKAGE / name
    return installed if installed.is_dir() else _PACKAGE.parent / name


def schema(found: Registered[Any]) -> type:
    """Return the entry's config dataclass with its name added, as the config store wants it."""
    return _named(found.entry.config, found.entry.name)


@cache
def _named(config: type, name: str) -> type:
    made = make_dataclass(config.__name__, [("name", str, field(default=name))], bases=(config,))
    made.__module__, made.__doc__ = config.__module__, config.__doc__
    return made


@cache
def _node(named: type) -> DictConfig:
    return cast(DictConfig, OmegaConf.structured(named))


def register(catalogue: Catalogue) -> None:
    """Make every plugin a choice of its Hydra group."""
    store = ConfigStore.instance()
    store.store(name="run_schema", node=RunConfig)
    for group, entries in _groups(catalogue).items():
        for found in entries.values():
            store.store(group=group, name=found.entry.name, node=_structured(found))


def _groups(catalogue: Catalogue) -> dict[str, Mapping[str, Registered[Any]]]:
    return {"dataset": catalogue.datasets, "problem": catalogue.problems, "solver": catalogue.solvers}


def _structured(found: Registered[Any]) -> DictConfig:
    try:
        return _node(schema(found))
    except OmegaConfBaseException as error:
        raise ConfigError(
            f"{found.entry.config.__name__} of {found} cannot become a Hydra schema: {error}. Use fields of type bool, "
            "int, float, str, lists or dicts of these, or one of these or None; or set "
            f"DROBENCH_DISABLE_PLUGINS={found.plugin} to go on without it."
        ) from error


@contextmanager
def hydra_ready() -> Iterator[None]:
    """Initialise Hydra's compose interface, also where Hydra is already at work (inside a job of its own)."""
    outer = GlobalHydra.instance().hydra
    GlobalHydra.instance().clear()
    try:
        with hydra.initialize_config_dir(str(data_dir("conf")), version_base=HYDRA_VERSION_BASE):
            yield
    finally:
        GlobalHydra.instance().hydra = outer


def compose(overrides: Sequence[str], catalogue: Catalogue) -> DictConfig:
    """Return the configuration that `drobench run OVERRIDES` would use; call within `hydra_ready`."""
    try:
        return hydra.compose(CONFIG_NAME, list(overrides))
    except (HydraException, OmegaConfBaseException) as error:
        raise ConfigError(explain(error, catalogue)) from error


def resolve(config: DictConfig) -> RunConfig:
    """Return plain dataclasses; this is where impossible values are refused."""
    _refuse_added_keys(config, "")
    try:
        with exits_raise():
            return cast(RunConfig, OmegaConf.to_object(config))
    except OmegaConfBaseException as error:
        raise ConfigError(_first_lines(error)) from error
    except DrobenchError:
        raise
    except (Exception, SystemExit) as error:  # the `__post_init__` of a plugin's config may raise anything
        raise ConfigError(_blamed(config, error)) from error


def _blamed(config: DictConfig, error: BaseException) -> str:
    """Say which part of a configuration could not be made: the one that cannot be made alone either."""
    text = attempt_to_end(error) if isinstance(error, SystemExit) else reason_of(error)
    for group in (name for name in PLUGIN_GROUPS if not OmegaConf.is_missing(config, name)):
        try:
            with exits_raise():
                OmegaConf.to_object(config[group])
        except (Exception, SystemExit):
            kind = getattr(OmegaConf.get_type(config[group]), "__name__", "the configuration")
            return (
                f"{kind} of {group}={config[group].name} cannot be made with these settings: {text}. Change "
                f"`{group}...=`, or have the `__post_init__` of {kind} refuse them with a SettingError."
            )
    return f"The configuration cannot be made: {text}"


def _refuse_added_keys(node: DictConfig, path: str) -> None:
    """Refuse what `+key=value` adds: it would change nothing, and its author would believe that it did."""
    kind = OmegaConf.get_type(node)
    known = {item.name for item in dataclasses.fields(kind)} if dataclasses.is_dataclass(kind) else None
    for name in node:
        place = path + str(name)
        if known is not None and name not in known:
            raise ConfigError(f"There is no setting `{place}`.{did_you_mean(str(name), known)} It cannot be added.")
        if not OmegaConf.is_missing(node, name) and OmegaConf.is_dict(node._get_node(name)):
            _refuse_added_keys(node[name], f"{place}.")


def as_override(value: Any) -> str:
    """Return a value as it is written on Hydra's command line, texts in quotes."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return "[" + ",".join(as_override(item) for item in value) + "]"
    if isinstance(value, int | float) or re.fullmatch(r"[\w.\-]+", str(value), flags=re.ASCII):
        return str(value)
    escaped = str(value).replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def plain(config: RunConfig) -> dict[str, Any]:
    """Return the configuration as nested plain values, in the order of the data flow."""
    return dataclasses.asdict(config)


def to_yaml(config: RunConfig) -> str:
    """Return the configuration as YAML."""
    return OmegaConf.to_yaml(OmegaConf.create(plain(config)))


def from_yaml(text: str, catalogue: Catalogue) -> RunConfig:
    """Return the typed configuration that `to_yaml` wrote, checked against the plugins installed now."""
    try:
        loaded = OmegaConf.create(text)
    except (yaml.YAMLError, OmegaConfBaseException) as error:
        raise ConfigError(f"The stored configuration is no readable YAML: {error}") from error
    base = OmegaConf.structured(RunConfig)
    for group, entries in _groups(catalogue).items():
        name = str(OmegaConf.select(loaded, f"{group}.name"))
        if name not in entries:
            getattr(catalogue, group)(name)
        base[group] = _structured(entries[name])
    try:
        return resolve(cast(DictConfig, OmegaConf.merge(base, loaded)))
    except OmegaConfBaseException as error:
        raise ConfigError(_first_lines(error)) from error


def explain(error: Exception, catalogue: Catalogue) -> str:
    """Say what is wrong with a configuration, with the nearest name that would have been right."""
    text = _first_lines(error)
    missing = re.search(r"Could not find '([\w/]+)/([^'/]+)'", str(error))
    if isinstance(error, MissingConfigException) and missing:
        group, name = missing.groups()
        if group in PLUGIN_GROUPS:
            known: Sequence[str] = tuple(_groups(catalogue)[group])
        else:
            known = tuple(error.options or ())
        troubles = "".join(f"\n  {trouble}" for trouble in catalogue.troubles) if group in PLUGIN_GROUPS else ""
        note = f"\nPlugins that could not be used:{troubles}" if troubles else ""
        return (
            f"There is no {group} called {name!r}.{did_you_mean(name, known)} "
            f"{group}=... can be: {', '.join(sorted(known))}.{note}"
        )
    unknown = re.search(r"full_key: ([\w.]+)", str(error.__cause__ or error))
    if unknown and "not in" in str(error.__cause__ or error):
        key = unknown.group(1)
        return f"There is no setting `{key}`.{did_you_mean(key, _all_keys(catalogue))} See `drobench run --cfg job`."
    return text


def _all_keys(catalogue: Catalogue) -> list[str]:
    """Return every dotted key that a run can have, with all plugins."""
    keys = []
    for group, entries in _groups(catalogue).items():
        for found in entries.values():
            keys += [f"{group}.{item.name}" for item in dataclasses.fields(found.entry.config)]
    for item in dataclasses.fields(RunConfig):
        keys.append(item.name)
        if dataclasses.is_dataclass(item.type):
            keys += [f"{item.name}.{inner.name}" for inner in dataclasses.fields(item.type)]
    return keys


def _first_lines(error: BaseException) -> str:
    """Return Hydra's own words, with its cause, without the object dump that omegaconf appends."""
    texts = [str(error)] + ([str(error.__cause__)] if error.__cause__ else [])
    lines = [line.strip() for text in texts for line in text.splitlines()]
    kept = [line for line in lines if line and not line.startswith(("object_type", "reference_type"))]
    return " ".join(dict.fromkeys(kept))

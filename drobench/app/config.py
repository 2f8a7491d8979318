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
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import MissingConfigException
from omegaconf import MISSING, DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from drobench.app.config_checks import (
    refuse_added_keys,
    refuse_interpolations,
    refuse_other_kinds,
    refuse_other_names,
)
from drobench.app.overrides import ConfigError, as_override, check_overrides, shown, with_home
from drobench.app.plain_yaml import read_plain_yaml
from drobench.app.results_folder import at_home
from drobench.app.shipped_files import data_dir
from drobench.errors import DrobenchError, SettingError, require_non_negative, require_one_of, require_positive
from drobench.reasons import reason_of
from drobench.reformulation.settings import ReformulationConfig
from drobench.registry import Catalogue, Registered
from drobench.registry.exits import attempt_to_end, exits_raise
from drobench.registry.hints import did_you_mean
from drobench.training.budget import BudgetConfig
from drobench.training.settings import EvaluationConfig, TrainerConfig

__all__ = [
    "CHOSEN_GROUPS",
    "CONFIG_NAME",
    "HYDRA_VERSION_BASE",
    "PLUGIN_GROUPS",
    "REGISTRY_GROUPS",
    "ConfigError",
    "RunConfig",
    "as_override",
    "compose",
    "data_dir",
    "explain",
    "from_yaml",
    "group_names",
    "hydra_ready",
    "plain",
    "register",
    "resolve",
    "schema",
    "stored_mapping",
    "structured",
    "to_yaml",
]

PLUGIN_GROUPS = ("dataset", "problem", "solver")
"""What a run's record describes with the package that it comes from."""
REGISTRY_GROUPS = ("dataset", "problem", "model", "solver")
"""Groups of settings whose choices are plugins, and which shape the result."""
CHOSEN_GROUPS = (*REGISTRY_GROUPS, "logger")
"""Groups of settings whose choices are plugins."""
NO_LOGGER = "none"
CONFIG_NAME = "run"
HYDRA_VERSION_BASE = "1.3"
LARGEST_SEED = 2**63 - 1
# Named here and not in conf/, whose files hold no paths of imports.
_BOARD = {"board": {"_target_": "drobench.app.multirun.NoteFolder"}}


@dataclass
class RunConfig:
    """One run, in the order of the data flow."""

    dataset: Any = MISSING
    problem: Any = MISSING
    model: Any = MISSING
    solver: Any = MISSING
    reformulation: ReformulationConfig = field(default_factory=ReformulationConfig)
    budget: BudgetConfig = MISSING
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    trainer: TrainerConfig = MISSING
    logger: Any = MISSING
    seed: int = 0
    """Of the start and of all sampling; `dataset.seed` fixes instance and split."""
    timeout: float | None = None
    """Seconds after which the whole run is given up; null: never."""
    trust: str = "same"
    """What a stored run must have in common with the code here to be taken instead of being computed: `same`, the code
    itself; `patch`, the versions of its packages up to the last number; `any`, nothing."""
    results: str = "results"
    """The folder of results."""

    def __post_init__(self) -> None:
        if self.seed > LARGEST_SEED:
            raise SettingError(f"RunConfig.seed must be at most {LARGEST_SEED}; found {shown(self.seed)}.")
        require_non_negative(self, "seed")
        require_positive(self, "timeout")
        require_one_of(self, "trust", ("same", "patch", "any"))
        # Neither Hydra nor a variable of the environment does what a shell does with ~.
        self.results = str(at_home(Path(self.results)))


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
    store.store(group="hydra/callbacks", name="board", node=_BOARD)
    for group, entries in _groups(catalogue).items():
        for found in entries.values():
            store.store(group=group, name=found.entry.name, node=structured(found))


def _groups(catalogue: Catalogue) -> dict[str, Mapping[str, Registered[Any]]]:
    return {group: getattr(catalogue, f"{group}s") for group in CHOSEN_GROUPS}


def structured(found: Registered[Any]) -> DictConfig:
    """Return the settings of a plugin as Hydra takes them.

    Raises:
        ConfigError: If they are of types that it does not know.
    """
    try:
        node = _node(schema(found))
        for item in dataclasses.fields(found.entry.config):
            if isinstance(value := node._get_node(item.name), DictConfig) and OmegaConf.get_type(value) is dict:
                # A mapping without keys of its own, such as the settings of a loss: any key may be set in it.
                OmegaConf.set_struct(value, False)
        return node
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


def group_names(catalogue: Catalogue) -> dict[str, Sequence[str]]:
    """Return the names that each group offers: those of plugins, and those of files."""
    folders = (folder for folder in data_dir("conf").iterdir() if folder.is_dir())
    files = {folder.name: tuple(file.stem for file in folder.glob("*.yaml")) for folder in folders}
    return {**files, **{group: tuple(entries) for group, entries in _groups(catalogue).items()}}


def compose(overrides: Sequence[str], catalogue: Catalogue) -> DictConfig:
    """Return the configuration that `drobench run OVERRIDES` would use; call within `hydra_ready`."""
    words = with_home(overrides)
    check_overrides(words, group_names(catalogue))
    try:
        return hydra.compose(CONFIG_NAME, words)
    except Exception as error:  # nothing of ours or of a plugin runs here, and Hydra raises whatever broke inside it
        raise ConfigError(explain(error, catalogue)) from error


def resolve(config: DictConfig) -> RunConfig:
    """Return plain dataclasses; this is where impossible values are refused."""
    try:
        refuse_added_keys(config)
        refuse_other_names(config, CHOSEN_GROUPS)
        with exits_raise():
            found = cast(RunConfig, OmegaConf.to_object(config))
    except OmegaConfBaseException as error:
        raise ConfigError(_first_lines(error)) from error
    except DrobenchError:
        raise
    except (Exception, SystemExit) as error:  # the `__post_init__` of a plugin's config may raise anything
        raise ConfigError(_blamed(config, error)) from error
    refuse_other_kinds(found)
    refuse_interpolations(plain(found), "The configuration")
    return found


def _blamed(config: DictConfig, error: BaseException) -> str:
    """Say which part of a configuration could not be made: the one that cannot be made alone either."""
    text = attempt_to_end(error) if isinstance(error, SystemExit) else reason_of(error)
    for group in (name for name in CHOSEN_GROUPS if not OmegaConf.is_missing(config, name)):
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


def plain(config: RunConfig) -> dict[str, Any]:
    """Return the configuration as nested plain values, in the order of the data flow."""
    return dataclasses.asdict(config)


def to_yaml(config: RunConfig) -> str:
    """Return the configuration as YAML."""
    return OmegaConf.to_yaml(OmegaConf.create(plain(config)))


def stored_mapping(text: str) -> dict[str, Any]:
    """Return the plain values of a stored configuration, which may be a stranger's: nothing is filled in.

    Raises:
        DrobenchError: It is no YAML, no mapping, stands for too many values, or has something that would be filled in.
    """
    what = "The stored configuration"
    loaded = read_plain_yaml(text, what)
    if not isinstance(loaded, dict):
        raise ConfigError(f"{what} must be a mapping of settings; found {shown(loaded)}.")
    refuse_interpolations(loaded, what)
    return loaded


def with_plugin_models(values: dict[str, Any]) -> dict[str, Any]:
    """Return a stored configuration as it would be stored now: linear models once had the widths of networks too."""
    model = values.get("model")
    if isinstance(model, dict) and model.get("name") == "linear" and model.get("hidden") == []:
        return {**values, "model": {name: value for name, value in model.items() if name != "hidden"}}
    return values


def from_yaml(text: str, catalogue: Catalogue, *, logged: bool = False) -> RunConfig:
    """Return the typed configuration that `to_yaml` wrote, checked against the plugins installed now.

    Args:
        text: The YAML.
        catalogue: The plugins.
        logged: Whether the run goes to its logger. If not, it is nobody's business whose account and project it was
            logged to, nor whether that logger is here, and the configuration has none.
    """
    loaded = with_plugin_models(stored_mapping(text))
    if not logged:
        loaded["logger"] = {"name": NO_LOGGER}
    base = OmegaConf.structured(RunConfig)
    for group, entries in _groups(catalogue).items():
        settings = loaded.get(group)
        name = str(settings.get("name") if isinstance(settings, dict) else settings)
        if name not in entries:
            getattr(catalogue, group)(name)
        base[group] = structured(entries[name])
    try:
        merged = cast(DictConfig, OmegaConf.merge(base, loaded))
    except Exception as error:  # omegaconf converts values of any kind, and fails there in ways of its own
        raise ConfigError(f"The stored configuration cannot be used: {_first_lines(error)}") from error
    return resolve(merged)


def explain(error: Exception, catalogue: Catalogue) -> str:
    """Say what is wrong with a configuration, with the nearest name that would have been right."""
    text = _first_lines(error)
    missing = re.search(r"Could not find '([\w/]+)/([^'/]+)'", str(error))
    if isinstance(error, MissingConfigException) and missing:
        group, name = missing.groups()
        if group in CHOSEN_GROUPS:
            known: Sequence[str] = tuple(_groups(catalogue)[group])
        else:
            known = tuple(error.options or ())
        troubles = "".join(f"\n  {trouble}" for trouble in catalogue.troubles) if group in CHOSEN_GROUPS else ""
        note = f"\nPlugins that could not be used:{troubles}" if troubles else ""
        return (
            f"There is no {group} called {name!r}.{did_you_mean(name, known)} "
            f"{group}=... can be: {', '.join(sorted(known))}.{note}"
        )
    unknown = re.search(r"full_key: ([\w.]+)", str(error.__cause__ or error))
    if unknown and "not in" in str(error.__cause__ or error):
        key = unknown.group(1)
        owners = _owners(key, catalogue)
        if owners:
            group, name = key.split(".")[:2]
            chosen = _chosen(group, str(error.__cause__ or error), catalogue)
            having = f"it is one of {group}={', '.join(owners)}"
            return f"The {group} that was chosen{chosen} has no setting `{name}`; {having}."
        return f"There is no setting `{key}`.{did_you_mean(key, _all_keys(catalogue))} See `drobench run --cfg job`."
    return text


def _owners(key: str, catalogue: Catalogue) -> list[str]:
    """Return the plugins that have the setting, where others of their group were chosen."""
    group, _, name = key.partition(".")
    return [
        called
        for called, found in _groups(catalogue).get(group, {}).items()
        if name in {item.name for item in dataclasses.fields(found.entry.config)}
    ]


def _chosen(group: str, message: str, catalogue: Catalogue) -> str:
    """Return which plugin omegaconf complains of, where its class belongs to one alone; in a grid it may be any."""
    kind = re.search(r"(?:object_type=|not in ')(\w+)", message)
    names = [
        called
        for called, found in _groups(catalogue)[group].items()
        if kind is not None and found.entry.config.__name__ == kind.group(1)
    ]
    return f", {names[0]}," if len(names) == 1 else ""


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
    return " ".join(dict.fromkeys(kept)) or f"Hydra cannot make sense of it ({type(error).__name__})."

"""What a composed configuration must not be, although Hydra would take it."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from omegaconf import DictConfig, OmegaConf

from drobench.app.overrides import ConfigError, shown
from drobench.app.plain_yaml import INTERPOLATION, texts
from drobench.registry.hints import did_you_mean


def refuse_added_keys(node: DictConfig, path: str = "") -> None:
    """Refuse what `+key=value` adds: it would change nothing, and its author would believe that it did."""
    kind = OmegaConf.get_type(node)
    known = {item.name for item in dataclasses.fields(kind)} if dataclasses.is_dataclass(kind) else None
    for name in node:
        place = path + str(name)
        if known is not None and name not in known:
            raise ConfigError(f"There is no setting `{place}`.{did_you_mean(str(name), known)} It cannot be added.")
        # What an interpolation stands for need not be what its place is for.
        inner = None if OmegaConf.is_missing(node, name) else node[name]
        if isinstance(inner, DictConfig):
            refuse_added_keys(inner, f"{place}.")


def refuse_other_names(config: DictConfig, groups: Sequence[str]) -> None:
    """Refuse `problem.name=...`: what is computed would stay as it was, and be stored under the other name."""
    for group in groups:
        kind = OmegaConf.get_type(config, group)
        chosen = getattr(kind, "name", None)
        found = config[group].get("name") if isinstance(chosen, str) else None
        if not isinstance(chosen, str) or found is None:
            raise ConfigError(f"A run needs a {group}: {group}=NAME. `drobench plugins` lists what is installed.")
        if found != chosen:
            raise ConfigError(
                f"{group}.name={found} would rename {chosen!r} and compute it all the same. `{group}={found}` is meant."
            )


def refuse_other_kinds(config: Any) -> None:
    """Refuse one group in the place of another, which an interpolation can put there: `budget=${evaluation}`."""
    for item in dataclasses.fields(config):
        value = getattr(config, item.name)
        if isinstance(item.type, type) and dataclasses.is_dataclass(item.type) and not isinstance(value, item.type):
            raise ConfigError(f"{item.name} must be settings of its own kind; found {shown(value)}.")


def refuse_interpolations(values: Any, what: str) -> None:
    """Refuse what would be replaced when it is read again, by something of whoever reads it."""
    for place, text in texts(values):
        if INTERPOLATION in text:
            raise ConfigError(
                f"{what} has {shown(text)} as `{place}`. Values are written out: nothing of the environment or of "
                "other settings is filled in."
            )

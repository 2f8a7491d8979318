"""The settings of a run as they are explained: those of each plugin, those of each group of the framework."""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, NamedTuple, get_type_hints

from omegaconf import MISSING

from drobench.app.config import RunConfig
from drobench.registry import Catalogue, Registered
from drobench.registry.explanations import Setting, settings_of


class Kind(NamedTuple):
    """One word that `drobench help` knows.

    Attributes:
        plugins: What is installed of this kind; empty for settings of the framework.
        settings: The settings of the framework under this word; empty for a kind that has none.
    """

    plugins: Mapping[str, Registered[Any]]
    settings: list[Setting]


RUN = "run"
"""The word for the settings of a run that are in no group."""
_SINGULARS = {"losses": "loss"}


def kinds_of(catalogue: Catalogue) -> dict[str, Kind]:
    """Return everything that can be explained, by the word that it is asked for with."""
    hints = get_type_hints(RunConfig)
    groups = {
        name: settings_of(hint)
        for name, hint in hints.items()
        if isinstance(hint, type) and dataclasses.is_dataclass(hint)
    }
    alone = [setting for setting in settings_of(RunConfig) if setting.name not in groups and setting.default != MISSING]
    # `losses` is of losses, all others have an s.
    plugins = {
        "loss" if plural == "losses" else plural.removesuffix("s"): it for plural, it in catalogue.of_kinds().items()
    }
    found = {name: Kind(plugins.get(name, {}), groups.get(name, [])) for name in (*plugins, *groups)}
    return {**found, RUN: Kind({}, alone)}


def written(value: Any) -> str:
    """Return a value as it is written in a configuration."""
    return value if isinstance(value, str) and value else json.dumps(value, default=str)

"""What was asked of a run, and nothing else: the content of its `run_id`.

Settings at their defaults do not enter, so that a new setting with a default leaves every older id as it is. What a
default means may change with time, and is then another question under the same words; the version of the config that
an entry states tells them apart. Which code gave the answer is no part of the question: the record says it, and
`freshness` compares it with the code that is here.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from drobench.app.code import OWN_DISTRIBUTION, plugins_of
from drobench.app.config import PLUGIN_GROUPS, RunConfig
from drobench.registry import Catalogue
from drobench.results.record import Record, content_id

OWN_GROUPS = ("model", "reformulation", "budget", "evaluation")
"""Groups of settings that belong to the framework and shape the result."""

OWN_CONFIG_CHANGES: tuple[str, ...] = ()
"""One line for each change of what a default of these groups means, as `Entry.config_changes` for plugins."""


def asked_of(config: RunConfig, catalogue: Catalogue, data_sha256: str) -> dict[str, Any]:
    """Return what was asked: settings that are not at their defaults, seed, precision, processes, data.

    The logger, paths, threads and hardware are left out on purpose: they change how a result is obtained, not which.
    """
    origins = plugins_of(config, catalogue)
    for group in ("model", "loss"):
        found = origins.get(group)
        if found is not None and (found.distribution, found.entry.config_version) == (OWN_DISTRIBUTION, 1):
            # Runs with ours have the ids that they had before models and losses were plugins.
            del origins[group]
    return {
        **{group: settings_beyond_defaults(getattr(config, group)) for group in (*PLUGIN_GROUPS, *OWN_GROUPS)},
        "seed": config.seed,
        "dtype": config.trainer.dtype,
        "processes": config.trainer.processes,
        "plugins": {group: [found.distribution, found.entry.config_version] for group, found in origins.items()},
        "config_version": 1 + len(OWN_CONFIG_CHANGES),
        "data_sha256": data_sha256,
    }


def identify(config: RunConfig, catalogue: Catalogue, data_sha256: str) -> str:
    """Return the run's id."""
    return content_id(asked_of(config, catalogue, data_sha256))


def settings_beyond_defaults(settings: Any) -> dict[str, Any]:
    """Return the settings of a dataclass that differ from its defaults, and its `name` in any case."""
    values = {item.name: _stored(getattr(settings, item.name)) for item in dataclasses.fields(settings)}
    defaults = default_settings(type(settings))
    return {name: value for name, value in values.items() if name == "name" or value != defaults[name]}


def default_settings(config: type) -> dict[str, Any]:
    """Return the defaults of a dataclass of settings, as they are stored."""
    return {item.name: _stored(_default(item)) for item in dataclasses.fields(config)}


def _default(item: "dataclasses.Field[Any]") -> Any:
    # By its type: a class that was sent to another process has a mark of its own for what is missing.
    factory: Any = item.default_factory
    return item.default if isinstance(factory, type(dataclasses.MISSING)) else factory()


def _stored(value: Any) -> Any:
    """Return a value as it is stored: of nested settings what differs from their defaults, sequences as lists."""
    if dataclasses.is_dataclass(value):
        return settings_beyond_defaults(value)
    return [_stored(item) for item in value] if isinstance(value, list | tuple) else value


def wholly_asked(record: Record, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the id of a run was made of until 0.2.0: its whole configuration, and the versions of the plugins.

    Args:
        record: The run, which tells the versions and the data.
        values: Its configuration as it was stored.
    """
    trainer = values["trainer"]
    return {
        **{group: values[group] for group in (*PLUGIN_GROUPS, *OWN_GROUPS)},
        "seed": values["seed"],
        "dtype": trainer["dtype"],
        "processes": trainer["devices"] * trainer["nodes"],
        "plugins": {
            group: [getattr(record, group).distribution, getattr(record, group).version] for group in PLUGIN_GROUPS
        },
        "data_sha256": record.dataset.sha256,
    }

"""A loss of a score and a target, by its name and settings."""

import dataclasses
import typing
from collections.abc import Mapping
from typing import Any

from drobench.errors import SettingError
from drobench.objective.score_losses import ScoreLoss
from drobench.registry.catalogue import Catalogue
from drobench.registry.entries import LossEntry
from drobench.registry.hints import did_you_mean

_PLAIN = (bool, int, float, str)


def loss_called(name: str, settings: Mapping[str, Any], task: str, catalogue: Catalogue) -> ScoreLoss:
    """Return the loss.

    Args:
        name: What it is called in the catalogue.
        settings: Its settings that are not at their defaults.
        task: What it is to be a loss of, `classification` or `regression`.
        catalogue: Where it is to be found.

    Raises:
        SettingError: There is no such loss for this task, or it has no such setting, or not of this type.
    """
    entry = _entry_called(name, task, catalogue)
    loss: ScoreLoss = entry.factory(_config(entry, settings))
    return loss


def loss_settings(name: str, settings: Mapping[str, Any], task: str, catalogue: Catalogue) -> dict[str, Any]:
    """Return the settings of a loss that differ from its defaults, in their own types: equal losses, equal words.

    Raises:
        SettingError: As for `loss_called`.
    """
    entry = _entry_called(name, task, catalogue)
    given, defaults = _config(entry, settings), entry.config()
    values = {setting: getattr(given, setting) for setting in settings}
    return {setting: value for setting, value in values.items() if value != getattr(defaults, setting)}


def _entry_called(name: str, task: str, catalogue: Catalogue) -> LossEntry:
    known = [called for called, found in catalogue.losses.items() if found.entry.task == task]
    if name not in known:
        raise SettingError(
            f"problem.loss must be one of {', '.join(known)}, the losses of {task}; found {name!r}."
            f"{did_you_mean(name, known)} Change `problem.loss=`."
        )
    return catalogue.loss(name).entry


def _config(entry: LossEntry, settings: Mapping[str, Any]) -> Any:
    names = [item.name for item in dataclasses.fields(entry.config)]
    strange = [setting for setting in settings if setting not in names]
    if strange:
        raise SettingError(
            f"problem.loss_settings must be settings of the loss {entry.name!r}, which has "
            f"{', '.join(names) or 'none'}; found {strange[0]!r}.{did_you_mean(str(strange[0]), names)} Change "
            "`problem.loss_settings=`."
        )
    types = typing.get_type_hints(entry.config)
    return entry.config(**{name: _typed(entry, name, types[name], value) for name, value in settings.items()})


def _typed(entry: LossEntry, name: str, wanted: Any, value: Any) -> Any:
    """Return the value in the type of its setting; a whole number will do where any is wanted."""
    if wanted is float and type(value) is int:
        return float(value)
    if wanted in _PLAIN and type(value) is not wanted:
        raise SettingError(
            f"problem.loss_settings: {name!r} of the loss {entry.name!r} must be a {wanted.__name__}; found {value!r}. "
            "Change `problem.loss_settings=`."
        )
    return value

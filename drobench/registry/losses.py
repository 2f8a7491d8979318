"""A loss of a score and a target, by its name and settings."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from drobench.errors import SettingError
from drobench.objective.score_losses import ScoreLoss
from drobench.registry.catalogue import Catalogue
from drobench.registry.hints import did_you_mean


def loss_called(name: str, settings: Mapping[str, Any], task: str, catalogue: Catalogue) -> ScoreLoss:
    """Return the loss.

    Args:
        name: What it is called in the catalogue.
        settings: Its settings that are not at their defaults.
        task: What it is to be a loss of, `classification` or `regression`.
        catalogue: Where it is to be found.

    Raises:
        SettingError: There is no such loss for this task, or it has no such setting.
    """
    known = [called for called, found in catalogue.losses.items() if found.entry.task == task]
    if name not in known:
        raise SettingError(
            f"problem.loss must be one of {', '.join(known)}, the losses of {task}; found {name!r}."
            f"{did_you_mean(name, known)} Change `problem.loss=`."
        )
    entry = catalogue.loss(name).entry
    names = [item.name for item in dataclasses.fields(entry.config)]
    strange = [setting for setting in settings if setting not in names]
    if strange:
        raise SettingError(
            f"problem.loss_settings must be settings of the loss {name!r}, which has {', '.join(names) or 'none'}; "
            f"found {strange[0]!r}.{did_you_mean(strange[0], names)} Change `problem.loss_settings=`."
        )
    loss: ScoreLoss = entry.factory(entry.config(**settings))
    return loss

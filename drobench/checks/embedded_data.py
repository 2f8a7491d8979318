"""Data that are at hand for whatever needs some: installed, embedded, with their defaults, and not too many of them."""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

from drobench.data.dataset import Dataset
from drobench.errors import DrobenchError, SettingError
from drobench.registry import Catalogue, load_catalogue
from drobench.registry.hints import did_you_mean

# Data that are generated have their size as a setting, and checks look at a few hundred rows.
_MOST = {"rows": 3000, "queries": 20}


def dataset_called(name: str, settings: Mapping[str, Any], catalogue: Catalogue) -> Dataset:
    """Return an installed dataset, with these settings.

    Raises:
        DrobenchError: There is none of this name, it has no such setting, or it cannot be loaded.
    """
    entry = catalogue.dataset(name).entry
    known = [field.name for field in dataclasses.fields(entry.config)]
    strange = [setting for setting in settings if setting not in known]
    if strange:
        raise SettingError(
            f"Settings of dataset {name!r} are {', '.join(known)}; found {strange[0]!r}."
            f"{did_you_mean(strange[0], known)}"
        )
    found: Dataset = entry.factory(entry.config(**settings))
    return found


def fitting_dataset(needs: frozenset[str], catalogue: Catalogue) -> Dataset | None:
    """Return the first installed dataset that provides all of this and has not to be fetched; `None`: there is none."""
    for name, found in catalogue.datasets.items():
        if not needs <= found.entry.provides or found.entry.files or found.entry.intake:
            continue
        dataset = _embedded(name)
        if dataset is not None and needs <= dataset.provides:
            return dataset
    return None


@functools.cache
def _embedded(name: str) -> Dataset | None:
    """Return an installed dataset with its defaults; `None` where these will not do."""
    entry = load_catalogue().dataset(name).entry
    try:
        found: Dataset = entry.factory(_smaller(entry.config()))
    except DrobenchError:
        return None
    return found


def _smaller(config: Any) -> Any:
    """Return settings with sizes of at most what checks have a use for."""
    sizes = {field.name: getattr(config, field.name) for field in dataclasses.fields(config) if field.name in _MOST}
    return dataclasses.replace(config, **{name: _at_most(size, _MOST[name]) for name, size in sizes.items()})


def _at_most(size: Any, most: int) -> Any:
    if isinstance(size, list):
        return [_at_most(part, most) for part in size]
    return min(size, most) if type(size) is int else size

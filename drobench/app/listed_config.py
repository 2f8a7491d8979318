"""From a configuration that was composed of a list of plugins to one that the plugins themselves have checked."""

from typing import Any, cast

from omegaconf import DictConfig, OmegaConf

from drobench.app.config import CHOSEN_GROUPS, RunConfig, schema, structured
from drobench.app.config_checks import refuse_added_keys, refuse_other_names
from drobench.registry import Catalogue


def refuse_by_list(composed: DictConfig) -> None:
    """Refuse what can be seen to be wrong without the plugins, before they are imported; `resolve` refuses it too."""
    refuse_added_keys(composed)
    refuse_other_names(composed, CHOSEN_GROUPS)


def of_plugins(composed: DictConfig, catalogue: Catalogue) -> DictConfig:
    """Return the same settings in the plugins' own dataclasses, whose checks `resolve` then makes.

    Args:
        composed: What Hydra made of a list, maybe in another process; one of the plugins' own is returned as it is.
        catalogue: The plugins, not a list of them.

    Raises:
        UnknownName: If a plugin that was on the list is not there.
    """
    chosen: dict[str, Any] = {group: OmegaConf.get_type(composed, group) for group in CHOSEN_GROUPS}
    own = {group: getattr(catalogue, group)(kind.name) for group, kind in chosen.items()}
    if all(schema(found) is chosen[group] for group, found in own.items()):
        return composed
    base = OmegaConf.structured(RunConfig)
    for group, found in own.items():
        base[group] = structured(found)
    return cast(DictConfig, OmegaConf.merge(base, OmegaConf.to_container(composed, resolve=False)))

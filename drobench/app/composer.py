"""Composing many configurations that mostly choose the same plugins, such as the cells of a sweep.

Hydra takes a quarter of a second to compose one. Nearly all of that goes into the choices of groups (`solver=gcivr`);
settings (`solver.batch=8`) are afterwards written into the result, one by one. So the choices are composed once, and
their settings are written into copies.
"""

import copy
from collections.abc import Sequence

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from omegaconf import DictConfig, OmegaConf

from drobench.app.config import CHOSEN_GROUPS, compose, data_dir
from drobench.registry import Catalogue


class Composer:
    """Composes within `hydra_ready`, and remembers what it has composed."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        self.groups = {*CHOSEN_GROUPS, *(folder.name for folder in data_dir("conf").iterdir() if folder.is_dir())}
        self._parser = OverridesParser.create()
        self._parsed: dict[str, Override] = {}
        self._composed: dict[tuple[str, ...], DictConfig] = {}

    def compose(self, words: Sequence[str]) -> DictConfig:
        """Return what `compose` returns, sooner if the same groups were chosen before."""
        choices = tuple(word for word in words if word.split("=", 1)[0] in self.groups)
        try:
            overrides = [self._parse(word) for word in words if word not in choices]
            if not all(_is_a_setting(override) for override in overrides):
                return compose(words, self.catalogue)
            if choices not in self._composed:
                self._composed[choices] = compose(choices, self.catalogue)
            config = copy.deepcopy(self._composed[choices])
            for override in overrides:
                OmegaConf.update(config, override.key_or_group, override.value(), merge=True)
        except Exception:  # not only Hydra's own errors come out of it
            # Refused: once more the long way, whose complaint is the one that people know.
            return compose(words, self.catalogue)
        return config

    def _parse(self, word: str) -> Override:
        if word not in self._parsed:
            self._parsed[word] = self._parser.parse_override(word)
        return self._parsed[word]


def _is_a_setting(override: Override) -> bool:
    """Whether an override just sets an existing key to one value."""
    added = override.is_add() or override.is_force_add() or override.is_delete()
    return not added and not override.is_sweep_override() and override.package is None

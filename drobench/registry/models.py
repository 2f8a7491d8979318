"""A model as a problem is given it, of an entry and its settings."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from drobench.objective.models import Model
from drobench.registry.catalogue import Catalogue
from drobench.registry.entries import ModelEntry


@dataclass(frozen=True)
class PluginModel(Model):
    """The model of an entry, with its settings."""

    entry: ModelEntry
    settings: Any

    @property
    def name(self) -> str:  # type: ignore[override]  # read-only here
        """The name of the entry."""
        return self.entry.name

    @property
    def shaped(self) -> bool:  # type: ignore[override]  # read-only here
        """Whether rows come in their shape: where it is asked for."""
        return bool(self.entry.needs)

    @property
    def intercept(self) -> bool:
        """Whether a linear model has one, by its setting of this name."""
        return bool(getattr(self.settings, "intercept", True))

    def module(self, shape: tuple[int, ...], outputs: int) -> nn.Module:
        made: nn.Module = self.entry.factory(self.settings, shape, outputs)
        return made

    def fill(self, module: nn.Module, generator: torch.Generator) -> bool:
        if self.entry.start is None:
            return False
        self.entry.start(module, generator)
        return True


def model_of(settings: Any, catalogue: Catalogue) -> Model:
    """Return the model that a configuration names, with its settings."""
    return PluginModel(catalogue.model(settings.name).entry, settings)

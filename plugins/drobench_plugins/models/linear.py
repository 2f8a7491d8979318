"""A linear model: one score, or one for each class, as weights times features plus an intercept.

Convex losses stay convex functions of its parameters, and derivatives are in closed form. It starts at zero.
"""

import math
from dataclasses import dataclass

from torch import nn

from drobench.objective.models import affine
from drobench.registry import ModelEntry


@dataclass
class LinearConfig:
    """Settings of a linear model."""

    intercept: bool = True
    """Whether every score has a constant of its own."""


def linear(config: LinearConfig, shape: tuple[int, ...], outputs: int) -> nn.Module:
    """Return one affine layer."""
    return affine(math.prod(shape), outputs, config.intercept)


def entry() -> ModelEntry:
    """Return the catalogue entry."""
    return ModelEntry(
        name="linear",
        summary="Weights times features plus an intercept; closed forms, starts at zero.",
        reference="textbook",
        config=LinearConfig,
        factory=linear,
    )

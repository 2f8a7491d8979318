"""A fully connected network with rectified hidden layers, drawn uniformly from `±1/sqrt(fan in)`."""

import math
from dataclasses import dataclass, field

from torch import nn

from drobench.objective.models import check_widths, fill_by_fan_in, perceptron
from drobench.registry import ModelEntry


@dataclass
class MlpConfig:
    """Settings of a fully connected network."""

    hidden: list[int] = field(default_factory=lambda: [128, 128])
    """Widths of the hidden layers."""
    intercept: bool = True
    """Whether the layers have biases."""

    def __post_init__(self) -> None:
        check_widths("MlpConfig.hidden", self.hidden)


def mlp(config: MlpConfig, shape: tuple[int, ...], outputs: int) -> nn.Module:
    """Return the network."""
    return perceptron(math.prod(shape), outputs, list(config.hidden), config.intercept)


def entry() -> ModelEntry:
    """Return the catalogue entry."""
    return ModelEntry(
        name="mlp",
        summary="Fully connected network with rectified hidden layers.",
        reference="textbook",
        config=MlpConfig,
        factory=mlp,
        start=fill_by_fan_in,
    )

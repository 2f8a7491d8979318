"""Predictors: from one flat parameter vector and a feature matrix to scores."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from itertools import pairwise

import torch
from torch import Tensor

from drobench.errors import SettingError, require_one_of
from drobench.objective.losses import (
    LinearMarginLosses,
    LinearScoreLosses,
    Losses,
    MarginLoss,
    NetworkLosses,
    ScoreLoss,
)


@dataclass
class ModelConfig:
    """Which predictor, and its shape."""

    name: str = "linear"
    intercept: bool = True
    hidden: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        require_one_of(self, "name", ("linear", "mlp"))
        if self.name == "mlp" and (not self.hidden or min(self.hidden) < 1):
            raise SettingError(f"model.hidden must list at least one positive width; found {self.hidden}.")


class Predictor(ABC):
    """A model without state: parameters come in as one flat vector."""

    dimension: int

    outputs: int
    """Number of scores per row: 1 for two classes, else the number of classes."""

    @abstractmethod
    def scores(self, point: Tensor, features: Tensor) -> Tensor:
        """Return the scores at parameters `point`: `(rows,)` for one output, else `(rows, outputs)`."""

    @abstractmethod
    def start(self, generator: torch.Generator) -> Tensor:
        """Return the initial parameters, in float64."""

    @abstractmethod
    def losses(self, features: Tensor, targets: Tensor, loss: ScoreLoss) -> Losses:
        """Return the losses of these samples as functions of the parameters."""


class LinearPredictor(Predictor):
    """`<w, a>`, or `<w, a> + b` with the intercept `b` last; one such block per output. Starts at zero."""

    def __init__(self, inputs: int, intercept: bool, outputs: int = 1) -> None:
        self.intercept = intercept
        self.outputs = outputs
        self.dimension = outputs * (inputs + int(intercept))

    def scores(self, point: Tensor, features: Tensor) -> Tensor:
        blocks = point.view(self.outputs, -1)
        weights = blocks[:, :-1] if self.intercept else blocks
        scores = features @ weights.T
        if self.intercept:
            scores = scores + blocks[:, -1]
        return scores[:, 0] if self.outputs == 1 else scores

    def start(self, generator: torch.Generator) -> Tensor:
        return torch.zeros(self.dimension, dtype=torch.float64)

    def losses(self, features: Tensor, targets: Tensor, loss: ScoreLoss) -> Losses:
        if self.intercept:
            features = torch.cat([features, features.new_ones(features.shape[0], 1)], dim=1)
        if isinstance(loss, MarginLoss):
            return LinearMarginLosses(features, targets, loss)
        if self.outputs > 1:
            return LinearScoreLosses(features, self.outputs, targets, loss)
        return NetworkLosses(lambda point, rows: rows @ point, self.dimension, features, targets, loss)


class NetworkPredictor(Predictor):
    """Fully connected network with rectified hidden layers."""

    def __init__(self, inputs: int, hidden: list[int], intercept: bool, outputs: int = 1) -> None:
        self.outputs = outputs
        widths = [inputs, *hidden, outputs]
        layers: list[torch.nn.Module] = []
        for fan_in, fan_out in pairwise(widths):
            layers += [torch.nn.Linear(fan_in, fan_out, bias=intercept, device="meta"), torch.nn.ReLU()]
        # On the meta device the module is a plan without memory; the numbers always come from the flat vector.
        self.network = torch.nn.Sequential(*layers[:-1])
        self.shapes = {name: tuple(value.shape) for name, value in self.network.named_parameters()}
        self.dimension = sum(math.prod(shape) for shape in self.shapes.values())

    def scores(self, point: Tensor, features: Tensor) -> Tensor:
        pieces = torch.split(point, [math.prod(shape) for shape in self.shapes.values()])
        parameters = {name: piece.view(shape) for (name, shape), piece in zip(self.shapes.items(), pieces, strict=True)}
        output: Tensor = torch.func.functional_call(self.network, parameters, (features,))
        return output.squeeze(-1) if self.outputs == 1 else output

    def start(self, generator: torch.Generator) -> Tensor:
        """Draw each layer uniformly from `±1/sqrt(fan in)`, the rule of `torch.nn.Linear`."""
        pieces = []
        bound = 0.0
        for shape in self.shapes.values():
            # A bias follows its weight matrix and has no fan-in of its own.
            bound = 1.0 / math.sqrt(shape[1]) if len(shape) == 2 else bound
            pieces.append((2.0 * torch.rand(math.prod(shape), generator=generator, dtype=torch.float64) - 1.0) * bound)
        return torch.cat(pieces)

    def losses(self, features: Tensor, targets: Tensor, loss: ScoreLoss) -> Losses:
        return NetworkLosses(self.scores, self.dimension, features, targets, loss)


def build_predictor(config: ModelConfig, inputs: int, classes: int = 2) -> Predictor:
    """Return the predictor that `config` describes: one score for two classes, else one per class."""
    outputs = 1 if classes == 2 else classes
    if config.name == "linear":
        return LinearPredictor(inputs, config.intercept, outputs)
    return NetworkPredictor(inputs, config.hidden, config.intercept, outputs)


def predict_classes(scores: Tensor) -> Tensor:
    """Return the predicted classes: the sign of one score, or the largest of several."""
    return (scores > 0).to(torch.int64) if scores.dim() == 1 else scores.argmax(dim=-1)

"""Predictors: from one flat parameter vector and a feature matrix to scores."""

import math

import torch
from torch import Tensor

from drobench.objective.losses import (
    LinearMarginLosses,
    LinearScoreLosses,
    LinearTargetLosses,
    Losses,
    MarginLoss,
    ScoreLoss,
)
from drobench.objective.models import Model, ModelConfig, Predictor
from drobench.objective.module_predictor import ModulePredictor, made_module

__all__ = [
    "LinearPredictor",
    "Model",
    "ModelConfig",
    "Predictor",
    "build_predictor",
    "predict_classes",
    "probabilities",
]


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

    @torch.no_grad()
    def module(self, point: Tensor) -> torch.nn.Module:
        blocks = point.to(torch.float64).view(self.outputs, -1)
        weights = blocks[:, :-1] if self.intercept else blocks
        layer = torch.nn.Linear(weights.shape[1], self.outputs, bias=self.intercept, dtype=torch.float64)
        layer.weight.copy_(weights)
        if self.intercept:
            layer.bias.copy_(blocks[:, -1])
        return layer

    def losses(self, features: Tensor, targets: Tensor, loss: ScoreLoss) -> Losses:
        if self.intercept:
            features = torch.cat([features, features.new_ones(features.shape[0], 1)], dim=1)
        if isinstance(loss, MarginLoss):
            return LinearMarginLosses(features, targets, loss)
        if self.outputs > 1:
            return LinearScoreLosses(features, self.outputs, targets, loss)
        return LinearTargetLosses(features, targets, loss)


def build_predictor(model: Model, inputs: int | tuple[int, ...], classes: int = 2) -> Predictor:
    """Return a predictor of the model: one score for two classes or a number, else one per class.

    Args:
        model: The model.
        inputs: The number of columns, or the shape of one row.
        classes: Number of classes; 0 where the targets are numbers.
    """
    shape = (inputs,) if isinstance(inputs, int) else inputs
    if not model.shaped:
        shape = (math.prod(shape),)
    outputs = classes if classes > 2 else 1
    module = made_module(model, shape, outputs)
    if type(module) is torch.nn.Linear and (module.in_features, module.out_features) == (*shape, outputs):
        return LinearPredictor(module.in_features, module.bias is not None, outputs)
    return ModulePredictor(model, shape, outputs, module)


def predict_classes(scores: Tensor) -> Tensor:
    """Return the predicted classes: the sign of one score, or the largest of several."""
    return (scores > 0).to(torch.int64) if scores.dim() == 1 else scores.argmax(dim=-1)


def probabilities(scores: Tensor, link: str) -> Tensor:
    """Return the probabilities of classes, `(rows, classes)`, that scores stand for.

    Args:
        scores: `(rows,)` with `logistic`, `(rows, classes)` with `softmax`.
        link: As `ScoreLoss.link` has it.
    """
    if link == "logistic" and scores.dim() == 1:
        return torch.stack([torch.sigmoid(-scores), torch.sigmoid(scores)], dim=1)
    return torch.softmax(scores, dim=-1)

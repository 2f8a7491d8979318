"""Weights of classes in a loss: errors on one class may cost more than on another.

The loss of a row is multiplied by the weight of its class, so that the mean of losses becomes the weighted mean, and an
adversary that reweights rows sees the weighted losses. A multiple of a convex loss is one: what certificates ask for
follows from the loss itself.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from drobench.objective.score_losses import ScoreLoss


class ClassWeightedLoss(ScoreLoss):
    """`w_y l(s, y)`, for targets in {-1, +1}, or class numbers where there is a score for each class."""

    def __init__(self, loss: ScoreLoss, weights: Sequence[float]) -> None:
        self.loss = loss
        self.weights = tuple(weights)
        self.convex = loss.convex
        self.scores_each_class = loss.scores_each_class
        self.link = loss.link
        self.largest_bend = loss.largest_bend * max(weights)

    def of_rows(self, targets: Tensor, like: Tensor) -> Tensor:
        """Return the weight of each row."""
        weights = torch.tensor(self.weights, dtype=like.dtype, device=like.device)
        classes = targets if self.scores_each_class else (targets > 0).to(torch.int64)
        return weights[classes]

    def value_and_slope(self, scores: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        values, slopes = self.loss.value_and_slope(scores, targets)
        weights = self.of_rows(targets, values)
        return weights * values, (weights if slopes.shape == values.shape else weights[..., None]) * slopes

    def bends(self, scores: Tensor, targets: Tensor) -> Tensor:
        return self.of_rows(targets, scores)[:, None, None] * self.loss.bends(scores, targets)

    def score_bend(self, scores: Tensor, targets: Tensor) -> Tensor:
        return self.of_rows(targets, scores) * self.loss.score_bend(scores, targets)

    def conjugate(self, slopes: Tensor, targets: Tensor) -> Tensor | None:
        weights = self.of_rows(targets, slopes)
        found = self.loss.conjugate(slopes / weights, targets)
        return None if found is None else weights * found

    def slope_range(self, scores: Tensor, targets: Tensor, near: float) -> tuple[Tensor, Tensor]:
        weights = self.of_rows(targets, scores)
        least, largest = self.loss.slope_range(scores, targets, near)
        return weights * least, weights * largest

    def expression(self, scores: Any, targets: Any) -> Any:
        plain = self.loss.expression(scores, targets)
        if plain is None:
            return None
        import cvxpy as cp  # noqa: PLC0415  # slow to load, and only reference solvers need it

        weights = self.of_rows(torch.as_tensor(targets), torch.zeros(1, dtype=torch.float64))
        return cp.multiply(weights.numpy(), plain)


def balanced_weights(counts: Tensor) -> list[float]:
    """Return weights by which every class weighs as much as any other: rows / (classes * rows of the class).

    Their mean over the rows is one. A class without rows has no loss to be weighted.
    """
    found: list[float] = (counts.sum() / (counts.numel() * counts.clamp(min=1).to(torch.float64))).tolist()
    return found

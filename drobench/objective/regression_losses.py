"""Losses of a score `s` and a number `y` that it is to be, functions of the residual `r = s - y`."""

from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor

from drobench.objective.score_losses import ScoreLoss


class ResidualLoss(ScoreLoss):
    """A convex loss of the residual."""

    convex = True
    largest_slope: float
    """Of either sign: the Lipschitz constant, which may be infinite."""

    @abstractmethod
    def of_residual(self, residuals: Tensor) -> tuple[Tensor, Tensor]:
        """Return losses and their derivatives."""

    @abstractmethod
    def bend(self, residuals: Tensor) -> Tensor:
        """Return the second derivatives."""

    @abstractmethod
    def residual_conjugate(self, slopes: Tensor) -> Tensor:
        """Return the conjugate of the loss of the residual."""

    def value_and_slope(self, scores: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        return self.of_residual(scores - targets)

    def score_bend(self, scores: Tensor, targets: Tensor) -> Tensor:
        return self.bend(scores - targets)

    def conjugate(self, slopes: Tensor, targets: Tensor) -> Tensor:
        # A shift of the argument by y adds u y to the conjugate.
        return self.residual_conjugate(slopes) + slopes * targets


class SquaredLoss(ResidualLoss):
    """`r^2`."""

    largest_bend = 2.0
    largest_slope = float("inf")

    def of_residual(self, residuals: Tensor) -> tuple[Tensor, Tensor]:
        return residuals.square(), 2.0 * residuals

    def bend(self, residuals: Tensor) -> Tensor:
        return torch.full_like(residuals, 2.0)

    def residual_conjugate(self, slopes: Tensor) -> Tensor:
        return 0.25 * slopes.square()

    def expression(self, scores: Any, targets: Any) -> Any:
        import cvxpy as cp  # noqa: PLC0415  # slow to load, and only reference solvers need it

        return cp.power(scores - targets, 2)


class HuberLoss(ResidualLoss):
    """`r^2 / 2` up to `delta`, and from there on straight with the slope `delta`."""

    largest_bend = 1.0

    def __init__(self, delta: float) -> None:
        self.delta = delta
        self.largest_slope = delta

    def of_residual(self, residuals: Tensor) -> tuple[Tensor, Tensor]:
        slopes = residuals.clamp(-self.delta, self.delta)
        return slopes * (residuals - 0.5 * slopes), slopes

    def bend(self, residuals: Tensor) -> Tensor:
        return (residuals.abs() <= self.delta).to(residuals.dtype)

    def residual_conjugate(self, slopes: Tensor) -> Tensor:
        return 0.5 * slopes.square()

    def expression(self, scores: Any, targets: Any) -> Any:
        import cvxpy as cp  # noqa: PLC0415  # slow to load, and only reference solvers need it

        return 0.5 * cp.huber(scores - targets, self.delta)  # type: ignore[arg-type]  # any number will do


class QuantileLoss(ResidualLoss):
    """`level (-r)_+ + (1 - level) r_+`, whose minimiser is the quantile `level`; at its kink the slope is zero."""

    def __init__(self, level: float) -> None:
        self.level = level
        self.largest_slope = max(level, 1.0 - level)

    def of_residual(self, residuals: Tensor) -> tuple[Tensor, Tensor]:
        above, below = (residuals > 0).to(residuals.dtype), (residuals < 0).to(residuals.dtype)
        slopes = (1.0 - self.level) * above - self.level * below
        return slopes * residuals, slopes

    def bend(self, residuals: Tensor) -> Tensor:
        return torch.zeros_like(residuals)

    def residual_conjugate(self, slopes: Tensor) -> Tensor:
        return torch.zeros_like(slopes)

    def expression(self, scores: Any, targets: Any) -> Any:
        import cvxpy as cp  # noqa: PLC0415  # slow to load, and only reference solvers need it

        residuals = scores - targets
        return cp.maximum((1.0 - self.level) * residuals, -self.level * residuals)


class AbsoluteLoss(ResidualLoss):
    """`|r|`; at its kink the slope is zero."""

    largest_slope = 1.0

    def of_residual(self, residuals: Tensor) -> tuple[Tensor, Tensor]:
        return residuals.abs(), residuals.sign()

    def bend(self, residuals: Tensor) -> Tensor:
        return torch.zeros_like(residuals)

    def residual_conjugate(self, slopes: Tensor) -> Tensor:
        return torch.zeros_like(slopes)

    def expression(self, scores: Any, targets: Any) -> Any:
        import cvxpy as cp  # noqa: PLC0415  # slow to load, and only reference solvers need it

        return cp.abs(scores - targets)

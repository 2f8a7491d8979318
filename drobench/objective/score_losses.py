"""Losses of a score and a target, with their first and second derivatives by the score.

A loss that is convex may bring what certificates and reference solvers ask for: its conjugate, the slopes that it has
at a kink, and itself as an expression of cvxpy.
"""

import math
from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import softplus

# The default threshold of softplus (20) is wrong by 2e-9; beyond 40 the linear branch is exact in float64.
_SOFTPLUS_THRESHOLD = 40.0


def smooth_hinge(values: Tensor, width: float) -> tuple[Tensor, Tensor]:
    """Return `width softplus(v / width)`, at most `width ln 2` above `max(v, 0)`, and its derivative."""
    scaled = values / width
    return width * softplus(scaled, threshold=_SOFTPLUS_THRESHOLD), torch.sigmoid(scaled)


def smooth_hinge_bend(values: Tensor, width: float) -> Tensor:
    """Return the second derivative of `smooth_hinge`."""
    scaled = values / width
    return torch.sigmoid(scaled) * torch.sigmoid(-scaled) / width


class ScoreLoss(ABC):
    """A loss as a function of the model's scores and the targets."""

    convex: bool
    """Whether the loss is convex in the scores."""
    link: str | None = None
    """How scores become probabilities of classes: `logistic` (of one score), `softmax` (of one per class), or not."""
    largest_bend: float = math.inf
    """A bound on its second derivatives by the score, of either sign; infinite where it has kinks or none is known.

    Of several scores: on the second derivatives along any direction of length one."""
    scores_each_class: bool = False
    """Whether it takes one score for each class and class numbers as targets, which is for more than two classes. Else
    it takes one score a row, and in classification targets in {-1, +1}."""

    @abstractmethod
    def value_and_slope(self, scores: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Return losses `(..., rows)` and their derivatives by the scores, shaped as the scores."""

    def bends(self, scores: Tensor, targets: Tensor) -> Tensor:
        """Return the second derivatives for scores `(rows, classes)`: `(rows, classes, classes)`."""
        with torch.enable_grad():
            leaf = scores.detach().clone().requires_grad_(True)
            slopes = self.value_and_slope(leaf, targets)[1]
            if not slopes.requires_grad:
                # Constant, as the slopes of pieces are.
                return scores.new_zeros(*scores.shape, scores.shape[-1])
            columns = [torch.autograd.grad(of_class.sum(), leaf, retain_graph=True)[0] for of_class in slopes.unbind(1)]
        return torch.stack(columns, dim=1)

    def score_bend(self, scores: Tensor, targets: Tensor) -> Tensor:
        """Return the second derivatives for one score a row, shaped as the scores."""
        return derivative(lambda leaf: self.value_and_slope(leaf, targets)[1], scores)

    def conjugate(self, slopes: Tensor, targets: Tensor) -> Tensor | None:
        """Return `l*(u) = max over s of u s - l(s)` for slopes `u`, one of each row; `None` where it is not known.

        Slopes that the loss never has must not be asked for.
        """
        return None

    def slope_range(self, scores: Tensor, targets: Tensor, near: float) -> tuple[Tensor, Tensor]:
        """Return the least and the largest slope within `near` of each score: they differ where there is a kink."""
        return (
            self.value_and_slope(scores - near, targets)[1],
            self.value_and_slope(scores + near, targets)[1],
        )

    def expression(self, scores: Any, targets: Any) -> Any:
        """Return the losses as a convex expression of cvxpy, of an affine one and an array; `None`: there is none."""
        return None


def derivative(function: Any, at: Tensor) -> Tensor:
    """Return the derivative of an elementwise function; zero where it is constant, as slopes of pieces are."""
    with torch.enable_grad():
        leaf = at.detach().clone().requires_grad_(True)
        values = function(leaf)
        if not values.requires_grad:
            return torch.zeros_like(at)
        found: Tensor = torch.autograd.grad(values.sum(), leaf)[0]
        return found


class MarginLoss(ScoreLoss):
    """A loss of the margin `t = y s`, for labels `y` in {-1, +1} and scores `s`."""

    @abstractmethod
    def of_margin(self, margins: Tensor) -> tuple[Tensor, Tensor]:
        """Return losses and their derivatives by the margin."""

    def bend(self, margins: Tensor) -> Tensor:
        """Return the second derivatives by the margin; by automatic differentiation unless a loss knows better."""
        return derivative(lambda leaf: self.of_margin(leaf)[1], margins)

    def score_bend(self, scores: Tensor, targets: Tensor) -> Tensor:
        return self.bend(scores * targets) * targets.square()

    def value_and_slope(self, scores: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        values, slopes = self.of_margin(scores * targets)
        return values, slopes * targets

    def slope_range(self, scores: Tensor, targets: Tensor, near: float) -> tuple[Tensor, Tensor]:
        ends = [self.value_and_slope(scores + side * near, targets)[1] for side in (-1.0, 1.0)]
        return torch.minimum(*ends), torch.maximum(*ends)


class LogisticLoss(MarginLoss):
    """`ln(1 + exp(-t))`."""

    convex = True
    link = "logistic"
    largest_bend = 0.25

    def of_margin(self, margins: Tensor) -> tuple[Tensor, Tensor]:
        opposite = margins.neg()
        return softplus(opposite, threshold=_SOFTPLUS_THRESHOLD), torch.sigmoid(opposite).neg()

    def bend(self, margins: Tensor) -> Tensor:
        return torch.sigmoid(margins) * torch.sigmoid(-margins)

    def conjugate(self, slopes: Tensor, targets: Tensor) -> Tensor:
        return negative_entropy(-slopes * targets)

    def expression(self, scores: Any, targets: Any) -> Any:
        import cvxpy as cp  # noqa: PLC0415  # slow to load, and only reference solvers need it

        return cp.logistic(-cp.multiply(targets, scores))


def negative_entropy(shares: Tensor) -> Tensor:
    """Return `u ln u + (1 - u) ln(1 - u)`, zero at the ends."""
    inside = shares.clamp(0.0, 1.0)
    entropy: Tensor = torch.special.xlogy(inside, inside) + torch.special.xlog1py(1.0 - inside, -inside)
    return entropy


class HingeLoss(MarginLoss):
    """`(1 - t)_+`; at the kink the derivative from the right, zero, stands for the subdifferential."""

    convex = True

    def of_margin(self, margins: Tensor) -> tuple[Tensor, Tensor]:
        values = (1.0 - margins).clamp(min=0.0)
        return values, -(values > 0).to(margins.dtype)

    def bend(self, margins: Tensor) -> Tensor:
        return torch.zeros_like(margins)

    def conjugate(self, slopes: Tensor, targets: Tensor) -> Tensor:
        return slopes * targets

    def expression(self, scores: Any, targets: Any) -> Any:
        import cvxpy as cp  # noqa: PLC0415  # slow to load, and only reference solvers need it

        return cp.maximum(1.0 - cp.multiply(targets, scores), 0.0)


class SmoothedHingeLoss(MarginLoss):
    """`w ln(1 + exp((1 - t) / w))`, at most `w ln 2` above the hinge."""

    convex = True

    def __init__(self, width: float) -> None:
        self.width = width
        self.largest_bend = 0.25 / width

    def of_margin(self, margins: Tensor) -> tuple[Tensor, Tensor]:
        values, slopes = smooth_hinge(1.0 - margins, self.width)
        return values, -slopes

    def bend(self, margins: Tensor) -> Tensor:
        return smooth_hinge_bend(1.0 - margins, self.width)

    def conjugate(self, slopes: Tensor, targets: Tensor) -> Tensor:
        by_margin = slopes * targets
        return by_margin + self.width * negative_entropy(-by_margin)

    def expression(self, scores: Any, targets: Any) -> Any:
        import cvxpy as cp  # noqa: PLC0415  # slow to load, and only reference solvers need it

        return self.width * cp.logistic((1.0 - cp.multiply(targets, scores)) / self.width)


class Margin(MarginLoss):
    """The margin `t` itself, for reductions that need it rather than a loss of it."""

    convex = True
    largest_bend = 0.0

    def of_margin(self, margins: Tensor) -> tuple[Tensor, Tensor]:
        return margins, torch.ones_like(margins)

    def bend(self, margins: Tensor) -> Tensor:
        return torch.zeros_like(margins)


class SigmoidLoss(MarginLoss):
    """`1 / (1 + exp(t))`: bounded, smooth, not convex."""

    convex = False
    largest_bend = 1.0 / (6.0 * math.sqrt(3.0))

    def of_margin(self, margins: Tensor) -> tuple[Tensor, Tensor]:
        values = torch.sigmoid(-margins)
        return values, -values * torch.sigmoid(margins)

    def bend(self, margins: Tensor) -> Tensor:
        above, below = torch.sigmoid(margins), torch.sigmoid(-margins)
        return above * below * (above - below)


class CrossEntropyLoss(ScoreLoss):
    """`ln sum exp(s) - s_y` for scores `(..., rows, classes)` and class numbers `y`."""

    convex = True
    link = "softmax"
    largest_bend = 0.5
    scores_each_class = True

    def value_and_slope(self, scores: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        chosen = torch.nn.functional.one_hot(targets, scores.shape[-1]).to(scores.dtype)
        values = torch.logsumexp(scores, dim=-1) - (scores * chosen).sum(dim=-1)
        return values, torch.softmax(scores, dim=-1) - chosen

    def bends(self, scores: Tensor, targets: Tensor) -> Tensor:
        shares = torch.softmax(scores, dim=-1)
        return torch.diag_embed(shares) - shares[..., :, None] * shares[..., None, :]

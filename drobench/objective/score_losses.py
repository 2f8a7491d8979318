"""Losses of a score and a target, with their first and second derivatives by the score."""

from abc import ABC, abstractmethod

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

    @abstractmethod
    def value_and_slope(self, scores: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Return losses `(..., rows)` and their derivatives by the scores, shaped as the scores."""

    def bends(self, scores: Tensor, targets: Tensor) -> Tensor:
        """Return the second derivatives for scores `(rows, classes)`: `(rows, classes, classes)`."""
        with torch.enable_grad():
            leaf = scores.detach().clone().requires_grad_(True)
            slopes = self.value_and_slope(leaf, targets)[1]
            columns = [torch.autograd.grad(of_class.sum(), leaf, retain_graph=True)[0] for of_class in slopes.unbind(1)]
        return torch.stack(columns, dim=1)


class MarginLoss(ScoreLoss):
    """A loss of the margin `t = y s`, for labels `y` in {-1, +1} and scores `s`."""

    @abstractmethod
    def of_margin(self, margins: Tensor) -> tuple[Tensor, Tensor]:
        """Return losses and their derivatives by the margin."""

    def bend(self, margins: Tensor) -> Tensor:
        """Return the second derivatives by the margin; by automatic differentiation unless a loss knows better."""
        with torch.enable_grad():
            leaf = margins.detach().clone().requires_grad_(True)
            slopes = self.of_margin(leaf)[1]
            if not slopes.requires_grad:
                # Piecewise linear: the slopes are constants.
                return torch.zeros_like(margins)
            return torch.autograd.grad(slopes.sum(), leaf)[0]

    def value_and_slope(self, scores: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        values, slopes = self.of_margin(scores * targets)
        return values, slopes * targets


class LogisticLoss(MarginLoss):
    """`ln(1 + exp(-t))`."""

    convex = True

    def of_margin(self, margins: Tensor) -> tuple[Tensor, Tensor]:
        opposite = margins.neg()
        return softplus(opposite, threshold=_SOFTPLUS_THRESHOLD), torch.sigmoid(opposite).neg()

    def bend(self, margins: Tensor) -> Tensor:
        return torch.sigmoid(margins) * torch.sigmoid(-margins)


class Margin(MarginLoss):
    """The margin `t` itself, for reductions that need it rather than a loss of it."""

    convex = True

    def of_margin(self, margins: Tensor) -> tuple[Tensor, Tensor]:
        return margins, torch.ones_like(margins)

    def bend(self, margins: Tensor) -> Tensor:
        return torch.zeros_like(margins)


class SigmoidLoss(MarginLoss):
    """`1 / (1 + exp(t))`: bounded, smooth, not convex."""

    convex = False

    def of_margin(self, margins: Tensor) -> tuple[Tensor, Tensor]:
        values = torch.sigmoid(-margins)
        return values, -values * torch.sigmoid(margins)

    def bend(self, margins: Tensor) -> Tensor:
        above, below = torch.sigmoid(margins), torch.sigmoid(-margins)
        return above * below * (above - below)


class CrossEntropyLoss(ScoreLoss):
    """`ln sum exp(s) - s_y` for scores `(..., rows, classes)` and class numbers `y`."""

    convex = True

    def value_and_slope(self, scores: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        chosen = torch.nn.functional.one_hot(targets, scores.shape[-1]).to(scores.dtype)
        values = torch.logsumexp(scores, dim=-1) - (scores * chosen).sum(dim=-1)
        return values, torch.softmax(scores, dim=-1) - chosen

    def bends(self, scores: Tensor, targets: Tensor) -> Tensor:
        shares = torch.softmax(scores, dim=-1)
        return torch.diag_embed(shares) - shares[..., :, None] * shares[..., None, :]

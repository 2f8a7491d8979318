"""Per-sample losses `f_i(x)` of a parameter vector, and their derivatives.

Every distributionally robust reduction works on the level of losses: it needs the losses of some rows at some points,
and then vector-Jacobian products with cotangents computed from those losses. `Losses.linearize` gives both in one
pass, at several points at once: recursive estimators evaluate `x_j` and `x_{j-1}` on the same rows.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import softplus

from drobench.objective.sampling import Index

Pullback = Callable[[Tensor], Tensor]
"""Maps cotangents `(k, q, rows)` to `sum_i cotangent_i grad f_i(x_k)`, of shape `(k, q, d)`."""

# The default threshold of softplus (20) is wrong by 2e-9; beyond 40 the linear branch is exact in float64.
_SOFTPLUS_THRESHOLD = 40.0


class ScoreLoss(ABC):
    """A loss as a function of the model's scores and the targets."""

    convex: bool
    """Whether the loss is convex in the scores."""

    @abstractmethod
    def value_and_slope(self, scores: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Return losses `(..., rows)` and their derivatives by the scores, shaped as the scores."""


class MarginLoss(ScoreLoss):
    """A loss of the margin `t = y s`, for labels `y` in {-1, +1} and scores `s`."""

    @abstractmethod
    def of_margin(self, margins: Tensor) -> tuple[Tensor, Tensor]:
        """Return losses and their derivatives by the margin."""

    def value_and_slope(self, scores: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        values, slopes = self.of_margin(scores * targets)
        return values, slopes * targets


class LogisticLoss(MarginLoss):
    """`ln(1 + exp(-t))`."""

    convex = True

    def of_margin(self, margins: Tensor) -> tuple[Tensor, Tensor]:
        opposite = -margins
        return softplus(opposite, threshold=_SOFTPLUS_THRESHOLD), -torch.sigmoid(opposite)


class SigmoidLoss(MarginLoss):
    """`1 / (1 + exp(t))`: bounded, smooth, not convex."""

    convex = False

    def of_margin(self, margins: Tensor) -> tuple[Tensor, Tensor]:
        values = torch.sigmoid(-margins)
        return values, values * (values - 1.0)


class Losses(ABC):
    """The losses of all samples of one training set as functions of one flat parameter vector."""

    samples: int
    dimension: int
    convex: bool

    @abstractmethod
    def linearize(self, points: Tensor, index: Index) -> tuple[Tensor, Pullback]:
        """Return the losses of the rows at `points` `(k, d)`, of shape `(k, rows)`, and their pullback."""

    def values(self, point: Tensor) -> Tensor:
        """Return the losses of all samples at one point, of shape `(samples,)`."""
        return self.linearize(point[None], slice(None))[0][0]

    def mean(self, points: Tensor, index: Index) -> tuple[Tensor, Tensor]:
        """Return mean losses `(k,)` and mean gradients `(k, d)` over the rows; zeros where there is no row."""
        values, pullback = self.linearize(points, index)
        weights = torch.full_like(values, 1.0 / max(values.shape[1], 1))
        return (values * weights).sum(dim=-1), pullback(weights[:, None])[:, 0]


class LinearMarginLosses(Losses):
    """Margin losses of a linear score, with closed-form derivatives.

    The signs of the labels are folded into the rows once, so that a step is a gather and two matrix products.
    """

    def __init__(self, rows: Tensor, signs: Tensor, loss: MarginLoss) -> None:
        self.signed_rows = rows * signs[:, None]
        self.loss = loss
        self.samples, self.dimension = rows.shape
        self.convex = loss.convex

    def linearize(self, points: Tensor, index: Index) -> tuple[Tensor, Pullback]:
        rows = self.signed_rows[index] if isinstance(index, slice) else self.signed_rows.index_select(0, index)
        values, slopes = self.loss.of_margin(points @ rows.T)

        def pullback(cotangents: Tensor) -> Tensor:
            return (cotangents * slopes[:, None]) @ rows

        return values, pullback


class NetworkLosses(Losses):
    """Losses of any differentiable score function, with derivatives by automatic differentiation.

    The points are visited one after the other: on a CPU two ordinary passes are faster than one vectorised pass over
    stacked parameters, and there are never more than two or three points.
    """

    convex = False

    def __init__(
        self,
        scores: Callable[[Tensor, Tensor], Tensor],
        dimension: int,
        features: Tensor,
        targets: Tensor,
        loss: ScoreLoss,
    ) -> None:
        self.scores = scores
        self.dimension = dimension
        self.features = features
        self.targets = targets
        self.loss = loss
        self.samples = features.shape[0]

    def linearize(self, points: Tensor, index: Index) -> tuple[Tensor, Pullback]:
        features, targets = self.features[index], self.targets[index]
        leaves = [point.detach().clone().requires_grad_(True) for point in points]
        with torch.enable_grad():
            scores = [self.scores(leaf, features) for leaf in leaves]
        pairs = [self.loss.value_and_slope(score.detach(), targets) for score in scores]

        def pullback(cotangents: Tensor) -> Tensor:
            return torch.stack(
                [
                    torch.stack([_gradient(score, leaf, _weigh(cotangent, slope)) for cotangent in of_point])
                    for score, leaf, (_, slope), of_point in zip(scores, leaves, pairs, cotangents, strict=True)
                ]
            )

        return torch.stack([values for values, _ in pairs]), pullback


def _weigh(cotangent: Tensor, slope: Tensor) -> Tensor:
    """Multiply the slopes of each row, one or one per class, by the row's cotangent."""
    return slope * cotangent.reshape(cotangent.shape + (1,) * (slope.dim() - 1))


def _gradient(output: Tensor, leaf: Tensor, cotangent: Tensor) -> Tensor:
    return torch.autograd.grad(output, leaf, cotangent, retain_graph=True)[0]

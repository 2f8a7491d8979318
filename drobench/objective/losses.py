"""Per-sample losses `f_i(x)` of a parameter vector, and their derivatives.

Every distributionally robust reduction works on the level of losses: it needs the losses of some rows at some points,
and then vector-Jacobian products with cotangents computed from those losses. `Losses.linearize` gives both in one
pass, at several points at once: recursive estimators evaluate `x_j` and `x_{j-1}` on the same rows.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import copy

import torch
from torch import Tensor
from torch.nn.functional import linear

from drobench.errors import DrobenchError
from drobench.objective.sampling import Index
from drobench.objective.score_losses import (
    CrossEntropyLoss,
    LogisticLoss,
    Margin,
    MarginLoss,
    ScoreLoss,
    SigmoidLoss,
    smooth_hinge,
)

__all__ = [
    "CrossEntropyLoss",
    "LinearMarginLosses",
    "LinearScoreLosses",
    "LogisticLoss",
    "Losses",
    "Margin",
    "MarginLoss",
    "NetworkLosses",
    "NoLosses",
    "Pullback",
    "PullbackDifference",
    "RememberedMargins",
    "ScoreLoss",
    "SigmoidLoss",
    "difference_of",
    "smooth_hinge",
]

Pullback = Callable[[Tensor], Tensor]
"""Maps cotangents `(k, q, rows)` to `sum_i cotangent_i grad f_i(x_k)`, of shape `(k, q, d)`."""

PullbackDifference = Callable[[Tensor, float], Tensor]
"""Maps cotangents `(2, q, rows)` and a factor to the difference of two pullbacks, of shape `(q, d)`."""

_ROWS_AT_ONCE = 64
_GRAM_ROWS = 1024


class Losses(ABC):
    """The losses of all samples of one training set as functions of one flat parameter vector."""

    samples: int
    dimension: int
    convex: bool
    strong_convexity: float = 0.0
    """A `mu` for which every `f_i - (mu / 2) |x|^2` is convex."""

    @abstractmethod
    def origin(self) -> Tensor:
        """Return the zero parameter vector, in the precision and on the device of the data."""

    @abstractmethod
    def linearize(self, points: Tensor, index: Index) -> tuple[Tensor, Pullback]:
        """Return the losses of the rows at `points` `(k, d)`, of shape `(k, rows)`, and their pullback."""

    def linearize_difference(self, points: Tensor, index: Index) -> tuple[Tensor, PullbackDifference]:
        """Return the losses at two points, `(2, rows)`, and the pullback at the first less that at the second.

        The pullback takes cotangents `(2, q, rows)` and a factor for the result, which is `(q, d)`.
        """
        values, pullback = self.linearize(points, index)
        return values, difference_of(pullback)

    def mean_gradient_difference(self, points: Tensor, index: Index) -> Tensor:
        """Return the mean gradient over the rows at the first of two points less that at the second, `(d,)`."""
        values, pullback = self.linearize_difference(points, index)
        return pullback(torch.ones_like(values)[:, None], 1.0 / max(values.shape[1], 1))[0]

    def values(self, point: Tensor) -> Tensor:
        """Return the losses of all samples at one point, of shape `(samples,)`."""
        return self.linearize(point[None], slice(None))[0][0]

    def row_gradients(self, point: Tensor, index: Index) -> tuple[Tensor, Tensor]:
        """Return the loss of every row, `(rows,)`, and its gradient, `(rows, d)`, at one point.

        By pullbacks that pick out one row each, which for `b` rows at once cost `b^2` cotangents.
        """
        numbers = torch.arange(self.samples, device=point.device)[index]
        values, gradients = [point.new_zeros(0)], [point.new_zeros(0, self.dimension)]
        for some in torch.split(numbers, _ROWS_AT_ONCE):
            found, pullback = self.linearize(point[None], some)
            values.append(found[0])
            gradients.append(pullback(torch.eye(some.numel(), dtype=found.dtype, device=found.device)[None])[0])
        return torch.cat(values), torch.cat(gradients)

    def hessian(self, point: Tensor, index: Index, outer: Tensor, curve: Tensor) -> Tensor:
        """Return `sum_i outer_i grad f_i grad f_i^T + curve_i Hessian f_i` over the rows, `(d, d)`.

        Every reduction's second derivatives are of this kind; `outer` and `curve` have a number for each row.
        """
        raise DrobenchError(f"{type(self).__name__} has no matrix of second derivatives.")

    def hessian_product(self, point: Tensor, index: Index, outer: Tensor, curve: Tensor, vector: Tensor) -> Tensor:
        """Return the same matrix times a vector, `(d,)`, at the cost of two gradients or so."""
        raise DrobenchError(f"{type(self).__name__} has no second derivatives.")

    def leverages(self, point: Tensor, index: Index, outer: Tensor, curve: Tensor, factor: Tensor) -> Tensor:
        """Return the trace of `P^-1` times what each row adds to `hessian`, taken as positive, `(rows,)`.

        `P = factor factor^T` is a metric. Where it is `hessian` itself, and all that rows add is positive, these are
        the leverage scores of the rows: none is above one, and their sum is not above the number of variables.
        """
        raise DrobenchError(f"{type(self).__name__} has no leverages.")

    @property
    def has_leverages(self) -> bool:
        """Whether `leverages` is there."""
        return type(self).leverages is not Losses.leverages

    @property
    def has_hessian(self) -> bool:
        """Whether `hessian` is there."""
        return type(self).hessian is not Losses.hessian

    @property
    def has_hessian_products(self) -> bool:
        """Whether `hessian_product` is there."""
        return type(self).hessian_product is not Losses.hessian_product

    def mean(self, points: Tensor, index: Index) -> tuple[Tensor, Tensor]:
        """Return mean losses `(k,)` and mean gradients `(k, d)` over the rows; zeros where there is no row."""
        values, pullback = self.linearize(points, index)
        weights = torch.full_like(values, 1.0 / max(values.shape[1], 1))
        return (values * weights).sum(dim=-1), pullback(weights[:, None])[:, 0]


def difference_of(pullback: Pullback) -> PullbackDifference:
    """Return the pullback at the first of two points less that at the second, at the cost of both."""

    def difference(cotangents: Tensor, factor: float) -> Tensor:
        here, there = pullback(cotangents).unbind()
        return (here - there).mul_(factor)

    return difference


class NoLosses(Losses):
    """No sample at all, for objectives that are a regularizer alone."""

    samples = 0
    convex = True

    def __init__(self, template: Tensor) -> None:
        self.template = template
        self.dimension = template.numel()

    def origin(self) -> Tensor:
        return torch.zeros_like(self.template)

    def linearize(self, points: Tensor, index: Index) -> tuple[Tensor, Pullback]:
        return points.new_zeros(points.shape[0], 0), lambda cotangents: cotangents.new_zeros(
            *cotangents.shape[:2], self.dimension
        )

    def hessian(self, point: Tensor, index: Index, outer: Tensor, curve: Tensor) -> Tensor:
        return point.new_zeros(self.dimension, self.dimension)

    def hessian_product(self, point: Tensor, index: Index, outer: Tensor, curve: Tensor, vector: Tensor) -> Tensor:
        return torch.zeros_like(vector)


class RememberedMargins:
    """The margins of all rows at the last three points.

    Where an objective and its constraints look at all rows, each asks for the margins at `x_j` and `x_{j-1}`: of these
    four products three have been made before.
    """

    def __init__(self) -> None:
        self.known: list[tuple[Tensor, Tensor]] = []
        self.last_asked: Tensor | None = None
        self.last_version = -1
        self.last_margins: Tensor | None = None

    def at(self, points: Tensor, rows: Tensor) -> Tensor:
        """Return the margins `(k, rows)` at `points`."""
        # The very same tensor, unchanged since: objective and constraints are asked one after the other.
        if points is not self.last_asked or points._version != self.last_version or self.last_margins is None:
            self.last_margins = torch.stack([self._one(point, rows) for point in points])
            self.last_asked, self.last_version = points, points._version
        return self.last_margins

    def _one(self, point: Tensor, rows: Tensor) -> Tensor:
        for seen, margins in self.known:
            if torch.equal(seen, point):
                return margins
        # One product a point, whether remembered or not: what is computed again has the same bits.
        margins = torch.mv(rows, point)
        self.known = [(point.clone(), margins), *self.known[:2]]
        return margins


class LinearMarginLosses(Losses):
    """Margin losses of a linear score, with closed-form derivatives.

    The signs of the labels are folded into the rows once, so that a step is a gather and two matrix products.
    """

    def __init__(self, rows: Tensor, signs: Tensor, loss: MarginLoss) -> None:
        self.signed_rows = rows * signs[:, None]
        self.remembered = RememberedMargins()
        # The summand that `addmm` wants and, with beta = 0, does not look at.
        self.ignored = rows.new_zeros(rows.shape[1])
        self.loss = loss
        self.samples, self.dimension = rows.shape
        self.convex = loss.convex

    def with_loss(self, loss: MarginLoss) -> "LinearMarginLosses":
        """Return another loss of the same margins, without a copy of the rows."""
        other = copy(self)
        other.loss, other.convex = loss, loss.convex
        return other

    def origin(self) -> Tensor:
        return self.signed_rows.new_zeros(self.dimension)

    def _margins(self, points: Tensor, index: Index) -> tuple[Tensor, Tensor]:
        """Return the rows and their margins."""
        if isinstance(index, slice):
            rows = self.signed_rows[index]
            whole = rows.shape[0] == self.samples
            return rows, self.remembered.at(points, rows) if whole else linear(points, rows)
        rows = self.signed_rows.index_select(0, index)
        return rows, linear(points, rows)

    def linearize(self, points: Tensor, index: Index) -> tuple[Tensor, Pullback]:
        rows, margins = self._margins(points, index)
        values, slopes = self.loss.of_margin(margins)

        def pullback(cotangents: Tensor) -> Tensor:
            return (cotangents * slopes[:, None]) @ rows

        return values, pullback

    def linearize_difference(self, points: Tensor, index: Index) -> tuple[Tensor, PullbackDifference]:
        rows, margins = self._margins(points, index)
        values, slopes = self.loss.of_margin(margins)

        def difference(cotangents: Tensor, factor: float) -> Tensor:
            # The rows are the same at both points: one product with the difference of the weights.
            here, there = (cotangents * slopes[:, None]).unbind()
            return torch.addmm(self.ignored, here.sub_(there), rows, beta=0, alpha=factor)

        return values, difference

    def row_gradients(self, point: Tensor, index: Index) -> tuple[Tensor, Tensor]:
        rows, margins = self._margins(point[None], index)
        values, slopes = self.loss.of_margin(margins[0])
        return values, slopes[:, None] * rows

    def mean_gradient_difference(self, points: Tensor, index: Index) -> Tensor:
        rows, margins = self._margins(points, index)
        here, there = self.loss.of_margin(margins)[1].unbind()
        return torch.addmv(self.ignored, rows.T, here - there, beta=0, alpha=1.0 / max(rows.shape[0], 1))

    def hessian(self, point: Tensor, index: Index, outer: Tensor, curve: Tensor) -> Tensor:
        rows, weights = self._row_weights(point, index, outer, curve)
        total = point.new_zeros(self.dimension, self.dimension)
        # In pieces: what is made of the rows stays in the processor's cache, and is never as large as the data.
        for some, weight in zip(torch.split(rows, _GRAM_ROWS), torch.split(weights, _GRAM_ROWS), strict=True):
            total.addmm_(some.T, some * weight[:, None])
        return total

    def hessian_product(self, point: Tensor, index: Index, outer: Tensor, curve: Tensor, vector: Tensor) -> Tensor:
        rows, weights = self._row_weights(point, index, outer, curve)
        return rows.T @ (weights * (rows @ vector))

    def leverages(self, point: Tensor, index: Index, outer: Tensor, curve: Tensor, factor: Tensor) -> Tensor:
        rows, weights = self._row_weights(point, index, outer.abs(), curve.abs())
        pieces = torch.split(rows, _GRAM_ROWS)
        sizes = [torch.linalg.solve_triangular(factor, some.T, upper=False).square_().sum(dim=0) for some in pieces]
        return torch.cat(sizes).mul_(weights.abs())

    def _row_weights(self, point: Tensor, index: Index, outer: Tensor, curve: Tensor) -> tuple[Tensor, Tensor]:
        """Return the rows and what each row's outer product with itself is multiplied by."""
        rows, margins = self._margins(point[None], index)
        _, slopes = self.loss.of_margin(margins[0])
        return rows, outer * slopes.square() + curve * self.loss.bend(margins[0])


class LinearScoreLosses(Losses):
    """Losses of several linear scores per row, one block of parameters per class, in closed form."""

    def __init__(self, rows: Tensor, classes: int, targets: Tensor, loss: ScoreLoss) -> None:
        self.rows = rows
        self.classes = classes
        self.targets = targets
        self.loss = loss
        self.samples = rows.shape[0]
        self.dimension = classes * rows.shape[1]
        self.convex = loss.convex

    def origin(self) -> Tensor:
        return self.rows.new_zeros(self.dimension)

    def linearize(self, points: Tensor, index: Index) -> tuple[Tensor, Pullback]:
        rows = self.rows[index]
        matrices = points.reshape(points.shape[0], self.classes, -1)
        values, slopes = self.loss.value_and_slope(rows @ matrices.mT, self.targets[index])

        def pullback(cotangents: Tensor) -> Tensor:
            weighted = cotangents[..., None] * slopes[:, None]
            return (weighted.mT @ rows).flatten(start_dim=2)

        return values, pullback

    def hessian(self, point: Tensor, index: Index, outer: Tensor, curve: Tensor) -> Tensor:
        rows, scores, targets = self._scores(point, index)
        total = point.new_zeros(self.classes, rows.shape[1], self.classes, rows.shape[1])
        for some in torch.split(torch.arange(rows.shape[0], device=rows.device), _GRAM_ROWS):
            weights = self._pair_weights(scores[some], targets[some], outer[some], curve[some])
            piece = rows[some]
            for first in range(self.classes):
                # The pairs of this class with itself and the later ones; the others follow by symmetry.
                later = (weights[:, first, first:, None] * piece[:, None]).flatten(start_dim=1)
                total[first, :, first:] += (piece.T @ later).view(rows.shape[1], -1, rows.shape[1])
        matrix = total.view(self.dimension, self.dimension)
        return matrix.triu() + matrix.triu(1).T

    def hessian_product(self, point: Tensor, index: Index, outer: Tensor, curve: Tensor, vector: Tensor) -> Tensor:
        rows, scores, targets = self._scores(point, index)
        weights = self._pair_weights(scores, targets, outer, curve)
        pushed = rows @ vector.view(self.classes, -1).T
        weighted = (weights @ pushed[..., None])[..., 0]
        return (weighted.T @ rows).flatten()

    def _scores(self, point: Tensor, index: Index) -> tuple[Tensor, Tensor, Tensor]:
        rows = self.rows[index]
        return rows, rows @ point.view(self.classes, -1).T, self.targets[index]

    def _pair_weights(self, scores: Tensor, targets: Tensor, outer: Tensor, curve: Tensor) -> Tensor:
        """Return, for every row and pair of classes, what the row's outer product with itself is multiplied by."""
        _, slopes = self.loss.value_and_slope(scores, targets)
        squares = slopes[:, :, None] * slopes[:, None, :]
        return outer[:, None, None] * squares + curve[:, None, None] * self.loss.bends(scores, targets)


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

    def origin(self) -> Tensor:
        return self.features.new_zeros(self.dimension)

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

    def hessian_product(self, point: Tensor, index: Index, outer: Tensor, curve: Tensor, vector: Tensor) -> Tensor:
        features, targets = self.features[index], self.targets[index]

        def losses(at: Tensor) -> Tensor:
            return self.loss.value_and_slope(self.scores(at, features), targets)[0]

        def weighted_gradient(at: Tensor) -> Tensor:
            gradient: Tensor = torch.func.vjp(losses, at)[1](curve)[0]
            return gradient

        pushed = torch.func.jvp(losses, (point,), (vector,))[1]
        pullback = torch.func.vjp(losses, point)[1]
        curved = torch.func.jvp(weighted_gradient, (point,), (vector,))[1]
        product: Tensor = pullback(outer * pushed)[0] + curved
        return product


def _weigh(cotangent: Tensor, slope: Tensor) -> Tensor:
    """Multiply the slopes of each row, one or one per class, by the row's cotangent."""
    return slope * cotangent.reshape(cotangent.shape + (1,) * (slope.dim() - 1))


def _gradient(output: Tensor, leaf: Tensor, cotangent: Tensor) -> Tensor:
    return torch.autograd.grad(output, leaf, cotangent, retain_graph=True)[0]

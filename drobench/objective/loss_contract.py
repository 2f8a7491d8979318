"""The contract of per-sample losses `f_i(x)` of a parameter vector, and of their derivatives.

Every distributionally robust reduction works on the level of losses: it needs the losses of some rows at some points,
and then vector-Jacobian products with cotangents computed from those losses. `Losses.linearize` gives both in one
pass, at several points at once: recursive estimators evaluate `x_j` and `x_{j-1}` on the same rows.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor

from drobench.errors import DrobenchError
from drobench.objective.sampling import Index

Pullback = Callable[[Tensor], Tensor]
"""Maps cotangents `(k, q, rows)` to `sum_i cotangent_i grad f_i(x_k)`, of shape `(k, q, d)`."""

PullbackDifference = Callable[[Tensor, float], Tensor]
"""Maps cotangents `(2, q, rows)` and a factor to the difference of two pullbacks, of shape `(q, d)`."""

_ROWS_AT_ONCE = 64


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

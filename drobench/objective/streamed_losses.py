"""Losses of rows that are loaded when they are needed, a piece at a time, and forgotten again."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from drobench.objective.losses import Losses, Pullback, PullbackDifference
from drobench.objective.sampling import Index


class StreamedLosses(Losses):
    """The losses of a training set that is not in memory.

    `load` returns the losses of some rows alone, whatever the model: a draw is one such load; all rows, or a
    stretch of them, are walked through piece by piece, once for the values and once more for every pullback. What is
    kept of a walk is one number per row and point.
    """

    def __init__(self, load: Callable[[Index], Losses], samples: int, at_once: int) -> None:
        self.load = load
        self.samples = samples
        self.at_once = at_once
        # One row shows what all rows have in common.
        self.template = load(slice(0, 1))
        self.dimension, self.convex = self.template.dimension, self.template.convex

    def origin(self) -> Tensor:
        return self.template.origin()

    def linearize(self, points: Tensor, index: Index) -> tuple[Tensor, Pullback]:
        if not isinstance(index, slice):
            return self.load(index).linearize(points, slice(None))
        stretch = range(self.samples)[index]
        values = points.new_empty(points.shape[0], len(stretch))
        for place, rows in self._pieces(stretch):
            values[:, place] = self.load(rows).linearize(points, slice(None))[0]

        def pullback(cotangents: Tensor) -> Tensor:
            # In double precision: there may be thousands of pieces, and it is a few numbers for each.
            total = cotangents.new_zeros(*cotangents.shape[:2], self.dimension, dtype=torch.float64)
            for place, rows in self._pieces(stretch):
                total += self.load(rows).linearize(points, slice(None))[1](cotangents[..., place])
            return total.to(cotangents.dtype)

        return values, pullback

    def linearize_difference(self, points: Tensor, index: Index) -> tuple[Tensor, PullbackDifference]:
        if not isinstance(index, slice):
            return self.load(index).linearize_difference(points, slice(None))
        return super().linearize_difference(points, index)

    def mean_gradient_difference(self, points: Tensor, index: Index) -> Tensor:
        if not isinstance(index, slice):
            return self.load(index).mean_gradient_difference(points, slice(None))
        return super().mean_gradient_difference(points, index)

    def hessian(self, point: Tensor, index: Index, outer: Tensor, curve: Tensor) -> Tensor:
        total = point.new_zeros(self.dimension, self.dimension, dtype=torch.float64)
        for losses, place in self._loaded(index):
            total += losses.hessian(point, slice(None), outer[place], curve[place])
        return total.to(point.dtype)

    def hessian_product(self, point: Tensor, index: Index, outer: Tensor, curve: Tensor, vector: Tensor) -> Tensor:
        total = point.new_zeros(self.dimension, dtype=torch.float64)
        for losses, place in self._loaded(index):
            total += losses.hessian_product(point, slice(None), outer[place], curve[place], vector)
        return total.to(point.dtype)

    @property
    def has_hessian(self) -> bool:
        return self.template.has_hessian

    @property
    def has_hessian_products(self) -> bool:
        return self.template.has_hessian_products

    def _loaded(self, index: Index) -> Iterator[tuple[Losses, slice]]:
        """Walk through some rows: the losses of each piece, and where it is among them."""
        if not isinstance(index, slice):
            yield self.load(index), slice(None)
            return
        for place, rows in self._pieces(range(self.samples)[index]):
            yield self.load(rows), place

    def _pieces(self, stretch: range) -> Iterator[tuple[slice, slice]]:
        """Cut a stretch of rows: where a piece is within the stretch, and where among all rows."""
        for begin in range(0, len(stretch), self.at_once):
            rows = stretch[begin : begin + self.at_once]
            yield slice(begin, begin + len(rows)), slice(rows.start, rows.stop, rows.step)

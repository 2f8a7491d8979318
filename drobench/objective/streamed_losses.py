"""Losses of rows that are loaded when they are needed, a piece at a time, and forgotten again."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from drobench.objective.losses import Losses, Pullback, PullbackDifference
from drobench.objective.sampling import Index, index_length


class StreamedLosses(Losses):
    """The losses of a training set that is not in memory.

    `load` returns the losses of some rows alone, whatever the model: a small draw is one such load; all rows, a stretch
    of them or a large draw are walked through piece by piece, once for the values and once more for every pullback.
    What is kept of a walk is one number per row and point.
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
        if self._is_small(index):
            return self.load(index).linearize(points, slice(None))
        values = points.new_empty(points.shape[0], index_length(index, self.samples))
        for losses, place in self._loaded(index):
            values[:, place] = losses.linearize(points, slice(None))[0]

        def pullback(cotangents: Tensor) -> Tensor:
            # In double precision: there may be thousands of pieces, and it is a few numbers for each.
            total = cotangents.new_zeros(*cotangents.shape[:2], self.dimension, dtype=torch.float64)
            for losses, place in self._loaded(index):
                total += losses.linearize(points, slice(None))[1](cotangents[..., place])
            return total.to(cotangents.dtype)

        return values, pullback

    def linearize_difference(self, points: Tensor, index: Index) -> tuple[Tensor, PullbackDifference]:
        if self._is_small(index):
            return self.load(index).linearize_difference(points, slice(None))
        return super().linearize_difference(points, index)

    def mean_gradient_difference(self, points: Tensor, index: Index) -> Tensor:
        if self._is_small(index):
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

    def leverages(self, point: Tensor, index: Index, outer: Tensor, curve: Tensor, factor: Tensor) -> Tensor:
        found = [
            losses.leverages(point, slice(None), outer[place], curve[place], factor)
            for losses, place in self._loaded(index)
        ]
        return torch.cat([point.new_zeros(0), *found])

    @property
    def has_leverages(self) -> bool:
        return self.template.has_leverages

    @property
    def has_hessian(self) -> bool:
        return self.template.has_hessian

    @property
    def has_hessian_products(self) -> bool:
        return self.template.has_hessian_products

    def _is_small(self, index: Index) -> bool:
        """Whether it is a draw that is loaded as a whole."""
        return not isinstance(index, slice) and index.numel() <= self.at_once

    def _loaded(self, index: Index) -> Iterator[tuple[Losses, slice]]:
        """Walk through some rows: the losses of each piece, and where it is among them."""
        count = index_length(index, self.samples)
        for begin in range(0, count, self.at_once):
            place = slice(begin, min(begin + self.at_once, count))
            if isinstance(index, slice):
                rows = range(self.samples)[index][place]
                yield self.load(slice(rows.start, rows.stop, rows.step)), place
            else:
                yield self.load(index[place]), place

"""Composites written as plain Python functions, differentiated automatically."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from drobench.objective.composite import Composite, Means, RowTerms
from drobench.objective.outer_functions import NoOuter, OuterFunction
from drobench.objective.regularizers import Regularizer
from drobench.objective.sampling import Rows

ComponentFunction = Callable[[Tensor, Tensor], Tensor]
"""`(point (d,), rows) -> (rows, outputs)` or `(rows,)`, differentiable by torch."""


@dataclass
class FunctionComposite(Composite):
    """A composite written as two Python functions of a point and row numbers, differentiated automatically.

    For small problems, counterexamples and teaching; `LossComposite` is the fast way for losses of data.
    """

    dimension: int
    samples: int
    outputs: int
    regularizer: Regularizer
    inner: ComponentFunction | None = None
    outer: OuterFunction = NoOuter()  # noqa: RUF009  # stateless
    loss: ComponentFunction | None = None

    def __post_init__(self) -> None:
        self.has_losses = self.loss is not None

    def estimate(self, points: Tensor, rows: Rows, shift: Tensor | None) -> Means:
        assert rows.samples is not None
        numbers = torch.arange(self.samples, device=points.device)[rows.samples]
        values, jacobians = _means(self.inner, points, numbers, self.outputs)
        losses, gradients = _means(self.loss, points, numbers, 1)
        return Means(
            values,
            jacobians,
            losses[:, 0],
            gradients[:, 0],
            torch.full_like(values, -torch.inf),
            points.new_zeros(()) if shift is None else shift,
        )

    def row_terms(self, point: Tensor, rows: Rows, shift: Tensor | None) -> RowTerms:
        assert rows.samples is not None
        numbers = torch.arange(self.samples, device=point.device)[rows.samples]
        values, jacobians = point.new_zeros(numbers.numel(), 0), point.new_zeros(numbers.numel(), 0, self.dimension)
        if self.inner is not None:
            values, jacobians = _row_terms(self.inner, point, numbers, self.outputs)
        gradients = None if self.loss is None else _row_terms(self.loss, point, numbers, 1)[1][:, 0]
        shift = point.new_zeros(()) if shift is None else shift
        return RowTerms(values, jacobians, gradients, inner_is_positive=False, shift=shift)


def _row_terms(function: ComponentFunction, point: Tensor, numbers: Tensor, outputs: int) -> tuple[Tensor, Tensor]:
    def every(at: Tensor) -> Tensor:
        return function(at, numbers).reshape(numbers.numel(), outputs)

    return every(point), torch.func.jacrev(every)(point)


def _means(function: ComponentFunction | None, points: Tensor, numbers: Tensor, outputs: int) -> tuple[Tensor, Tensor]:
    if function is None:
        return points.new_zeros(points.shape[0], outputs), points.new_zeros(points.shape[0], outputs, points.shape[1])

    def mean(point: Tensor) -> Tensor:
        return function(point, numbers).reshape(numbers.numel(), outputs).sum(dim=0) / max(numbers.numel(), 1)

    values = torch.stack([mean(point) for point in points])
    jacobians = torch.stack([torch.func.jacrev(mean)(point) for point in points])
    return values, jacobians

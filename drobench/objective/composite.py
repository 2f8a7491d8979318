"""The composite form `Psi(x) = r(x) + mean h_i(x) + f(mean g_i(x))`.

`g` maps to `p` outputs (`p = 0`: there is no inner map). Two index sets exist: samples and constraints. `h` always
averages over samples; `g` averages over samples in the divergence problems and over constraints in the heavily
constrained ones.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from drobench.errors import DrobenchError
from drobench.objective.losses import Losses, Pullback, PullbackDifference
from drobench.objective.outer_functions import NoOuter, OuterFunction
from drobench.objective.regularizers import Regularizer
from drobench.objective.sampling import Index

# exp overflows at 88 in float32 and at 709 in float64; sums and products of the results need room above.
LARGEST_EXPONENT = {torch.float32: 60.0, torch.float64: 500.0}
LARGEST_POWER = {dtype: math.exp(exponent) for dtype, exponent in LARGEST_EXPONENT.items()}


class Rows(NamedTuple):
    """A draw from the two index sets; `None` where an index set is absent.

    With several processes each holds its part of the draw. A share is the fraction of the whole draw that this part
    is: the share-weighted sum of the parts' means is the mean of the draw.
    """

    samples: Index | None
    constraints: Index | None = None
    sample_share: float = 1.0
    constraint_share: float = 1.0
    covered: float = 0.0
    """Size of the whole draw over the size of the index set that `g` averages over; 1 is the exact full set."""
    data: slice | None = None
    """With several processes, the rows over which this one evaluates *all* drawn constraints, for sums over all rows to
    be pooled before anything else is made of them; `None`: it evaluates its part of the constraints on all rows. The
    share of the constraints is then that of these rows."""
    by_group: Tensor | None = None
    """For a draw by groups, how many rows of each group the whole draw has, `(G,)`; `None`: the draw is uniform."""


Total = Callable[[Tensor], Tensor]
"""Sums a tensor over all processes."""


class Estimate(NamedTuple):
    """Means over some rows at `k` points."""

    inner_value: Tensor
    """`(k, p)`, mean of `g`."""
    inner_jacobian: Tensor
    """`(k, p, d)`, mean of the Jacobians of `g`."""
    loss_value: Tensor
    """`(k,)`, mean of `h`."""
    loss_gradient: Tensor
    """`(k, d)`, mean of the gradients of `h`."""
    inner_floor: Tensor
    """`(k, p)`: the mean of `g` over *all* rows cannot be smaller; minus infinity where nothing is known."""
    shift: Tensor
    """The shift at which `inner_value` and `inner_jacobian` are expressed; it may be above the one asked for."""


class Change(NamedTuple):
    """By how much the means over some rows differ between two points.

    The few inner values are plain numbers: they are looked at in every step, and a tensor operation on one number costs
    more than a look.
    """

    inner_value: list[float]
    """`p` numbers."""
    inner_jacobian: Tensor
    """`(p, d)`."""
    loss_gradient: Tensor | None
    """`(d,)`; `None` without `h`."""
    inner_floor: list[float]
    """`p` numbers, as in `Estimate`, at the first of the points."""
    shift: Tensor


class RowTerms(NamedTuple):
    """What each of some rows contributes at one point, before any mean is taken."""

    inner_value: Tensor
    """`(rows, p)`, every `g_i`."""
    inner_jacobian: Tensor
    """`(rows, p, d)`."""
    loss_gradient: Tensor | None
    """`(rows, d)`, the gradients of every `h_i`; `None` without `h`."""
    inner_is_positive: bool
    shift: Tensor


class Composite(ABC):
    """One instance of the composite form. Oracles count around it; solvers never see it directly."""

    dimension: int
    samples: int
    constraints: int = 0
    cheap_constraints: int = 0
    """Constraints that are evaluated in every estimate, beside the drawn ones."""
    outputs: int
    """`p`, the number of inner values."""
    has_losses: bool
    """Whether `h` is present."""
    outer: OuterFunction
    regularizer: Regularizer
    uses_shift: bool = False
    largest_step: float = math.inf
    """A step size not to begin above, for smoothed kinks that a curvature estimate on a few rows may miss."""
    rescalable: bool = True
    """Whether estimates at one shift can be expressed at another."""
    constraint_rows: int = 0
    """Rows over which constraints sum, where such sums can be pooled over processes (`Rows.data`); 0: they cannot."""

    @abstractmethod
    def estimate(self, points: Tensor, rows: Rows, shift: Tensor | None) -> Estimate:
        """Return the means over `rows` at `points` `(k, d)`; `shift=None` chooses a good shift at the first point."""

    def pooled_estimate(self, points: Tensor, rows: Rows, shift: Tensor | None, total: Total) -> Estimate:
        """As `estimate` for `Rows.data`: values are those of all processes, slopes the part of this one's rows."""
        raise DrobenchError(f"{type(self).__name__} has no sums over rows that processes could pool.")

    def pooled_change(self, points: Tensor, rows: Rows, shift: Tensor, total: Total) -> Change:
        """As `change` for `Rows.data`."""
        raise DrobenchError(f"{type(self).__name__} has no sums over rows that processes could pool.")

    def change(self, points: Tensor, rows: Rows, shift: Tensor) -> Change:
        """Return the means over `rows` at the first of two points less those at the second."""
        estimate = self.estimate(points, rows, shift)
        return Change(
            (estimate.inner_value[0] - estimate.inner_value[1]).tolist(),
            estimate.inner_jacobian[0] - estimate.inner_jacobian[1],
            estimate.loss_gradient[0] - estimate.loss_gradient[1] if self.has_losses else None,
            estimate.inner_floor[0].tolist(),
            estimate.shift,
        )

    def row_terms(self, point: Tensor, rows: Rows, shift: Tensor | None) -> RowTerms:
        """Return the terms of `rows` one by one, for methods that remember each of them."""
        raise DrobenchError(
            f"A method that remembers the terms of every row cannot work on {type(self).__name__}, which has none to "
            "give. Use a solver of means, such as `gcivr`."
        )

    def rescale(self, inner: Tensor, old: Tensor, new: Tensor) -> Tensor:
        """Express inner values or Jacobians given at shift `old` at shift `new`."""
        return inner

    def at_shift(self, value: Tensor, jacobian: Tensor, old: Tensor, new: Tensor) -> tuple[Tensor, Tensor]:
        """Express value and Jacobian, measured at one point at shift `old`, at shift `new`."""
        return self.rescale(value, old, new), self.rescale(jacobian, old, new)

    def best_shift(self, value: Tensor, shift: Tensor) -> Tensor:
        """Return the shift that suits a point whose inner value at `shift` is `value`; by default, that shift."""
        return shift

    def everything(self) -> Rows:
        """Return the full index sets."""
        return Rows(slice(None) if self.samples else None, slice(None) if self.constraints else None, covered=1.0)

    def value(self, point: Tensor) -> Tensor:
        """Return the exact `Psi(point)`."""
        estimate = self.estimate(point[None], self.everything(), None)
        return self.value_at(point, estimate.inner_value[0], estimate.loss_value[0], estimate.shift)

    def value_at(self, point: Tensor, inner_value: Tensor, loss_value: Tensor, shift: Tensor) -> Tensor:
        """Return `Psi` from the means at `point`."""
        return self.regularizer.value(point) + loss_value + self.outer.value(inner_value, shift)

    def smooth_gradient(self, point: Tensor) -> Tensor:
        """Return the exact gradient of `Phi = h + f(g)`, the objective without `r`."""
        estimate = self.estimate(point[None], self.everything(), None)
        outer_gradient = self.outer.gradient(estimate.inner_value[0], estimate.shift)
        return outer_gradient @ estimate.inner_jacobian[0] + estimate.loss_gradient[0]


class LossTerms(NamedTuple):
    """What a reduction makes of losses `(k, rows)`: values and derivatives by the loss, row by row."""

    inner: Tensor | None
    """`(k, p, rows)`, or `None` without inner map."""
    inner_slope: Tensor | None
    loss: Tensor | None
    """`(k, rows)`, or `None` without `h`."""
    loss_slope: Tensor | None
    shift: Tensor
    inner_is_positive: bool = False
    slope_scale: float = 1.0
    """What `inner_slope` is still to be multiplied by: cheaper after the sum over the rows than before."""


class LossTransform(ABC):
    """`g_i = G(f_i)` and `h_i = H(f_i)`: a reduction on the level of losses."""

    outputs: int
    has_losses: bool
    uses_shift: bool = False

    @abstractmethod
    def apply(self, losses: Tensor, shift: Tensor | None) -> LossTerms:
        """Return the terms for losses `(k, rows)`."""

    def safe_shift(self, losses: Tensor, shift: Tensor | None) -> Tensor | None:
        """Return `shift`, or a higher one where the terms at `shift` might overflow; for `None`, a good one."""
        return shift

    def rescale(self, inner: Tensor, old: Tensor, new: Tensor) -> Tensor:
        """See `Composite.rescale`."""
        return inner


class PlainLosses(LossTransform):
    """`h_i = f_i`, no inner map: empirical risk."""

    outputs = 0
    has_losses = True

    def apply(self, losses: Tensor, shift: Tensor | None) -> LossTerms:
        return LossTerms(None, None, losses, torch.ones_like(losses), losses.new_zeros(()))


class LossComposite(Composite):
    """A composite whose parts are functions of per-sample losses."""

    def __init__(
        self, losses: Losses, transform: LossTransform, outer: OuterFunction, regularizer: Regularizer
    ) -> None:
        self.losses = losses
        self.transform = transform
        self.outer = outer
        self.regularizer = regularizer
        self.dimension = losses.dimension
        self.samples = losses.samples
        self.outputs = transform.outputs
        self.has_losses = transform.has_losses
        self.uses_shift = transform.uses_shift

    def estimate(self, points: Tensor, rows: Rows, shift: Tensor | None) -> Estimate:
        index = rows.samples
        assert index is not None
        values, pullback = self.losses.linearize(points, index)
        terms = self.transform.apply(values, self.transform.safe_shift(values, shift))
        return self._means(terms, points, rows, pullback, values.shape[1])

    def _means(self, terms: LossTerms, points: Tensor, rows: Rows, pullback: Pullback, count: int) -> Estimate:
        scale = 1.0 / max(count, 1)
        inner_value, inner_jacobian, floor = self._inner(terms, points, rows, scale, pullback)
        if terms.loss is None or terms.loss_slope is None:
            loss_value = points.new_zeros(points.shape[0])
            loss_gradient = torch.zeros_like(points)
        else:
            loss_value = terms.loss.sum(dim=-1) * scale
            loss_gradient = pullback(terms.loss_slope[:, None])[:, 0].mul_(scale)
        return Estimate(inner_value, inner_jacobian, loss_value, loss_gradient, floor, terms.shift)

    def row_terms(self, point: Tensor, rows: Rows, shift: Tensor | None) -> RowTerms:
        assert rows.samples is not None
        values, gradients = self.losses.row_gradients(point, rows.samples)
        losses = values[None]
        return self._row_terms(self.transform.apply(losses, self.transform.safe_shift(losses, shift)), gradients)

    def _row_terms(self, terms: LossTerms, gradients: Tensor) -> RowTerms:
        """Return the terms of every row by the chain rule, for gradients `(rows, d)` of the losses."""
        count, dimension = gradients.shape
        if terms.inner is None or terms.inner_slope is None:
            value, jacobian = gradients.new_zeros(count, 0), gradients.new_zeros(count, 0, dimension)
        else:
            value = terms.inner[0].T
            jacobian = (terms.slope_scale * terms.inner_slope[0].T)[:, :, None] * gradients[:, None]
        loss_gradient = None if terms.loss_slope is None else terms.loss_slope[0][:, None] * gradients
        return RowTerms(value, jacobian, loss_gradient, terms.inner_is_positive, terms.shift)

    def change(self, points: Tensor, rows: Rows, shift: Tensor) -> Change:
        """One pullback of differences, half the work of two pullbacks."""
        assert rows.samples is not None
        values, pullback = self.losses.linearize_difference(points, rows.samples)
        terms = self.transform.apply(values, shift)
        totals = _totals(terms)
        # Seen from the sums, which are needed anyway; looking at all terms beforehand would cost more.
        if self.uses_shift and not max(max(total) for total in totals) <= LARGEST_POWER[values.dtype]:
            terms = self.transform.apply(values, self.transform.safe_shift(values, shift))
            totals = _totals(terms)
        return self._change(terms, totals, points, rows, pullback, values.shape[1])

    def _change(
        self,
        terms: LossTerms,
        totals: list[list[float]],
        points: Tensor,
        rows: Rows,
        pullback: PullbackDifference,
        count: int,
    ) -> Change:
        scale = 1.0 / max(count, 1)
        here, there = totals
        value = [scale * (first - second) for first, second in zip(here, there, strict=True)]
        floor = [scale * rows.covered * first if terms.inner_is_positive else -math.inf for first in here]
        if terms.inner_slope is None:
            jacobian = points.new_empty(0, self.dimension)
        else:
            jacobian = pullback(terms.inner_slope, scale * terms.slope_scale)
        gradient = None if terms.loss_slope is None else pullback(terms.loss_slope[:, None], scale)[0]
        return Change(value, jacobian, gradient, floor, terms.shift)

    def _inner(
        self, terms: LossTerms, points: Tensor, rows: Rows, scale: float, pullback: Pullback
    ) -> tuple[Tensor, Tensor, Tensor]:
        if terms.inner is None or terms.inner_slope is None:
            empty = points.new_zeros(points.shape[0], 0)
            return empty, points.new_zeros(points.shape[0], 0, points.shape[1]), empty
        value = terms.inner.sum(dim=-1) * scale
        jacobian = pullback(terms.inner_slope).mul_(scale * terms.slope_scale)
        # Positive terms outside the rows can only add to the mean over everything.
        floor = value * rows.covered if terms.inner_is_positive else torch.full_like(value, -torch.inf)
        return value, jacobian, floor

    def rescale(self, inner: Tensor, old: Tensor, new: Tensor) -> Tensor:
        return self.transform.rescale(inner, old, new)


class DualTerms(NamedTuple):
    """The terms of a reduction with scalar dual variables, and their derivatives by those."""

    terms: LossTerms
    inner_dual_slope: Tensor | None = None
    """`(k, p, e, rows)`."""
    loss_dual_slope: Tensor | None = None
    """`(k, e, rows)`."""


class DualTransform(ABC):
    """`g_i = G(f_i, u)` and `h_i = H(f_i, u)` with `e` further variables `u`, minimised along with the parameters."""

    outputs: int
    has_losses: bool
    duals: int
    uses_shift: bool = False

    @abstractmethod
    def apply(self, losses: Tensor, duals: Tensor, shift: Tensor | None) -> DualTerms:
        """Return the terms for losses `(k, rows)` and dual variables `(k, e)`."""

    def at_shift(self, value: Tensor, jacobian: Tensor, old: Tensor, new: Tensor) -> tuple[Tensor, Tensor]:
        """See `Composite.at_shift`; the dual variables are the last columns of the Jacobian."""
        return value, jacobian

    def best_shift(self, value: Tensor, shift: Tensor) -> Tensor:
        """See `Composite.best_shift`."""
        return shift


class LiftedComposite(LossComposite):
    """A loss-level composite over `(parameters, dual variables)`; the dual variables come last."""

    rescalable = False

    def __init__(
        self, losses: Losses, transform: DualTransform, outer: OuterFunction, regularizer: Regularizer
    ) -> None:
        self.losses = losses
        self.lifted = transform
        self.outer = outer
        self.regularizer = regularizer
        self.dimension = losses.dimension + transform.duals
        self.samples = losses.samples
        self.outputs = transform.outputs
        self.has_losses = transform.has_losses
        self.uses_shift = transform.uses_shift

    def estimate(self, points: Tensor, rows: Rows, shift: Tensor | None) -> Estimate:
        assert rows.samples is not None
        parameters, duals = points[:, : self.losses.dimension], points[:, self.losses.dimension :]
        values, pullback = self.losses.linearize(parameters, rows.samples)
        found = self.lifted.apply(values, duals, shift)
        estimate = self._means(found.terms, parameters, rows, pullback, values.shape[1])
        scale = 1.0 / max(values.shape[1], 1)
        jacobian, gradient = estimate.inner_jacobian, estimate.loss_gradient
        by_duals = jacobian.new_zeros(points.shape[0], self.outputs, duals.shape[1])
        if found.inner_dual_slope is not None:
            by_duals = found.inner_dual_slope.sum(dim=-1) * scale
        gradient_by_duals = torch.zeros_like(duals)
        if found.loss_dual_slope is not None:
            gradient_by_duals = found.loss_dual_slope.sum(dim=-1) * scale
        return estimate._replace(
            inner_jacobian=torch.cat([jacobian, by_duals], dim=-1),
            loss_gradient=torch.cat([gradient, gradient_by_duals], dim=-1),
        )

    def row_terms(self, point: Tensor, rows: Rows, shift: Tensor | None) -> RowTerms:
        assert rows.samples is not None
        parameters, duals = point[: self.losses.dimension], point[self.losses.dimension :]
        values, gradients = self.losses.row_gradients(parameters, rows.samples)
        found = self.lifted.apply(values[None], duals[None], shift)
        terms = self._row_terms(found.terms, gradients)
        jacobian, gradient = terms.inner_jacobian, terms.loss_gradient
        by_duals = jacobian.new_zeros(*jacobian.shape[:2], duals.numel())
        if found.inner_dual_slope is not None:
            by_duals = found.inner_dual_slope[0].permute(2, 0, 1)
        if found.loss_dual_slope is not None and gradient is not None:
            gradient = torch.cat([gradient, found.loss_dual_slope[0].T], dim=-1)
        return terms._replace(inner_jacobian=torch.cat([jacobian, by_duals], dim=-1), loss_gradient=gradient)

    def change(self, points: Tensor, rows: Rows, shift: Tensor) -> Change:
        assert rows.samples is not None
        parameters, duals = points[:, : self.losses.dimension], points[:, self.losses.dimension :]
        values, pullback = self.losses.linearize_difference(parameters, rows.samples)
        found = self.lifted.apply(values, duals, shift)
        change = self._change(found.terms, _totals(found.terms), parameters, rows, pullback, values.shape[1])
        scale = 1.0 / max(values.shape[1], 1)
        if found.inner_dual_slope is not None:
            by_duals = _difference(found.inner_dual_slope.sum(dim=-1)).mul_(scale)
            change = change._replace(inner_jacobian=torch.cat([change.inner_jacobian, by_duals], dim=-1))
        if found.loss_dual_slope is not None and change.loss_gradient is not None:
            by_duals = _difference(found.loss_dual_slope.sum(dim=-1)).mul_(scale)
            change = change._replace(loss_gradient=torch.cat([change.loss_gradient, by_duals], dim=-1))
        return change

    def rescale(self, inner: Tensor, old: Tensor, new: Tensor) -> Tensor:
        raise DrobenchError("The shift of a composite with a varying temperature is fixed between refreshes.")

    def at_shift(self, value: Tensor, jacobian: Tensor, old: Tensor, new: Tensor) -> tuple[Tensor, Tensor]:
        return self.lifted.at_shift(value, jacobian, old, new)

    def best_shift(self, value: Tensor, shift: Tensor) -> Tensor:
        return self.lifted.best_shift(value, shift)


def _totals(terms: LossTerms) -> list[list[float]]:
    """Return the sums of the inner terms at two points."""
    if terms.inner is None:
        return [[], []]
    totals: list[list[float]] = terms.inner.sum(dim=-1).tolist()
    return totals


def _difference(pair: Tensor) -> Tensor:
    """Return the first less the second."""
    here, there = pair.unbind()
    return here - there


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

    def estimate(self, points: Tensor, rows: Rows, shift: Tensor | None) -> Estimate:
        assert rows.samples is not None
        numbers = torch.arange(self.samples, device=points.device)[rows.samples]
        values, jacobians = _means(self.inner, points, numbers, self.outputs)
        losses, gradients = _means(self.loss, points, numbers, 1)
        return Estimate(
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

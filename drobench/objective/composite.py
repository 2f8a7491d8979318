"""The composite form `Psi(x) = r(x) + mean h_i(x) + f(mean g_i(x))`.

`g` maps to `p` outputs (`p = 0`: there is no inner map). Two index sets exist: samples and constraints. `h` always
averages over samples; `g` averages over samples in the divergence problems and over constraints in the heavily
constrained ones.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import NamedTuple

from torch import Tensor

from drobench.errors import DrobenchError
from drobench.moved import moved
from drobench.objective.capabilities import Capability, overrides, those_of
from drobench.objective.outer_functions import OuterFunction
from drobench.objective.regularizers import Regularizer
from drobench.objective.sampling import Rows

Total = Callable[[Tensor], Tensor]
"""Sums a tensor over all processes, or takes its maximum."""


class Means(NamedTuple):
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
    """`p` numbers, as in `Means`, at the first of the points."""
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


class Settled(NamedTuple):
    """What was measured on all rows, after the dual variables had been set to their best values there."""

    point: Tensor
    means: list[Means]
    """One for each part of the rows."""
    original: float | None
    """The objective of the problem itself at `point`, without any smoothing; `None`: see `Composite.original_at`."""


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
    settles: bool = False
    """Whether there are dual variables whose best values follow from the losses of all rows: see `settle`."""
    scaled_duals: int = 0
    """Dual variables, the last coordinates, whose proximal map is their own, so that steps may be scaled there."""
    penalty_weight: float | None = None
    """Of the largest violation, where constraints are penalised and the weight may be changed: see `weighted`."""
    smoothing_error: float = 0.0
    """By how much smoothing can change the objective at most; 0 for an equivalent form."""
    constraint_rows: int = 0
    """Rows over which constraints sum, where such sums can be pooled over processes (`Rows.data`); 0: they cannot."""

    @property
    def provides(self) -> frozenset[Capability]:
        """What a solver may require of a composite."""
        return those_of(
            row_terms=overrides(self, Composite, "row_terms"),
            fixed_temperature=self.rescalable or not self.uses_shift,
            constraints=self.constraints > 0,
            only_numbered_constraints=not self.cheap_constraints,
            second_derivatives=self.has_hessian or self.has_hessian_products,
        )

    @abstractmethod
    def estimate(self, points: Tensor, rows: Rows, shift: Tensor | None) -> Means:
        """Return the means over `rows` at `points` `(k, d)`; `shift=None` chooses a good shift at the first point."""

    def pooled_estimate(self, points: Tensor, rows: Rows, shift: Tensor | None, total: Total) -> Means:
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
            "give. Use a solver of means over rows."
        )

    weighs_rows: bool = False
    """Whether `row_weights` is there, and means over draws take `Rows.sample_weights` into account."""

    def row_weights(self, point: Tensor, rows: Rows, weights: Tensor, shift: Tensor) -> Tensor:
        """Return how much each row's loss counts in the gradient of the smooth part at `point`, `(rows,)`.

        That is the size of the derivative of `h_i + <weights, g_i>` by the loss of the row; with `weights = f'(y)` and
        up to a factor, the worst-case distribution.
        """
        raise DrobenchError(f"{type(self).__name__} has no weights of single rows.")

    has_leverages: bool = False
    """Whether `leverages` is there."""

    def leverages(self, point: Tensor, rows: Rows, weights: Tensor, shift: Tensor, factor: Tensor) -> Tensor:
        """Return how much of the Hessian is due to each row, in the metric `factor factor^T` (`Losses.leverages`)."""
        raise DrobenchError(f"{type(self).__name__} has no leverages.")

    has_hessian: bool = False
    """Whether `hessian` is there: second derivatives as a matrix."""
    has_hessian_products: bool = False
    """Whether `hessian_product` is there."""

    def hessian(self, point: Tensor, rows: Rows, weights: Tensor, shift: Tensor) -> Tensor:
        """Return these rows' part of the mean Hessian of `h_i + <weights, g_i>` at `point`, `(d, d)`.

        With `weights = f'(y)` at the inner mean `y`, and the Jacobian `J` of that mean, the Hessian of the smooth part
        is this plus `J^T f''(y) J`. Processes' parts, which count by their share of the draw, add up to the mean.
        """
        raise DrobenchError(f"{type(self).__name__} has no matrix of second derivatives.")

    def hessian_product(self, point: Tensor, rows: Rows, weights: Tensor, shift: Tensor, vector: Tensor) -> Tensor:
        """Return the same matrix times a vector, without the matrix."""
        raise DrobenchError(f"{type(self).__name__} has no second derivatives.")

    def rescale(self, inner: Tensor, old: Tensor, new: Tensor) -> Tensor:
        """Express inner values or Jacobians given at shift `old` at shift `new`."""
        return inner

    def at_shift(self, value: Tensor, jacobian: Tensor, old: Tensor, new: Tensor) -> tuple[Tensor, Tensor]:
        """Express value and Jacobian, measured at one point at shift `old`, at shift `new`."""
        return self.rescale(value, old, new), self.rescale(jacobian, old, new)

    def best_shift(self, value: Tensor, shift: Tensor) -> Tensor:
        """Return the shift that suits a point whose inner value at `shift` is `value`; by default, that shift."""
        return shift

    def settle(self, point: Tensor, parts: Sequence[Rows], total: Total, maximum: Total) -> Settled:
        """Measure on `parts`, which make up all rows, with the dual variables at their best; one look at each row."""
        raise DrobenchError(f"{type(self).__name__} has no dual variables to settle.")

    def largest_surrogate(self, point: Tensor) -> float:
        """Return the largest of all constraints' surrogates; below zero where all hold."""
        raise DrobenchError(f"{type(self).__name__} has no constraints.")

    def weighted(self, weight: float) -> "Composite":
        """Return the same form with another `penalty_weight`."""
        raise DrobenchError(f"{type(self).__name__} has no penalty whose weight could be changed.")

    def original_at(self, point: Tensor, inner_value: Tensor, loss_value: Tensor, shift: Tensor) -> Tensor:
        """Return the objective of the problem itself, from means over all rows at a shift chosen for `point`.

        By default there is nothing between that and `Psi`.
        """
        return self.value_at(point, inner_value, loss_value, shift)

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


__getattr__ = moved(
    __name__,
    {
        "Estimate": "drobench.objective.composite.Means",
        "LossTerms": "drobench.objective.composites.losses",
        "LossTransform": "drobench.objective.composites.losses",
        "PlainLosses": "drobench.objective.composites.losses",
        "LossComposite": "drobench.objective.composites.losses",
        "LARGEST_EXPONENT": "drobench.objective.composites.losses",
        "DualTerms": "drobench.objective.composites.lifted",
        "DualTransform": "drobench.objective.composites.lifted",
        "LiftedComposite": "drobench.objective.composites.lifted",
        "ComponentFunction": "drobench.objective.composites.functions",
        "FunctionComposite": "drobench.objective.composites.functions",
    },
)

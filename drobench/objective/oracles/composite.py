"""Counted access to a composite: means of values, Jacobians and gradients over drawn rows."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from drobench.objective.composite import Change, Composite, Means, RowTerms, Settled, Total
from drobench.objective.oracle import ProximalOracle
from drobench.objective.regularizers import Blocks
from drobench.objective.sampling import Rows, Shard


class CompositeOracle(ProximalOracle):
    """Counted access to `r(x) + mean h_i(x) + f(mean g_i(x))`."""

    _form: Composite

    def __init__(self, form: Composite, seed: int, start: Tensor, shard: Shard = Shard()) -> None:  # noqa: B008
        super().__init__(form, seed, start, shard)
        self._regularizer = form.regularizer
        self.dimension = form.dimension
        self.samples = form.samples
        self.constraints = form.constraints
        self.outputs = form.outputs
        self.has_losses = form.has_losses
        self.uses_shift = form.uses_shift
        self.rescalable = form.rescalable
        self.settles = form.settles
        self.comparable = True
        """Whether the objective of the problem itself is what it was in the stage before, if there was one."""
        self.scaled_duals = form.scaled_duals
        self.smoothing_error = form.smoothing_error
        self.largest_step = form.largest_step
        self.strong_convexity = form.regularizer.strong_convexity
        self.constraint_rows = form.constraint_rows
        self._cheap_constraints = form.cheap_constraints
        # The mean of `g` is one over constraints where there are any, else one over samples.
        inner = ("inner_values", "inner_jacobians") if self.outputs else ()
        losses = ("loss_gradients",) if self.has_losses else ()
        self._of_samples = losses if self.constraints else (*losses, *inner)
        self._of_constraints = inner
        self.weighs_rows, self.has_leverages = form.weighs_rows, form.has_leverages
        self.has_hessian = form.has_hessian
        self.has_hessian_products = form.has_hessian_products
        self._swept: tuple[Tensor, Rows] | None = None

    def estimate(self, points: Tensor, rows: Rows, shift: Tensor | None = None, total: Total | None = None) -> Means:
        """Return value, Jacobian and gradient means over `rows` at `points` `(k, d)`, in one pass.

        `shift=None` chooses the shift. With a given shift the result may come back at a higher one, where the given
        one would overflow: see `rescale`. For `Rows.data`, `total` sums over all processes.
        """
        self._count_rows(rows, points.shape[0])
        self._swept = (points, rows)
        if rows.data is not None and total is not None:
            return self._form.pooled_estimate(points, rows, shift, total)
        return self._form.estimate(points, rows, shift)

    def change(self, points: Tensor, rows: Rows, shift: Tensor, total: Total | None = None) -> Change:
        """Return the means over `rows` at the first of two points less those at the second; two calls a row."""
        self._count_rows(rows, 2)
        self._swept = (points, rows)
        if rows.data is not None and total is not None:
            return self._form.pooled_change(points, rows, shift, total)
        return self._form.change(points, rows, shift)

    def settle_duals(self, point: Tensor, parts: Sequence[Rows], total: Total, maximum: Total) -> Settled:
        """Measure on all rows with the dual variables at their best values there, in one pass; one call a row."""
        for part in parts:
            self._count_rows(part, 1)
        settled = self._form.settle(point, parts, total, maximum)
        self._swept = (settled.point[None], parts[0]) if len(parts) == 1 else None
        return settled

    def row_terms(self, point: Tensor, rows: Rows, shift: Tensor | None = None) -> RowTerms:
        """Return what each of `rows` contributes at `point`; one call a row. The shift is as in `estimate`."""
        found = self._form.row_terms(point, rows, shift)
        self._count_rows(rows, 1)
        return found

    def row_weights(self, point: Tensor, rows: Rows, weights: Tensor, shift: Tensor) -> Tensor:
        """Return how much each row counts in the gradient; see `Composite.row_weights`.

        Right after `estimate` at the same point on the same rows it is known from there; elsewhere it is a call a row.
        """
        if not self._has_just_swept(point, rows):
            self._count_samples(rows, 1)
        return self._form.row_weights(point, rows, weights, shift)

    def leverages(self, point: Tensor, rows: Rows, weights: Tensor, shift: Tensor, factor: Tensor) -> Tensor:
        """Return how much of the Hessian is due to each row, in a metric; counted as the Hessian itself."""
        if not self._has_just_swept(point, rows):
            self._count_samples(rows, 1)
        self._count_hessian(rows, "hessian_rows")
        return self._form.leverages(point, rows, weights, shift, factor)

    def hessian(self, point: Tensor, rows: Rows, weights: Tensor, shift: Tensor) -> Tensor:
        """Return these rows' part of the mean Hessian of `h_i + <weights, g_i>`; see `Composite.hessian`.

        Right after `estimate` at the same point on the same rows it is the same sweep: the rows are counted as
        `hessian_rows` alone. Elsewhere it is another look, and a call for each row as well.
        """
        if not self._has_just_swept(point, rows):
            self._count_samples(rows, 1)
            self._count_constraints(rows, 1)
        self._count_hessian(rows, "hessian_rows")
        return self._form.hessian(point, rows, weights, shift)

    def hessian_product(self, point: Tensor, rows: Rows, weights: Tensor, shift: Tensor, vector: Tensor) -> Tensor:
        """Return the same matrix times a vector; each is a sweep, and one call a row."""
        self._count_samples(rows, 1)
        self._count_constraints(rows, 1)
        self._count_hessian(rows, "hessian_products")
        return self._form.hessian_product(point, rows, weights, shift, vector)

    def _has_just_swept(self, point: Tensor, rows: Rows) -> bool:
        if self._swept is None:
            return False
        points, swept = self._swept
        return swept is rows and any(torch.equal(last, point) for last in points)

    def _count_rows(self, rows: Rows, points: int) -> None:
        self._count_samples(rows, points, *self._of_samples)
        if self.constraints:
            self._count_constraints(rows, points, *self._of_constraints)

    def outer_gradient(self, inner_value: Tensor, shift: Tensor) -> Tensor:
        """Return `f'(y)`."""
        return self._form.outer.gradient(inner_value, shift)

    def outer_hessian(self, inner_value: Tensor, shift: Tensor) -> Tensor:
        """Return `f''(y)`."""
        return self._form.outer.hessian(inner_value, shift)

    def guard(self, inner_value: Tensor, rows: Rows, shift: Tensor, floor: Tensor | None = None) -> Tensor:
        """Return the nearest inner value inside the domain of `f`, for methods that clip; see `admits`."""
        if rows.covered == 1.0:
            return inner_value if floor is None else torch.maximum(inner_value, 0.5 * floor)
        smallest = self._form.outer.smallest(shift)
        if smallest is not None:
            inner_value = inner_value.clamp(min=smallest)
        return inner_value if floor is None else torch.maximum(inner_value, floor)

    def admits(self, inner_value: Tensor, rows: Rows, shift: Tensor, floors: Sequence[float]) -> bool:
        """Tell whether an inner value is finite and not below what is known of it.

        `floors` are the rows' own lower bounds. Over the full set they are the exact mean, of which a recursion may
        fall short by its rounding, so that only half of it is insisted on.
        """
        values = inner_value.tolist()
        if rows.covered == 1.0:
            smallest, share = None, 0.5
        else:
            smallest, share = self._form.outer.smallest(shift), 1.0
        lowest = -math.inf if smallest is None else smallest
        return all(max(lowest, share * floor) <= value < math.inf for value, floor in zip(values, floors, strict=True))

    def rescale(self, inner: Tensor, old: Tensor, new: Tensor) -> Tensor:
        """Express an inner value or Jacobian held at shift `old` at shift `new`."""
        return self._form.rescale(inner, old, new) if self.uses_shift and new is not old else inner

    def at_shift(self, value: Tensor, jacobian: Tensor, old: Tensor, new: Tensor) -> tuple[Tensor, Tensor]:
        """Express inner value and Jacobian, freshly measured at one point at shift `old`, at shift `new`."""
        return (value, jacobian) if new is old else self._form.at_shift(value, jacobian, old, new)

    def best_shift(self, value: Tensor, shift: Tensor) -> Tensor:
        """Return the shift that suits a point whose inner value at `shift` is `value`."""
        return self._form.best_shift(value, shift)

    def value(self, point: Tensor, inner_value: Tensor, loss_value: Tensor, shift: Tensor) -> Tensor:
        """Return `Psi(point)` from means already paid for."""
        return self._form.value_at(point, inner_value, loss_value, shift)

    def original(self, point: Tensor, inner_value: Tensor, loss_value: Tensor, shift: Tensor) -> Tensor:
        """Return the objective of the problem itself at `point`, from means over all rows already paid for."""
        return self._form.original_at(point, inner_value, loss_value, shift)

    def scaled_prox(self, point: Tensor, step_size: float, dual_scale: float) -> Tensor:
        """Return the proximal map with a step that is `dual_scale` times as long for the dual variables."""
        if dual_scale == 1.0 or not isinstance(self._regularizer, Blocks):
            return self.prox(point, step_size)
        if self._regularizer.is_indicator:
            self.count_projection()
        return self._regularizer.scaled_prox(point, step_size, dual_scale)

    @property
    def penalty_weight(self) -> float | None:
        """The weight of the largest violation, where constraints are penalised."""
        return self._form.penalty_weight

    def largest_surrogate(self, point: Tensor) -> float:
        """Return the largest of all constraints' surrogates; one check of each constraint, for the run as a whole."""
        self._count_once(self.constraints + self._cheap_constraints, "constraint_checks")
        return self._form.largest_surrogate(point)

    def weigh(self, weight: float) -> None:
        """Go on with another weight of the largest violation."""
        self.comparable = weight == self._form.penalty_weight
        self._form = self._form.weighted(weight)

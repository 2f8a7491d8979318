"""Counted access to an objective under many constraints."""

from typing import Any

from torch import Tensor

from drobench.moved import warn_of_old_name
from drobench.objective.forms import Constrained
from drobench.objective.oracle import ProximalOracle
from drobench.objective.sampling import Rows, Shard


class ConstrainedOracle(ProximalOracle):
    """Counted access to an objective and many constraints."""

    _form: Constrained

    def __init__(self, form: Constrained, seed: int, start: Tensor, shard: Shard = Shard()) -> None:  # noqa: B008
        super().__init__(form, seed, start, shard)
        self._regularizer = form.objective.regularizer
        self.dimension = form.objective.dimension
        self.samples = form.objective.losses.samples
        self.constraints = form.constraints.count
        self.features = form.constraints.features
        self.cheap_constraints = form.constraints.cheap_count
        self.penalty = form.penalty
        self.projectable = form.constraints.projectable

    def objective(self, points: Tensor, rows: Rows) -> tuple[Tensor, Tensor]:
        """Return mean losses `(k,)` and mean gradients `(k, d)` over the sample rows."""
        assert rows.samples is not None
        self._count_samples(rows, points.shape[0], "loss_gradients")
        return self._form.objective.losses.mean(points, rows.samples)

    def surrogates(self, points: Tensor, rows: Rows) -> tuple[Tensor, Any]:
        """Return surrogate violations `(k, rows)` of the constraint rows, and their pullback."""
        assert rows.constraints is not None
        self._count_constraints(rows, points.shape[0], "inner_values", "inner_jacobians")
        return self._form.constraints.surrogates(points, rows.constraints)

    def violations(self, points: Tensor, rows: Rows) -> Tensor:
        """Return exact violations `(k, rows)` of the constraint rows."""
        assert rows.constraints is not None
        self._count_constraints(rows, points.shape[0], "inner_values")
        return self._form.constraints.violations(points, rows.constraints)

    def rates(self, points: Tensor, rows: Rows) -> Tensor:
        """The old name of `violations`."""
        warn_of_old_name("ConstrainedOracle.rates", "ConstrainedOracle.violations")
        return self.violations(points, rows)

    def project(self, point: Tensor) -> Tensor:
        """Return the nearest point that satisfies all constraints, where these know how to find it; counted."""
        self.count_projection()
        return self._form.constraints.project(point)

"""Counted access to an empirical risk."""

from torch import Tensor

from drobench.objective.forms import FiniteSum
from drobench.objective.oracle import ProximalOracle
from drobench.objective.sampling import Rows, Shard


class FiniteSumOracle(ProximalOracle):
    """Counted access to `r(x) + mean f_i(x)`."""

    _form: FiniteSum

    def __init__(self, form: FiniteSum, seed: int, start: Tensor, shard: Shard = Shard()) -> None:  # noqa: B008
        super().__init__(form, seed, start, shard)
        self._regularizer = form.regularizer
        self.dimension = form.dimension
        self.samples = form.losses.samples
        self.constraints = 0

    def estimate(self, points: Tensor, rows: Rows) -> tuple[Tensor, Tensor]:
        """Return mean losses `(k,)` and mean gradients `(k, d)` over `rows`."""
        assert rows.samples is not None
        self._count_samples(rows, points.shape[0], "loss_gradients")
        return self._form.losses.mean(points, rows.samples)

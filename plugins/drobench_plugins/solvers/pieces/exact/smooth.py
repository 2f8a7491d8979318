"""Smooth objectives, with an l1 part or without: L-BFGS on the exact objective."""

from torch import Tensor

from drobench.objective.regularizers import ElasticNet, Regularizer, Zero
from drobench.solver import DrobenchError, FiniteSum, RobustRisk
from drobench_plugins.solvers.pieces.exact.accuracy import Accuracy
from drobench_plugins.solvers.pieces.lbfgs import minimise_sparse

# Steps of plain training from which other problems start.
WARM_ITERATIONS = 100


def solve_smooth(form: RobustRisk | FiniteSum, start: Tensor, accuracy: Accuracy) -> Tensor:
    """Minimise a smooth objective plus its l1 part."""
    l1, l2 = elastic_weights(form.regularizer)

    def smooth(point: Tensor) -> tuple[Tensor, Tensor]:
        value = form.value(point) - l1 * point.abs().sum()
        return value, form.smooth_gradient(point) + l2 * point

    return minimise_sparse(smooth, start, l1, start.numel(), accuracy.tolerance, accuracy.iterations)


def elastic_weights(regularizer: Regularizer) -> tuple[float, float]:
    """Return the l1 and l2 weights of a regularizer, or refuse it."""
    if isinstance(regularizer, ElasticNet):
        return regularizer.l1, regularizer.l2
    if isinstance(regularizer, Zero):
        return 0.0, 0.0
    raise DrobenchError(f"exact_convex knows no {type(regularizer).__name__}; it needs l1 and l2 parts.")

"""Step sizes from the data: the largest curvature of the smooth part by power iteration."""

import torch
from torch import Tensor

from drobench.errors import DrobenchError
from drobench.objective.composite import Rows
from drobench.objective.oracle import CompositeOracle
from drobench.solver.communicator import Communicator
from drobench.solver.estimators import direction, refresh

# On small data a share of the rows is enough: the estimate should cost about one pass, not twenty.
MOST_ROWS, FEWEST_ROWS, SHARE = 500, 50, 20
_MOST_ITERATIONS = 20
_RELATIVE_CHANGE = 0.02
# Central error balance of a one-sided difference: the square root of the unit roundoff, times a margin.
_DIFFERENCE = {torch.float64: 1e-6, torch.float32: 1e-2}


def largest_curvature(oracle: CompositeOracle, communicator: Communicator, point: Tensor) -> float:
    """Return the top eigenvalue, in magnitude, of the Hessian of `Phi` at `point`.

    Hessian-vector products are differences of gradients on one draw of at most 500 rows, counted and timed like all
    other work; the pooled gradients make the result the same on every process.
    """
    rows = oracle.draw(_rows(oracle.samples), _rows(oracle.constraints))
    base = _gradient(oracle, communicator, point, rows)
    difference = _DIFFERENCE[point.dtype] * (1.0 + float(point.norm()))
    noise = oracle.generator.standard_normal(point.numel())
    vector = torch.from_numpy(noise).to(point)
    vector = vector / vector.norm()
    curvature = 0.0
    for _ in range(_MOST_ITERATIONS):
        moved = _gradient(oracle, communicator, point + difference * vector, rows)
        product = (moved - base) / difference
        before, curvature = curvature, float(product.norm())
        if not curvature > 0.0:
            break
        vector = product / curvature
        if abs(curvature - before) <= _RELATIVE_CHANGE * curvature:
            return curvature
    if curvature > 0.0:
        return curvature
    raise DrobenchError(
        f"The curvature of the objective at the start is {curvature}, so no step size can be derived from it: "
        "set `solver.step_size` yourself."
    )


def _rows(population: int) -> int:
    return min(MOST_ROWS, max(FEWEST_ROWS, population // SHARE))


def _gradient(oracle: CompositeOracle, communicator: Communicator, point: Tensor, rows: Rows) -> Tensor:
    return direction(refresh(oracle, communicator, point, rows), oracle)

"""Step sizes from the data: the largest curvature of the smooth part by the Lanczos method."""

import torch
from torch import Tensor

from drobench.errors import DrobenchError
from drobench.objective.oracles.composite import CompositeOracle
from drobench.objective.sampling import Rows
from drobench.solver.communicator import Communicator
from drobench.solver.estimators import direction, refresh

# On small data a share of the rows is enough: the estimate should cost about one pass, not twenty.
MOST_ROWS, FEWEST_ROWS, SHARE = 500, 50, 20
_MOST_ITERATIONS = 12
_SMALLEST_REST = 1e-3
# Central error balance of a one-sided difference: the square root of the unit roundoff, times a margin.
DIFFERENCE = {torch.float64: 1e-6, torch.float32: 1e-3}


def largest_curvature(oracle: CompositeOracle, communicator: Communicator, point: Tensor) -> float:
    """Return the top eigenvalue, in magnitude, of the Hessian of `Phi` at `point`.

    Hessian-vector products are differences of gradients on one draw of at most 500 rows, counted and timed like all
    other work; the pooled gradients make the result the same on every process.
    """
    rows = oracle.draw(*rows_for_curvature(oracle))
    base = _gradient(oracle, communicator, point, rows)
    difference = DIFFERENCE[point.dtype] * (1.0 + float(point.norm()))
    noise = oracle.generator.standard_normal(point.numel())
    vector = torch.from_numpy(noise).to(point)
    basis = [vector / vector.norm()]
    products: list[Tensor] = []
    curvature = 0.0
    for _ in range(min(_MOST_ITERATIONS, point.numel())):
        moved = _gradient(oracle, communicator, point + difference * basis[-1], rows)
        products.append((moved - base) / difference)
        projected = torch.stack(basis) @ torch.stack(products).T
        if not bool(projected.isfinite().all()):
            curvature = torch.nan
            break
        curvature = float(torch.linalg.eigvalsh(0.5 * (projected + projected.T)).abs().max())
        rest = products[-1]
        for _ in range(2):  # once leaves rounding errors that grow from product to product
            rest = rest - torch.stack(basis).T @ (torch.stack(basis) @ rest)
        if float(rest.norm()) <= _SMALLEST_REST * float(products[-1].norm()):
            break
        basis.append(rest / rest.norm())
    if curvature > 0.0:
        return curvature
    raise DrobenchError(
        f"The curvature of the objective where the method begins is {curvature}, so no step size can be derived from "
        "it: set `solver.step_size` yourself."
    )


def rows_for_curvature(oracle: CompositeOracle) -> tuple[int, int]:
    """Return how many samples and constraints to look at for a constant of the problem."""
    return _rows(oracle.samples), _rows(oracle.constraints)


def _rows(population: int) -> int:
    return min(MOST_ROWS, max(FEWEST_ROWS, population // SHARE))


def _gradient(oracle: CompositeOracle, communicator: Communicator, point: Tensor, rows: Rows) -> Tensor:
    return direction(refresh(oracle, communicator, point, rows), oracle)

"""Step sizes from the data: the largest curvature of the smooth part by the Lanczos method."""

import math

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
_DUAL_DIFFERENCE, _SMALLEST_DUAL, _LARGEST_SCALE = 0.05, 1e-2, 1e6
DIFFERENCE = {torch.float64: 1e-6, torch.float32: 1e-3}


class NoCurvature(DrobenchError):
    """The objective has none where a method begins, or none that is a number."""


def largest_curvature(oracle: CompositeOracle, communicator: Communicator, point: Tensor) -> float:
    """Return the top eigenvalue, in magnitude, of the Hessian of `Phi` at `point`.

    Hessian-vector products are differences of gradients on one draw of at most 500 rows, counted and timed like all
    other work; the pooled gradients make the result the same on every process.

    Raises:
        NoCurvature: If it is zero, or no number.
    """
    rows = oracle.draw(*rows_for_curvature(oracle))
    base = _gradient(oracle, communicator, point, rows)
    return _lanczos(oracle, communicator, point, rows, base, point.numel())


def block_curvature(oracle: CompositeOracle, communicator: Communicator, point: Tensor) -> tuple[float, float]:
    """Return the largest curvature in a metric in which parameters and dual variable curve alike, and that metric.

    With the curvature `L` of the parameters, `a` of the dual variable and the mixed derivatives `b`, a step that is
    `scale = L / a` times as long for the dual variable sees at most `L (1 + |b| / sqrt(L a))`.

    Raises:
        NoCurvature: If that of the parameters is zero, or no number.
    """
    rows = oracle.draw(*rows_for_curvature(oracle))
    base = _gradient(oracle, communicator, point, rows)
    parameters = point.numel() - oracle.scaled_duals
    curvature = _lanczos(oracle, communicator, point, rows, base, parameters)
    # Far enough to meet some of the rows that bend a smoothed kink.
    distance = _DUAL_DIFFERENCE * max(float(point[-1].abs()), _SMALLEST_DUAL)
    moved = point.clone()
    moved[-1] += distance
    mixed = (_gradient(oracle, communicator, moved, rows) - base) / distance
    own, coupling = float(mixed[-1]), float(mixed[:-1].norm())
    if not (math.isfinite(own) and math.isfinite(coupling)) or own <= 0.0:
        return curvature, 1.0
    scale = min(max(curvature / own, 1.0 / _LARGEST_SCALE), _LARGEST_SCALE)
    return curvature * max(1.0, own * scale / curvature) + coupling * math.sqrt(scale), scale


def _lanczos(
    oracle: CompositeOracle, communicator: Communicator, point: Tensor, rows: Rows, base: Tensor, size: int
) -> float:
    """Return the largest curvature in the first `size` coordinates."""
    difference = DIFFERENCE[point.dtype] * (1.0 + float(point.norm()))
    vector = torch.zeros_like(point)
    vector[:size] = torch.from_numpy(oracle.generator.standard_normal(size)).to(point)
    basis = [vector / vector.norm()]
    products: list[Tensor] = []
    curvature = 0.0
    for _ in range(min(_MOST_ITERATIONS, size)):
        moved = _gradient(oracle, communicator, point + difference * basis[-1], rows)
        product = (moved - base) / difference
        product[size:] = 0.0
        products.append(product)
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
    raise NoCurvature(
        f"The curvature of the objective where the method begins is {curvature}, so no step size can be derived from "
        "it: set `solver.step_size` yourself."
    )


def curvature_share(oracle: CompositeOracle) -> float:
    """Return how many passes a look at the curvature takes, about."""
    population, rows = (max(sizes) for sizes in ((oracle.samples, oracle.constraints), rows_for_curvature(oracle)))
    return (_MOST_ITERATIONS + 1) * min(rows, population) / population


def rows_for_curvature(oracle: CompositeOracle) -> tuple[int, int]:
    """Return how many samples and constraints to look at for a constant of the problem."""
    return _rows(oracle.samples), _rows(oracle.constraints)


def _rows(population: int) -> int:
    return min(MOST_ROWS, max(FEWEST_ROWS, population // SHARE))


def _gradient(oracle: CompositeOracle, communicator: Communicator, point: Tensor, rows: Rows) -> Tensor:
    return direction(refresh(oracle, communicator, point, rows), oracle)

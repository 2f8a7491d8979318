"""The proximal step in the metric of a quasi-Newton matrix, which asks for no data.

    z = argmin  <gradient, z - x> + (z - x)^T B (z - x) / 2 + r(z)

by accelerated proximal gradients with restarts, for which any proximal map of `r` will do: kinks, boxes, cones. A
product with `B` is two products with a matrix of `2 memory` rows.

Reference: Beck, Teboulle (SIAM Journal on Imaging Sciences 2009); O'Donoghue, Candes (Foundations of Computational
Mathematics 2015) for the restart against the last move.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from drobench.solver import CompositeOracle
from drobench_plugins.solvers.pieces.curvature_pairs import CurvaturePairs

# The largest curvature of the model: some steps of the power method from below, and a margin; what is missed shows.
_POWER_STEPS, _MARGIN, _SHOWS = 6, 1.1, 1.0 + 1e-6


def scaled_step(
    oracle: CompositeOracle,
    point: Tensor,
    gradient: Tensor,
    pairs: CurvaturePairs,
    tolerance: float,
    most_iterations: int,
) -> tuple[Tensor, float]:
    """Return the target `z` and the slope `<gradient, z - x> + r(z) - r(x)` towards it.

    The iterations end where their residual is `tolerance` times that of the first. A target without a decrease to first
    order is replaced by that of a plain proximal gradient step, which has one unless `point` is an optimum.
    """
    times = pairs.product()
    curvature = _largest(times, pairs.changes[-1]) if pairs.count else pairs.scale
    plain = oracle.prox(point - gradient / curvature, 1.0 / curvature)
    if pairs.count and math.isfinite(curvature):
        target = _iterated(oracle, point, gradient, times, curvature, tolerance, most_iterations)
        slope = _slope(oracle, point, gradient, target)
        if slope < 0.0:
            return target, slope
    return plain, _slope(oracle, point, gradient, plain)


def _iterated(
    oracle: CompositeOracle,
    point: Tensor,
    gradient: Tensor,
    times: Callable[[Tensor], Tensor],
    curvature: float,
    tolerance: float,
    most_iterations: int,
) -> Tensor:
    """Return the last iterate; beside each iterate is kept what `B` makes of its distance from `point`."""
    here, bent = point, torch.zeros_like(point)
    ahead, ahead_bent = here, bent
    momentum, first = 1.0, None
    for _ in range(most_iterations):
        found = oracle.prox(ahead - (gradient + ahead_bent) / curvature, 1.0 / curvature)
        found_bent = times(found - point)
        change = found - ahead
        products = change.dot(change), change.dot(found_bent - ahead_bent), change.dot(found - here)
        size, bend, along = torch.stack(products).tolist()
        if bend > _SHOWS * curvature * size:
            curvature, first = 2.0 * bend / size, None
            continue
        rest = curvature * math.sqrt(size)
        first = rest if first is None else first
        if not rest > tolerance * first:
            return found
        grown = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * momentum * momentum))
        share = (momentum - 1.0) / grown
        if along < 0.0:
            share, grown = 0.0, 1.0
        ahead = torch.add(found, found - here, alpha=share)
        ahead_bent = torch.add(found_bent, found_bent - bent, alpha=share)
        here, bent, momentum = found, found_bent, grown
    return here


def _slope(oracle: CompositeOracle, point: Tensor, gradient: Tensor, target: Tensor) -> float:
    rise = oracle.regularizer_value(target) - oracle.regularizer_value(point)
    return float(gradient.dot(target - point) + rise)


def _largest(times: Callable[[Tensor], Tensor], vector: Tensor) -> float:
    """Return about the largest eigenvalue."""
    found = 0.0
    for _ in range(_POWER_STEPS):
        vector = times(vector / vector.norm())
        found = float(vector.norm())
    return _MARGIN * found

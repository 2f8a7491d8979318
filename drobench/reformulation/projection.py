"""The single projection at the end: from a nearly feasible point to a feasible one.

`euclidean` is exact for convex differentiable constraints: cutting planes, each round a least-distance problem solved
by non-negative least squares (Lawson and Hanson). `conic` does the same for explicit problems with a conic solver, as
a check on small ones. `restore_by_polyak` needs no convexity and promises only to try.
"""

from typing import Any

import numpy as np
import torch
from scipy.optimize import nnls
from torch import Tensor

from drobench.errors import DrobenchError
from drobench.objective.forms import Constraints

Array = np.ndarray[Any, np.dtype[np.float64]]
_ROUNDS = 60
_TOLERANCE = 1e-9


class ProjectionError(DrobenchError):
    """No feasible point was found."""


def project_on(constraints: Constraints, point: Tensor, method: str) -> Tensor:
    """Return the feasible point nearest to `point`, or with `polyak` a nearly feasible one, by the method named."""
    if method == "restoration":
        return constraints.project(point)
    if method == "conic":
        return constraints.project_conic(point)
    if method == "polyak":
        return restore_by_polyak(constraints, point)
    return project_euclidean(constraints, point)


def project_euclidean(constraints: Constraints, point: Tensor, tolerance: float = _TOLERANCE) -> Tensor:
    """Return the nearest point with all (convex) constraints at most `tolerance`.

    Every round linearises the violated constraints at the current point, adds them to the cuts collected so far, and
    projects the *original* point on all cuts.
    """
    origin = point.detach().to(torch.float64).cpu().numpy()
    current, matrix, bounds = point, np.zeros((0, origin.size)), np.zeros(0)
    for _ in range(_ROUNDS):
        values, jacobian = _violated(constraints, current, tolerance)
        if values.size == 0:
            return current
        matrix = np.vstack([matrix, jacobian])
        bounds = np.concatenate([bounds, jacobian @ current.to(torch.float64).cpu().numpy() - values])
        current = torch.from_numpy(_least_distance(matrix, bounds, origin)).to(point)
    raise ProjectionError(
        f"No point within {tolerance:g} of all {constraints.count + constraints.cheap_count} constraints after "
        f"{_ROUNDS} rounds of cutting planes; they may have no common point, or not be convex. "
        "Use reformulation.projection=none to score the solution as it is."
    )


def _violated(constraints: Constraints, point: Tensor, tolerance: float) -> tuple[Array, Array]:
    """Return values and gradients of the constraints above `tolerance`."""
    parts = [constraints.surrogates(point[None], slice(None))]
    if constraints.cheap_count:
        parts.append(constraints.cheap(point[None]))
    values, gradients = [], []
    for found, pullback in parts:
        rows = torch.nonzero(found[0] > tolerance)[:, 0]
        if rows.numel() == 0:
            continue
        selector = torch.nn.functional.one_hot(rows, found.shape[1]).to(point.dtype)
        values.append(found[0, rows])
        gradients.append(pullback(selector[None])[0])
    if not values:
        return np.zeros(0), np.zeros((0, point.numel()))
    return torch.cat(values).double().cpu().numpy(), torch.cat(gradients).double().cpu().numpy()


def _least_distance(matrix: Array, bounds: Array, origin: Array) -> Array:
    """Return the projection of `origin` on `{z : matrix z <= bounds}` (Lawson and Hanson, problem LDP)."""
    system = np.vstack([-matrix.T, -(bounds - matrix @ origin)])
    target = np.zeros(system.shape[0])
    target[-1] = 1.0
    multipliers, _ = nnls(system, target, maxiter=50 * system.shape[1])
    residual = system @ multipliers - target
    if abs(residual[-1]) < 1e-14:
        raise ProjectionError("The linearised constraints have no common point: the problem is infeasible.")
    nearest: Array = origin - residual[:-1] / residual[-1]
    return nearest


def restore_by_polyak(constraints: Constraints, point: Tensor, steps: int = 200, tolerance: float = 0.0) -> Tensor:
    """Return a point with smaller violations, by steps `x - v grad / |grad|^2` on the worst constraint's value `v`."""
    for _ in range(steps):
        values, gradients = _violated(constraints, point, tolerance)
        if values.size == 0:
            return point
        worst = int(values.argmax())
        size = float(gradients[worst] @ gradients[worst])
        if size == 0.0:
            return point
        point = point - torch.from_numpy(gradients[worst] * (values[worst] / size)).to(point)
    return point

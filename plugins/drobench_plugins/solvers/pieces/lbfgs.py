"""L-BFGS-B on a function of a tensor, to the accuracy that a reference needs."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

ValueAndGradient = Callable[[Tensor], tuple[Tensor, Tensor]]


def minimise(smooth: ValueAndGradient, start: Tensor, tolerance: float, iterations: int) -> Tensor:
    """Minimise `smooth` until no component of its gradient is above `tolerance`."""
    return minimise_sparse(smooth, start, 0.0, 0, tolerance, iterations)


def minimise_sparse(
    smooth: ValueAndGradient, start: Tensor, l1: float, sparse: int, tolerance: float, iterations: int
) -> Tensor:
    """Minimise `smooth + l1 |first `sparse` coordinates|_1`, by splitting these into `u - v` with `u, v >= 0`."""

    def whole(variables: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = smooth(torch.from_numpy(variables).to(start))
        return float(value), gradient.to(torch.float64).cpu().numpy()

    def split(variables: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = whole(_joined(variables, sparse))
        parts = [gradient[:sparse] + l1, -gradient[:sparse] + l1, gradient[sparse:]]
        return value + l1 * float(variables[: 2 * sparse].sum()), np.concatenate(parts)

    first = start.to(torch.float64).cpu().numpy()
    if l1 == 0.0:
        return torch.from_numpy(_found(whole, first, None, tolerance, iterations)).to(start)
    signed = first[:sparse]
    variables = np.concatenate([signed.clip(min=0.0), (-signed).clip(min=0.0), first[sparse:]])
    bounds = [(0.0, None)] * (2 * sparse) + [(None, None)] * (first.size - sparse)
    return torch.from_numpy(_joined(_found(split, variables, bounds, tolerance, iterations), sparse)).to(start)


def _found(function: Any, first: np.ndarray, bounds: Any, tolerance: float, iterations: int) -> np.ndarray:
    from scipy.optimize import minimize  # noqa: PLC0415  # a third of a second that no other solver needs

    options = {"gtol": tolerance, "ftol": 0.0, "maxiter": iterations, "maxfun": 10 * iterations}
    solution: np.ndarray = minimize(function, first, jac=True, method="L-BFGS-B", bounds=bounds, options=options).x
    return solution


def _joined(variables: np.ndarray, sparse: int) -> np.ndarray:
    """Return `(u - v, rest)` from `(u, v, rest)`."""
    return np.concatenate([variables[:sparse] - variables[sparse : 2 * sparse], variables[2 * sparse :]])

"""L-BFGS of scipy on the objective itself: what a person would try first.

Value and gradient come from one sweep over the losses, with the arithmetic that scores every run, so that what is
compared are methods and not ways of multiplying.
"""

import contextlib
import math
import time
from typing import NamedTuple

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from drobench.objective.forms import RobustRisk

MEMORY = 20
_MOST = 100_000


class Reached(NamedTuple):
    """What it took to get to a value."""

    seconds: float
    """Infinite where it stopped before."""
    evaluations: int
    """Of value and gradient, each on all rows."""
    value: float
    point: Tensor


class _Enough(Exception):
    """The value is low enough."""


def value_and_gradient(form: RobustRisk, l2: float, point: Tensor) -> tuple[Tensor, Tensor]:
    """Return both from one linearisation of the losses; the only regularizer is a quadratic one."""
    losses, pullback = form.losses.linearize(point[None], slice(None))
    gradient = pullback(form.ambiguity.weights(losses[0])[None, None])[0, 0]
    value = form.ambiguity.worst_case(losses[0]) + 0.5 * l2 * point.dot(point)
    return value, gradient + l2 * point


@torch.no_grad()
def minimise(form: RobustRisk, l2: float, start: Tensor, until: float = -math.inf) -> Reached:
    """Minimise until the value is not above `until`, or as far as the line search gets."""
    best: list[tuple[float, np.ndarray]] = []
    evaluations = 0

    def evaluate(variables: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal evaluations
        found, gradient = value_and_gradient(form, l2, torch.from_numpy(variables))
        evaluations, value = evaluations + 1, float(found)
        if not best or value < best[-1][0]:
            best.append((value, variables.copy()))
        if value <= until:
            raise _Enough
        return value, gradient.numpy()

    options = {"maxcor": MEMORY, "ftol": 0.0, "gtol": 0.0, "maxiter": _MOST, "maxfun": _MOST}
    begin = time.perf_counter()
    with contextlib.suppress(_Enough):
        minimize(evaluate, start.numpy(), jac=True, method="L-BFGS-B", options=options)
    seconds = time.perf_counter() - begin
    value, point = best[-1]
    return Reached(seconds if value <= until else math.inf, evaluations, value, torch.from_numpy(point))

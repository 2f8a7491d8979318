"""Logistic regression and regression under transport costs, each as one conic program."""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from drobench.objective.wasserstein import WassersteinRisk
from drobench.objective.wasserstein_regression import WassersteinRegressionRisk
from drobench_plugins.solvers.pieces.exact.accuracy import Accuracy
from drobench_plugins.solvers.pieces.exact.conic import cleaned, conic_losses, solve_conic
from drobench_plugins.solvers.pieces.exact.smooth import elastic_weights

_ORDERS: dict[str, Any] = {"l1": 1, "l2": 2, "linf": "inf"}


def solve_transport(form: WassersteinRisk, accuracy: Accuracy) -> tuple[Tensor, Tensor]:
    """Solve the reduced problem, with one logistic cone per sample since `l(-t) = l(t) + t`."""
    import cvxpy as cp  # noqa: PLC0415  # slow to load, and only reference solvers need it

    rows = form.margins.signed_rows.cpu().numpy()
    samples, dimension = rows.shape
    point, bound = cp.Variable(dimension), cp.Variable()
    margins, losses, slacks = cp.Variable(samples), cp.Variable(samples), cp.Variable(samples)
    conditions = [
        margins == rows @ point,
        cp.logistic(-margins) <= losses,
        losses <= slacks,
        cp.norm(point[: dimension - form.free], _ORDERS[form.dual_norm]) <= bound,
    ]
    flips = losses + margins - bound * form.flip_cost <= slacks if math.isfinite(form.flip_cost) else None
    l1, l2 = elastic_weights(form.regularizer)
    objective = form.radius * bound + cp.sum(slacks) / samples + 0.5 * l2 * cp.sum_squares(point) + l1 * cp.norm1(point)
    solve_conic(cp.Problem(cp.Minimize(objective), conditions + ([] if flips is None else [flips])), accuracy)
    hinge = np.zeros(samples) if flips is None else np.asarray(flips.dual_value)
    # The equation's multiplier is the difference of the two, and interior-point methods keep it feasible.
    logistic = hinge + _oriented(np.asarray(conditions[0].dual_value), hinge)
    dual = torch.from_numpy(np.stack([hinge, logistic])).to(form.margins.origin())
    return cleaned(point.value, l1, form.margins.origin()), dual


def _oriented(multipliers: np.ndarray, hinge: np.ndarray) -> np.ndarray:
    """Return an equation's multipliers with the sign that makes `hinge + multipliers` non-negative."""
    return multipliers if (hinge + multipliers).min() >= (hinge - multipliers).min() else -multipliers


def solve_regression_transport(form: WassersteinRegressionRisk, accuracy: Accuracy) -> tuple[Tensor, Tensor]:
    """Solve a regression under transport costs; the multipliers of the residuals are the slopes of the losses."""
    import cvxpy as cp  # noqa: PLC0415  # slow to load, and only reference solvers need it

    losses, samples = form.losses, form.samples
    point = cp.Variable(form.dimension)
    joint = point[: form.dimension - form.free]
    if form.offset:
        joint = cp.hstack([joint, np.array([form.offset])])
    size = form.price * cp.norm(joint, _ORDERS[form.dual_norm])
    l1, l2 = elastic_weights(form.regularizer)
    price = 0.5 * l2 * cp.sum_squares(point) + l1 * cp.norm1(point)
    if form.squared:
        residuals, total = cp.Variable(samples), cp.Variable(nonneg=True)
        tied = residuals == losses.rows.cpu().numpy() @ point - losses.targets.cpu().numpy()
        conditions = [tied, cp.norm2(residuals) / math.sqrt(samples) + size <= total]
        objective = cp.power(total, 2) + price
    else:
        values, conditions = conic_losses(losses, point)
        objective = cp.sum(values) / samples + size + price
    solve_conic(cp.Problem(cp.Minimize(objective), conditions), accuracy)
    # Of a mean, so times the number of samples; which sign they have is for whoever uses them to try.
    slopes = torch.from_numpy(samples * np.asarray(conditions[0].dual_value)).to(losses.origin())
    return cleaned(point.value, l1, losses.origin()), slopes

"""Balls of distributions, where the solution is at a kink of the objective."""

import math

import numpy as np
import torch
from torch import Tensor

from drobench.objective.ambiguity_sets import Chi2Ball, KLBall
from drobench.objective.power_divergences import CressieReadBall
from drobench.solver import RobustRisk
from drobench_plugins.solvers.pieces.exact.accuracy import Accuracy
from drobench_plugins.solvers.pieces.exact.conic import cleaned, conic_losses, solve_conic
from drobench_plugins.solvers.pieces.exact.smooth import elastic_weights
from drobench_plugins.solvers.pieces.exact.written import solve_written

# Relative spread below which losses count as equal.
_EQUAL = 1e-5


def at_kink(form: RobustRisk, point: Tensor) -> bool:
    """Return whether a ball's solution is where all losses are equal: there the point does not determine the reply."""
    losses = form.losses.values(point)
    ball = isinstance(form.ambiguity, KLBall | Chi2Ball | CressieReadBall) and form.ambiguity.radius > 0.0
    return ball and float(losses.max() - losses.min()) <= _EQUAL * (1.0 + float(losses.abs().max()))


def solve_ball(form: RobustRisk, accuracy: Accuracy) -> tuple[Tensor, Tensor]:
    """Solve a ball's dual as a conic program; the multipliers of the losses are the adversary's weights."""
    import cvxpy as cp  # noqa: PLC0415  # slow to load, and only reference solvers need it

    losses, ball = form.losses, form.ambiguity
    if isinstance(ball, CressieReadBall):
        return solve_written(form, accuracy)
    assert isinstance(ball, KLBall | Chi2Ball)
    point, threshold = cp.Variable(losses.dimension), cp.Variable()
    values, conditions = conic_losses(losses, point)
    raised = cp.Variable(losses.samples)
    above = raised >= values
    if isinstance(ball, Chi2Ball):
        excess = cp.Variable(losses.samples, nonneg=True)
        conditions.append(excess >= raised - threshold)
        objective = threshold + math.sqrt((1.0 + 2.0 * ball.radius) / losses.samples) * cp.norm2(excess)
    else:
        temperature, powers = cp.Variable(nonneg=True), cp.Variable(losses.samples)
        level = np.ones(losses.samples)
        conditions.append(cp.ExpCone(raised - threshold * level, temperature * level, powers))
        conditions.append(cp.sum(powers) <= losses.samples * temperature)
        objective = threshold + ball.radius * temperature
    l1, l2 = elastic_weights(form.regularizer)
    objective += l1 * cp.norm1(point) + 0.5 * l2 * cp.sum_squares(point)
    solve_conic(cp.Problem(cp.Minimize(objective), [above, *conditions]), accuracy)
    return cleaned(point.value, l1, losses.origin()), torch.from_numpy(above.dual_value).to(losses.origin())

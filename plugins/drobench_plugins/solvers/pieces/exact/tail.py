"""Adversaries that put all weight on a share of the samples: CVaR, and balls that reach the worst case."""

import math

import numpy as np
import torch
from torch import Tensor

from drobench.objective.ambiguity_sets import AmbiguitySet, Chi2Ball, CVaR, KLBall
from drobench.objective.losses import smooth_hinge
from drobench.solver import FiniteSum, RobustRisk
from drobench_plugins.solvers.pieces.exact.accuracy import Accuracy
from drobench_plugins.solvers.pieces.exact.conic import cleaned, conic_losses, has_cones, solve_conic
from drobench_plugins.solvers.pieces.exact.smooth import elastic_weights, solve_smooth
from drobench_plugins.solvers.pieces.lbfgs import minimise_sparse

_WIDTHS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7)


def tail_level(ambiguity: AmbiguitySet, samples: int) -> float | None:
    """Return the share of samples that the adversary may concentrate on, where that is all it does."""
    if isinstance(ambiguity, CVaR):
        return ambiguity.level
    if isinstance(ambiguity, KLBall) and ambiguity.radius >= math.log(samples):
        return 1.0 / samples
    if isinstance(ambiguity, Chi2Ball) and ambiguity.radius >= 0.5 * (samples - 1):
        return 1.0 / samples
    return None


def solve_tail(form: RobustRisk, level: float, accuracy: Accuracy) -> tuple[Tensor, Tensor]:
    """Solve `min e + mean (f_i - e)_+ / level + r`; the multipliers of the excesses are the adversary's weights."""
    import cvxpy as cp  # noqa: PLC0415  # slow to load, and only reference solvers need it

    losses = form.losses
    if not has_cones(losses):
        return solve_tail_smoothly(form, level, accuracy)
    level = max(level, 1.0 / losses.samples)
    point = cp.Variable(losses.dimension)
    threshold, excess = cp.Variable(), cp.Variable(losses.samples, nonneg=True)
    values, conditions = conic_losses(losses, point)
    above = excess >= values - threshold
    l1, l2 = elastic_weights(form.regularizer)
    objective = threshold + cp.sum(excess) / (level * losses.samples)
    objective += l1 * cp.norm1(point) + 0.5 * l2 * cp.sum_squares(point)
    solve_conic(cp.Problem(cp.Minimize(objective), [above, *conditions]), accuracy)
    weights = torch.from_numpy(np.asarray(above.dual_value)).to(losses.origin())
    return cleaned(point.value, l1, losses.origin()), weights


def solve_tail_smoothly(form: RobustRisk, level: float, accuracy: Accuracy) -> tuple[Tensor, Tensor]:
    """Solve the tail problem for many samples: the hinge smoothed ever less, each width from the solution before.

    The smoothed hinge's slopes are the adversary's weights, and at the last width both are as good as exact.
    """
    losses = form.losses
    l1, l2 = elastic_weights(form.regularizer)
    size, samples = losses.dimension, losses.samples
    first = solve_smooth(FiniteSum(losses, form.regularizer), losses.origin(), accuracy)
    joint = torch.cat([first, torch.quantile(losses.values(first), 1.0 - level)[None]])
    weights = torch.full((samples,), 1.0 / samples)
    for width in _WIDTHS:

        def smooth(point: Tensor, width: float = width) -> tuple[Tensor, Tensor]:
            values, pullback = losses.linearize(point[None, :size], slice(None))
            hinge, slopes = smooth_hinge(values - point[size], width)
            slopes = slopes / (level * samples)
            gradient = pullback(slopes[:, None])[0, 0] + l2 * point[:size]
            value = point[size] + hinge.sum() / (level * samples) + 0.5 * l2 * point[:size].square().sum()
            return value, torch.cat([gradient, (1.0 - slopes.sum())[None]])

        joint = minimise_sparse(smooth, joint, l1, size, accuracy.tolerance, accuracy.iterations)
        _, slopes = smooth_hinge(losses.values(joint[:size]) - joint[size], width)
        weights = slopes / (level * samples)
    return joint[:size], weights

"""Adversaries with kinks: CVaR, mixtures of it, balls that reach the worst case, and conjugates whose slopes jump."""

import math

import numpy as np
import torch
from torch import Tensor

from drobench.objective.ambiguity_sets import AmbiguitySet, Chi2Ball, CVaR, KLBall
from drobench.objective.divergence_prices import DivergencePrice
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
    """Solve the tail problem for many samples."""
    return solve_mixture_smoothly(form, ((level, 1.0),), accuracy)


def solve_mixture_smoothly(
    form: RobustRisk, parts: tuple[tuple[float, float], ...], accuracy: Accuracy
) -> tuple[Tensor, Tensor]:
    """Solve `min sum_j share_j [e_j + mean (f_i - e_j)_+ / level_j] + r` for levels and shares.

    The hinges are smoothed ever less, each width from the solution before. Their slopes are the adversary's weights,
    and at the last width both are as good as exact.
    """
    losses = form.losses
    l1, l2 = elastic_weights(form.regularizer)
    size, samples = losses.dimension, losses.samples
    first = solve_smooth(FiniteSum(losses, form.regularizer), losses.origin(), accuracy)
    levels, shares = (first.new_tensor(numbers) for numbers in zip(*parts, strict=True))
    joint = torch.cat([first, torch.quantile(losses.values(first), 1.0 - levels)])
    weights = torch.full((samples,), 1.0 / samples)
    for width in _WIDTHS:

        def smooth(point: Tensor, width: float = width) -> tuple[Tensor, Tensor]:
            values, pullback = losses.linearize(point[None, :size], slice(None))
            hinge, slopes = smooth_hinge(values - point[size:, None], width)
            factors = (shares / (levels * samples))[:, None]
            slopes = factors * slopes
            gradient = pullback(slopes.sum(dim=0)[None, None])[0, 0] + l2 * point[:size]
            value = shares.dot(point[size:]) + (factors * hinge).sum() + 0.5 * l2 * point[:size].square().sum()
            return value, torch.cat([gradient, shares - slopes.sum(dim=1)])

        joint = minimise_sparse(smooth, joint, l1, size, accuracy.tolerance, accuracy.iterations)
        _, slopes = smooth_hinge(losses.values(joint[:size]) - joint[size:, None], width)
        weights = (shares / (levels * samples)) @ slopes
    return joint[:size], weights


def solve_price_smoothly(form: RobustRisk, price: DivergencePrice, accuracy: Accuracy) -> tuple[Tensor, Tensor]:
    """Solve `min e + mean phi*(f_i - e) + r` for a conjugate with kinks, which is smoothed ever less, as above."""
    losses = form.losses
    l1, l2 = elastic_weights(form.regularizer)
    size, samples = losses.dimension, losses.samples
    first = solve_smooth(FiniteSum(losses, form.regularizer), losses.origin(), accuracy)
    joint = torch.cat([first, first.new_tensor([price.threshold(losses.values(first))])])
    weights = torch.full((samples,), 1.0 / samples)
    for width in _WIDTHS:

        def smooth(point: Tensor, width: float = width) -> tuple[Tensor, Tensor]:
            values, pullback = losses.linearize(point[None, :size], slice(None))
            terms, slopes = price.smoothed(values - point[size], width)
            gradient = pullback(slopes[:, None] / samples)[0, 0] + l2 * point[:size]
            value = point[size] + terms.mean() + 0.5 * l2 * point[:size].square().sum()
            return value, torch.cat([gradient, (1.0 - slopes.mean())[None]])

        joint = minimise_sparse(smooth, joint, l1, size, accuracy.tolerance, accuracy.iterations)
        weights = price.smoothed(losses.values(joint[:size]) - joint[size], width)[1] / samples
    return joint[:size], weights

"""The adversary that puts all weight on the worst group."""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from drobench.objective.group_adversary import GroupAdversary
from drobench.solver import FiniteSum, RobustRisk
from drobench_plugins.solvers.pieces.exact.accuracy import Accuracy
from drobench_plugins.solvers.pieces.exact.conic import cleaned, conic_losses, solve_conic
from drobench_plugins.solvers.pieces.exact.smooth import WARM_ITERATIONS, elastic_weights, solve_smooth
from drobench_plugins.solvers.pieces.lbfgs import minimise_sparse

_WIDTHS = (1e-1, 1e-2, 1e-3)
_ROUNDS = 6


def solve_worst_group(form: RobustRisk, ambiguity: GroupAdversary, accuracy: Accuracy) -> tuple[Tensor, Tensor]:
    """Solve `min t + r` with all group means at most `t`; the multipliers of the groups are the adversary's weights."""
    import cvxpy as cp  # noqa: PLC0415  # slow to load, and only reference solvers need it
    from scipy.sparse import csr_matrix  # noqa: PLC0415  # slow to load, and only reference solvers need it

    losses = form.losses
    point, largest = cp.Variable(losses.dimension), cp.Variable()
    values, conditions = conic_losses(losses, point)
    rows = np.arange(losses.samples)
    sizes, groups = ambiguity.sizes.cpu().numpy(), ambiguity.groups.cpu().numpy()
    averages = csr_matrix((1.0 / sizes[groups], (groups, rows)), shape=(sizes.size, losses.samples))
    below = averages @ values <= largest
    l1, l2 = elastic_weights(form.regularizer)
    objective = largest + l1 * cp.norm1(point) + 0.5 * l2 * cp.sum_squares(point)
    solve_conic(cp.Problem(cp.Minimize(objective), [below, *conditions]), accuracy)
    weights = torch.from_numpy(np.asarray(below.dual_value).reshape(-1)).to(losses.origin())
    return cleaned(point.value, l1, losses.origin()), ambiguity.spread(weights)


def solve_worst_group_smoothly(
    form: RobustRisk, ambiguity: GroupAdversary, start: Tensor, accuracy: Accuracy
) -> tuple[Tensor, Tensor]:
    """Solve the same by the exponential method of multipliers (Tseng and Bertsekas 1993).

    Each round minimises `s ln sum q_g exp(L_g / s) + r` for the weights `q` and the width `s` of the round, and the
    weights that are optimal there are the next `q`. With the right weights every width gives the exact solution, so
    that widths need not become so small that the objective is badly conditioned.
    """
    losses = form.losses
    l1, l2 = elastic_weights(form.regularizer)
    point = solve_smooth(FiniteSum(losses, form.regularizer), start, replace(accuracy, iterations=WARM_ITERATIONS))
    weights = point.new_full((ambiguity.count,), 1.0 / ambiguity.count)
    for width in (*_WIDTHS, *[_WIDTHS[-1]] * _ROUNDS):
        logarithms = weights.log()

        def smooth(at: Tensor, width: float = width, logarithms: Tensor = logarithms) -> tuple[Tensor, Tensor]:
            values, pullback = losses.linearize(at[None], slice(None))
            exponents = logarithms + ambiguity.means(values[0]) / width
            by_sample = ambiguity.spread(torch.softmax(exponents, dim=0))
            value = width * torch.logsumexp(exponents, dim=0) + 0.5 * l2 * at.square().sum()
            return value, pullback(by_sample[None, None])[0, 0] + l2 * at

        point = minimise_sparse(smooth, point, l1, losses.dimension, accuracy.tolerance, accuracy.iterations)
        weights = torch.softmax(logarithms + ambiguity.means(losses.values(point)) / width, dim=0)
    return point, ambiguity.spread(weights)

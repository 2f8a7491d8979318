"""Losses with kinks under a smooth adversary: the whole problem as a conic program."""

import math
from typing import Any

from torch import Tensor

from drobench.objective.ambiguity_sets import Chi2Penalty, KLPenalty
from drobench.solver import DrobenchError, FiniteSum, RobustRisk
from drobench_plugins.solvers.pieces.exact.accuracy import Accuracy
from drobench_plugins.solvers.pieces.exact.conic import MOST_CONIC_SAMPLES, cleaned, conic_losses, solve_conic
from drobench_plugins.solvers.pieces.exact.smooth import elastic_weights


def solve_kinked(form: FiniteSum | RobustRisk, accuracy: Accuracy) -> Tensor:
    """Solve the problem; the adversary's reply follows from the point."""
    import cvxpy as cp  # noqa: PLC0415  # slow to load, and only reference solvers need it

    losses = form.losses
    if losses.samples > MOST_CONIC_SAMPLES:
        raise DrobenchError(
            f"exact_convex solves losses with kinks by a conic program of at most {MOST_CONIC_SAMPLES} rows; found "
            f"{losses.samples}."
        )
    point = cp.Variable(losses.dimension)
    values, conditions = conic_losses(losses, point)
    objective, further = _worst_case(form, values)
    l1, l2 = elastic_weights(form.regularizer)
    objective += l1 * cp.norm1(point) + 0.5 * l2 * cp.sum_squares(point)
    solve_conic(cp.Problem(cp.Minimize(objective), [*conditions, *further]), accuracy)
    return cleaned(point.value, l1, losses.origin())


def _worst_case(form: FiniteSum | RobustRisk, values: Any) -> tuple[Any, list[Any]]:
    """Return the adversary's best reply to these losses as an expression, with conditions."""
    import cvxpy as cp  # noqa: PLC0415  # slow to load, and only reference solvers need it

    samples = form.losses.samples
    if isinstance(form, FiniteSum):
        return cp.sum(values) / samples, []
    ambiguity = form.ambiguity
    if isinstance(ambiguity, KLPenalty):
        return ambiguity.gamma * (cp.log_sum_exp(values / ambiguity.gamma) - math.log(samples)), []
    if isinstance(ambiguity, Chi2Penalty):
        threshold, excess = cp.Variable(), cp.Variable(samples, nonneg=True)
        price = cp.sum_squares(excess) / (2.0 * ambiguity.gamma * samples)
        return threshold - 0.5 * ambiguity.gamma + price, [excess >= values - threshold + ambiguity.gamma]
    written = ambiguity.expression(values)
    if written is not None:
        risk, conditions = written
        return risk, conditions
    raise DrobenchError(
        f"exact_convex cannot write {type(ambiguity).__name__} of losses with kinks as a conic program."
    )

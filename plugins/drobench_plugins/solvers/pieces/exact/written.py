"""Adversaries that can be written for the conic solver, where the point alone does not determine their reply."""

import torch
from torch import Tensor

from drobench.solver import DrobenchError, RobustRisk
from drobench_plugins.solvers.pieces.exact.accuracy import Accuracy
from drobench_plugins.solvers.pieces.exact.conic import cleaned, conic_losses, solve_conic
from drobench_plugins.solvers.pieces.exact.smooth import elastic_weights


def solve_written(form: RobustRisk, accuracy: Accuracy) -> tuple[Tensor, Tensor]:
    """Solve the problem; the multipliers of the losses are the adversary's weights."""
    import cvxpy as cp  # noqa: PLC0415  # slow to load, and only reference solvers need it

    losses = form.losses
    point, raised = cp.Variable(losses.dimension), cp.Variable(losses.samples)
    values, conditions = conic_losses(losses, point)
    written = form.ambiguity.expression(raised)
    if written is None:
        raise DrobenchError(
            f"exact_convex cannot write {type(form.ambiguity).__name__} as a conic program. Give it an `expression`."
        )
    risk, further = written
    above = raised >= values
    l1, l2 = elastic_weights(form.regularizer)
    objective = risk + l1 * cp.norm1(point) + 0.5 * l2 * cp.sum_squares(point)
    solve_conic(cp.Problem(cp.Minimize(objective), [above, *conditions, *further]), accuracy)
    weights = torch.from_numpy(above.dual_value).to(losses.origin())
    return cleaned(point.value, l1, losses.origin()), weights

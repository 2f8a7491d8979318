"""What the conic programs share: losses as cones, and the interior-point method with its last resorts."""

import contextlib
import math
import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor

from drobench.objective.losses import CrossEntropyLoss, LinearLosses, LinearScoreLosses, LinearTargetLosses, Losses
from drobench.solver import DrobenchError
from drobench_plugins.solvers.pieces.exact.accuracy import Accuracy

# Beyond this many exponential cones the conic solver becomes slow and then fails.
MOST_CONIC_SAMPLES = 2000
# Relative size below which a coordinate of a conic solution is taken for zero.
_ZERO = 1e-7


def has_cones(losses: Losses) -> bool:
    """Return whether `conic_losses` knows these losses."""
    if isinstance(losses, LinearLosses):
        return losses.convex and losses.loss.expression(0.0, 1.0) is not None
    return isinstance(losses, LinearScoreLosses) and isinstance(losses.loss, CrossEntropyLoss)


def has_kinks(losses: Losses) -> bool:
    """Return whether these are convex losses that may have kinks, which no smooth method solves to the end.

    Those that state no curvature bound and cannot be written as cones are tried as smooth ones: the recomputed bound
    says what that was worth.
    """
    return isinstance(losses, LinearLosses) and math.isinf(losses.loss.largest_bend) and has_cones(losses)


def conic_losses(losses: Losses, point: Any) -> tuple[Any, list[Any]]:
    """Return variables for the losses and the conditions that tie them to the parameters.

    Margins and losses as variables of their own keep the cones small and the matrix in one place.
    """
    import cvxpy as cp  # noqa: PLC0415  # slow to load, and only reference solvers need it

    values = cp.Variable(losses.samples)
    if isinstance(losses, LinearLosses) and has_cones(losses):
        products = cp.Variable(losses.samples)
        targets = losses.targets.cpu().numpy() if isinstance(losses, LinearTargetLosses) else np.ones(losses.samples)
        expression = losses.loss.expression(products, targets)
        return values, [products == losses.rows.cpu().numpy() @ point, expression <= values]
    if isinstance(losses, LinearScoreLosses):
        rows, classes = losses.rows.cpu().numpy(), losses.classes
        scores = rows @ cp.reshape(point, (classes, rows.shape[1]), order="C").T
        chosen = np.eye(classes)[losses.targets.cpu().numpy()]
        return values, [cp.log_sum_exp(scores, axis=1) - cp.sum(cp.multiply(chosen, scores), axis=1) <= values]
    loss = getattr(losses, "loss", losses)
    raise DrobenchError(
        f"exact_convex cannot write {type(loss).__name__} as a conic program. A loss that says its `expression` can be."
    )


def solve_conic(problem: Any, accuracy: Accuracy) -> None:
    """Solve a cvxpy problem in place, as exactly as the interior-point method can."""
    import cvxpy as cp  # noqa: PLC0415  # slow to load, and only reference solvers need it

    # What is asked for may be beyond the reach of an interior-point method on a large instance; then less will do.
    for tolerance in (accuracy.conic_tolerance, 1e2 * accuracy.conic_tolerance, 1e4 * accuracy.conic_tolerance):
        with warnings.catch_warnings():
            # Near machine accuracy Clarabel may call its own answer inaccurate; the recomputed bound decides.
            warnings.filterwarnings("ignore", message="Solution may be inaccurate", category=UserWarning)
            with contextlib.suppress(cp.error.SolverError):
                problem.solve(solver=cp.CLARABEL, tol_gap_abs=tolerance, tol_gap_rel=tolerance, tol_feas=tolerance)
        if problem.status in ("optimal", "optimal_inaccurate"):
            return
    raise DrobenchError(f"The conic solver ended with status {problem.status or 'failed'}.")


def cleaned(solution: Any, l1: float, template: Tensor) -> Tensor:
    """Return the solution; with an l1 part, what the conic solver left of a zero becomes one."""
    if l1 > 0.0:
        solution = np.where(np.abs(solution) <= _ZERO * (1.0 + np.abs(solution).max()), 0.0, solution)
    return torch.from_numpy(solution).to(template)

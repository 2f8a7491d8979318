"""A small problem over balls of any size, and its answer by a conic solver."""

import math

import cvxpy as cp
import numpy as np
import torch
from norm_ball_learning.ball import RidgeOnBall

from drobench.objective.ambiguity_sets import KLPenalty
from drobench.objective.forms import RobustRisk
from drobench.objective.losses import LinearMarginLosses, LogisticLoss

ROWS, FEATURES, GAMMA, L2 = 40, 4, 0.7, 0.05


def instance(radius: float) -> RobustRisk:
    generator = torch.Generator().manual_seed(11)
    rows = torch.randn(ROWS, FEATURES, generator=generator, dtype=torch.float64)
    noise = torch.randn(ROWS, generator=generator, dtype=torch.float64)
    signs = torch.sign(rows @ torch.tensor([2.0, -1.0, 0.5, 0.0], dtype=torch.float64) + noise)
    losses = LinearMarginLosses(rows, signs, LogisticLoss())
    return RobustRisk(losses, KLPenalty(GAMMA), RidgeOnBall(radius, L2))


def conic_optimum(form: RobustRisk) -> tuple[float, np.ndarray]:
    """Minimise the formula of the problem's text, written down once more for cvxpy."""
    assert isinstance(form.regularizer, RidgeOnBall)
    point = cp.Variable(FEATURES)
    losses = cp.logistic(-form.losses.signed_rows.numpy() @ point)
    risk = GAMMA * (cp.log_sum_exp(losses / GAMMA) - math.log(ROWS))
    problem = cp.Problem(
        cp.Minimize(risk + 0.5 * L2 * cp.sum_squares(point)), [cp.norm(point, 2) <= form.regularizer.radius]
    )
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    assert point.value is not None
    return float(problem.value), point.value

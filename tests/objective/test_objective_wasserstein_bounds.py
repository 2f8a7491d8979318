"""Lower bounds of Wasserstein regressions: below every value, and tight at the optimum of a convex solver."""

import math

import cvxpy as cp
import numpy as np
import pytest
import torch
from regression_risks import COSTS, LOSSES, NORMS, ROWS, TARGETS, risk_of

from drobench.reformulation.certificates import lower_bound


@pytest.mark.parametrize("l2", [0.0, 0.1])
@pytest.mark.parametrize("cost", COSTS)
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("loss", LOSSES)
def test_the_bound_holds_anywhere(loss, norm, cost, l2):
    risk = risk_of(loss, norm, cost, l2=l2)
    generator = torch.Generator().manual_seed(0)
    points = torch.randn(40, 4, generator=generator, dtype=torch.float64)
    slopes = torch.randn(12, generator=generator, dtype=torch.float64)
    bounds = [lower_bound(risk, point, dual) for point in points[:10] for dual in (None, slopes)]
    assert max(bounds) <= min(float(risk.value(point)) for point in points) + 1e-12


@pytest.mark.parametrize("l2", [0.0, 0.1])
@pytest.mark.parametrize("cost", COSTS)
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_the_bound_is_tight_at_the_optimum_of_a_convex_solver(loss, norm, cost, l2):
    risk = risk_of(loss, norm, cost, l2=l2)
    point = cp.Variable(4)
    joint = point[:3] if math.isinf(cost) else cp.hstack([point[:3], np.array([1.0 / cost])])
    size = cp.norm(joint, {"l1": 1, "l2": 2, "linf": "inf"}[risk.dual_norm])
    residuals = ROWS.numpy() @ point - TARGETS.numpy()
    if loss == "squared":
        objective = cp.square(cp.norm2(residuals) / math.sqrt(12) + math.sqrt(0.05) * size)
    else:
        objective = cp.sum(0.5 * cp.huber(residuals, 0.5)) / 12 + 0.05 * 0.5 * size
    program = cp.Problem(cp.Minimize(objective + 0.5 * l2 * cp.sum_squares(point)))
    program.solve(solver=cp.CLARABEL, tol_gap_abs=1e-9, tol_gap_rel=1e-9)
    best = torch.from_numpy(point.value)
    assert float(risk.value(best)) == pytest.approx(program.value, rel=1e-7)
    assert lower_bound(risk, best) == pytest.approx(program.value, rel=2e-5)

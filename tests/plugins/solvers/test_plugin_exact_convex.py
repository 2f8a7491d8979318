"""The reference solver against known optima and an interior-point solver."""

import math

import numpy as np
import pytest
import torch

from drobench.errors import DrobenchError
from drobench.objective.forms import FiniteSum
from drobench.objective.oracles.build import build_oracle
from drobench.objective.regularizers import Box, ElasticNet, Zero
from drobench_plugins.solvers.exact_convex import ExactConvex, ExactConvexConfig


def solve(trace, form, start) -> torch.Tensor:
    solver = ExactConvex(ExactConvexConfig())
    before, after = trace(solver, build_oracle(form, 0, start), start, 1)
    assert (before.solved, after.solved) == (False, True)
    return solver.solution(after)


@pytest.mark.parametrize("start", [0.0, 3.0])
@pytest.mark.parametrize(
    ("gamma", "value", "point"),
    [
        (0.5, 0.495099644035, (0.244617892736, -0.184093745094, 1.289486985032)),
        (0.05, 0.616435306782, (0.164259200664, -0.230025701672, 0.643869153746)),
    ],
)
def test_the_known_optima_are_found(twenty, trace, gamma, value, point, start):
    found = solve(trace, twenty.robust(gamma, ElasticNet(l2=0.1)), twenty.start + start)
    np.testing.assert_allclose(found.numpy(), point, rtol=0, atol=1e-8)
    assert twenty.numpy().robust(found.numpy(), gamma, 0.1)[0] == pytest.approx(value, abs=1e-11)


@pytest.mark.parametrize(("l1", "l2"), [(0.05, 0.1), (0.05, 0.0), (0.2, 0.02)])
@pytest.mark.parametrize("gamma", [0.5, 0.1, math.inf])
def test_an_l1_part_agrees_with_an_interior_point_solver(twenty, trace, gamma, l1, l2):
    import cvxpy

    signed = (twenty.rows * twenty.signs[:, None]).numpy()
    x = cvxpy.Variable(3)
    losses = cvxpy.logistic(-signed @ x)
    risk = cvxpy.sum(losses) / 20
    if math.isfinite(gamma):
        risk = gamma * (cvxpy.log_sum_exp(losses / gamma) - math.log(20))
    problem = cvxpy.Problem(cvxpy.Minimize(risk + l1 * cvxpy.norm1(x) + 0.5 * l2 * cvxpy.sum_squares(x)))
    problem.solve(solver=cvxpy.CLARABEL, tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)
    regularizer = ElasticNet(l1=l1, l2=l2)
    form = twenty.robust(gamma, regularizer) if math.isfinite(gamma) else FiniteSum(twenty.losses, regularizer)
    found = solve(trace, form, twenty.start).numpy()
    np.testing.assert_allclose(found, x.value, rtol=0, atol=1e-6)
    reached = twenty.numpy().robust(found, gamma, l2)[0] + l1 * np.abs(found).sum()
    assert reached == pytest.approx(problem.value, abs=1e-9)
    # No interior-point error can hide a worse point: the reference is at least as low.
    assert reached <= problem.value + 1e-10


def test_an_l1_part_gives_exact_zeros(twenty, trace):
    found = solve(trace, twenty.robust(0.5, ElasticNet(l1=0.2, l2=0.02)), twenty.start)
    assert (found == 0.0).any()
    assert (found != 0.0).any()


def test_plain_risk_without_regularizer(synthetic, trace):
    data = synthetic(200, 4, 0)
    found = solve(trace, FiniteSum(data.losses, Zero()), data.start)
    assert np.abs(data.numpy().robust(found.numpy(), math.inf, 0.0)[1]).max() < 1e-8


def test_the_start_stays_as_it_was(twenty, trace):
    start = twenty.start + 1.0
    solve(trace, twenty.robust(0.5), start)
    assert torch.equal(start, torch.ones(3, dtype=torch.float64))


def test_an_unknown_regularizer_is_refused(twenty, trace):
    with pytest.raises(DrobenchError, match="exact_convex knows no Box"):
        solve(trace, twenty.robust(0.5, Box(-1.0, 1.0)), twenty.start)

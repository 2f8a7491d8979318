"""The reference for constrained problems: against conic solvers, with multipliers that prove it, and its refusals."""

import cvxpy as cp
import numpy as np
import pytest
import torch

from drobench.checks import SolverChecks
from drobench.errors import DrobenchError, SettingError
from drobench.objective.forms import Constrained, Constraints, FiniteSum
from drobench.objective.losses import LinearMarginLosses, LogisticLoss
from drobench.objective.oracles.build import build_oracle
from drobench.objective.regularizers import ElasticNet, EuclideanBall, NotDifferentiableError
from drobench.reformulation.certificates import lower_bound
from drobench.registry import NeedsNotMet, check_requirements
from drobench.solver import SingleProcess
from drobench_plugins.solvers.exact_constrained import ExactConstrained, ExactConstrainedConfig, entry


def randoms(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


class Balls(Constraints):
    """`|x - p_k|^2 - r <= 0`, and as a cheap one `<n, x> <= 0`: convex and not linear."""

    convex = exact = True
    cheap_count = 1

    def __init__(self, centres, radius, normal):
        self.centres, self.radius, self.normal = centres, radius, normal
        self.count, self.dimension = centres.shape
        self.features = centres

    def surrogates(self, points, index):
        offsets = points[:, None, :] - self.centres[index]
        return offsets.square().sum(dim=-1) - self.radius, lambda cotangents: 2.0 * cotangents @ offsets

    def violations(self, points, index):
        return self.surrogates(points, index)[0]

    def cheap(self, points):
        return points @ self.normal[:, None], lambda cotangents: cotangents @ self.normal[None]


@pytest.fixture(scope="module")
def curved():
    """Logistic regression with l2 within many balls and a half-space; several of them bind."""
    rows, signs = randoms(0, 50, 4), torch.sign(randoms(1, 50))
    centres = 0.2 * randoms(2, 40, 4)
    objective = FiniteSum(LinearMarginLosses(rows, signs, LogisticLoss()), ElasticNet(l2=0.05))
    return Constrained(objective, Balls(centres, 0.5, randoms(3, 4)))


def solved(form, start, **settings):
    solver, alone = ExactConstrained(ExactConstrainedConfig(**settings)), SingleProcess()
    oracle = build_oracle(form, 0, start)
    with torch.no_grad():
        return solver.step(solver.init(start, oracle, alone), oracle, alone)


def conic(form):
    """Return point, value and multipliers by an interior-point method."""
    losses, balls = form.objective.losses, form.constraints
    x = cp.Variable(4)
    within = [cp.sum_squares(x - centre) <= balls.radius for centre in balls.centres.numpy()]
    beside = balls.normal.numpy() @ x <= 0
    fit = cp.sum(cp.logistic(-(losses.signed_rows.numpy() @ x))) / losses.samples
    program = cp.Problem(cp.Minimize(fit + 0.025 * cp.sum_squares(x)), [*within, beside])
    program.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    return x.value, program.value, np.array([np.squeeze(one.dual_value) for one in (*within, beside)])


def test_finds_point_value_and_multipliers_of_a_conic_solver(curved):
    state = solved(curved, torch.zeros(4, dtype=torch.float64))
    point, value, multipliers = conic(curved)
    assert (multipliers > 1e-3).sum() >= 2
    np.testing.assert_allclose(state.point.numpy(), point, rtol=0, atol=1e-5)
    np.testing.assert_allclose(state.dual.numpy(), multipliers, rtol=0, atol=1e-5)
    assert float(curved.value(state.point)) == pytest.approx(value, abs=1e-7)


def test_the_point_is_feasible_and_the_multipliers_prove_it_right(curved):
    state = solved(curved, torch.zeros(4, dtype=torch.float64))
    assert float(curved.constraints.violations(state.point[None], slice(None)).max()) < 0.0
    assert float(curved.constraints.cheap(state.point[None])[0].max()) < 0.0
    value, below = float(curved.value(state.point)), lower_bound(curved, state.point, state.dual)
    assert 0.0 <= value - below < 1e-7
    # Without its multipliers the same point proves next to nothing.
    assert value - lower_bound(curved, state.point) > 1e-3


def test_a_solved_state_stays_as_it_is(curved):
    state = solved(curved, torch.zeros(4, dtype=torch.float64))
    oracle, solver = build_oracle(curved, 0, state.point), ExactConstrained(ExactConstrainedConfig())
    assert solver.step(state, oracle, SingleProcess()) is state
    assert solver.solution(state) is state.point


def test_refuses_what_it_cannot_solve(curved):
    start = torch.zeros(4, dtype=torch.float64)
    empty = Constrained(curved.objective, Balls(randoms(2, 40, 4), 1e-3, randoms(3, 4)))
    with pytest.raises(DrobenchError, match=r"only to .* they may leave no room of depth"):
        solved(empty, start)
    ball = Constrained(FiniteSum(curved.objective.losses, EuclideanBall(1.0)), curved.constraints)
    with pytest.raises(NotDifferentiableError, match="EuclideanBall has no gradient"):
        solved(ball, start)
    bent = Constrained(curved.objective, Balls(randoms(2, 3, 4), 1.0, randoms(3, 4)))
    bent.constraints.convex = False
    with pytest.raises(NeedsNotMet, match=r"'exact_constrained' requires .*: convexity, that is, "):
        check_requirements(entry(), bent)
    with pytest.raises(SettingError, match="margin"):
        ExactConstrainedConfig(margin=0.0)


class TestPromises(SolverChecks):
    """What every solver promises."""

    name = "exact_constrained"

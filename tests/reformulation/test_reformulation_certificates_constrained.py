"""The lower bound of a constrained problem: never above the optimum, wherever it comes from, and tight at its best."""

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest
import torch

from drobench.checks.known_solutions import HalfSpaces, known_problems
from drobench.objective.forms import Constrained, FiniteSum
from drobench.objective.losses import LinearMarginLosses, LogisticLoss
from drobench.objective.regularizers import ElasticNet, Zero
from drobench.reformulation.certificates import lower_bound


def randoms(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


class ExactHalfSpaces(HalfSpaces):
    exact = True


@pytest.fixture(scope="module")
def logistic():
    losses = LinearMarginLosses(randoms(0, 40, 4), torch.sign(randoms(1, 40)), LogisticLoss())
    normals = randoms(2, 15, 4)
    bounds = normals @ randoms(3, 4) + torch.linspace(0.2, 1.5, 15, dtype=torch.float64)
    return Constrained(FiniteSum(losses, ElasticNet(l1=0.01, l2=0.1)), ExactHalfSpaces(normals, bounds))


@pytest.fixture(scope="module")
def answer(logistic):
    """Return point, value and multipliers by an interior-point method."""
    losses, constraints = logistic.objective.losses, logistic.constraints
    x = cp.Variable(4)
    within = constraints.normals.numpy() @ x <= constraints.bounds.numpy()
    fit = cp.sum(cp.logistic(-(losses.signed_rows.numpy() @ x))) / 40
    program = cp.Problem(cp.Minimize(fit + 0.05 * cp.sum_squares(x) + 0.01 * cp.norm1(x)), [within])
    program.solve(solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    return torch.from_numpy(x.value), program.value, torch.from_numpy(within.dual_value)


def test_is_tight_at_the_optimum_with_its_multipliers_and_not_without(logistic, answer):
    point, value, multipliers = answer
    assert (multipliers > 1e-3).sum() >= 2
    assert value - 1e-7 <= lower_bound(logistic, point, multipliers) <= value + 1e-9
    assert lower_bound(logistic, point) < value - 1e-2


def test_is_never_above_the_optimum_whatever_point_and_multipliers(logistic, answer):
    for seed in range(20):
        point, value, multipliers = answer
        for size in (0.01, 0.3, 3.0):
            moved = point + size * randoms(seed, 4)
            # Half of these are negative somewhere, which weak duality does not allow and the bound must not believe.
            assert lower_bound(logistic, moved, multipliers + size * randoms(100 + seed, 15)) <= value + 1e-9
            assert lower_bound(logistic, moved) <= value + 1e-9


def test_negative_multipliers_are_not_believed(logistic, answer):
    point, value, multipliers = answer
    slack = logistic.constraints.violations(point[None], slice(None))[0]
    loosest = int(slack.argmin())
    assert slack[loosest] < -0.1
    # Of the Lagrangian's bound this makes the most, and more than the optimum.
    wrong = multipliers.clone()
    wrong[loosest] = 0.1 * slack[loosest] / logistic.constraints.normals[loosest].square().sum()
    assert lower_bound(logistic, point, wrong) <= value + 1e-9


def test_a_quadratic_under_linear_constraints_is_bounded_without_loss_from_any_point():
    (known,) = (found for found in known_problems() if found.name == "half_spaces")
    plain = known.form
    losses = plain.objective.losses
    losses.strong_convexity = 1.0
    form = Constrained(FiniteSum(losses, Zero()), ExactHalfSpaces(plain.constraints.normals, plain.constraints.bounds))
    # The closed form: coordinates above their bound are cut, by as much as their multipliers are.
    multipliers = torch.cat([(losses.targets.mean(dim=0) - plain.constraints.bounds[:3]).clamp(min=0), torch.zeros(1)])
    for seed in range(5):
        assert lower_bound(form, 3.0 * randoms(seed, 3), multipliers) == pytest.approx(known.optimum, abs=1e-11)


def test_nothing_is_claimed_without_strong_convexity_or_where_rates_decide(logistic):
    point = randoms(5, 4)
    flat = replace(logistic, objective=FiniteSum(logistic.objective.losses, ElasticNet(l1=0.1)))
    assert lower_bound(flat, point) is None
    surrogates = HalfSpaces(logistic.constraints.normals, logistic.constraints.bounds)
    assert lower_bound(replace(logistic, constraints=surrogates), point) is None


def test_losses_of_known_curvature_bound_a_plain_mean_too():
    (known,) = (found for found in known_problems() if found.name == "least_squares")
    losses = known.form.losses
    losses.strong_convexity = 1.0
    form = FiniteSum(losses, Zero())
    spread = losses.targets - losses.targets.mean(dim=0)
    expected = 0.5 * float(spread.square().sum(dim=1).mean())
    for seed in range(3):
        np.testing.assert_allclose(lower_bound(form, randoms(seed, 3)), expected, rtol=1e-12)

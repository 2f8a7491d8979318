"""Three facts about many constraints, small: what a projection costs, what weight is exact, what sampling costs.

The page docs/constrained-quadratic.md has the derivations, `benchmarks/studies/constrained_quadratic` the large tables.
"""

import math

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from drobench.objective.composite import Composite
from drobench.objective.oracles.build import build_oracle
from drobench.objective.predictor import ModelConfig
from drobench.reformulation.reformulation import ReformulationConfig
from drobench.reformulation.routes import find_route
from drobench.solver import SingleProcess
from drobench_plugins.datasets.synthetic import SyntheticConfig, load_synthetic_dataset
from drobench_plugins.problems.constrained_quadratic import ConstrainedQuadratic, ConstrainedQuadraticConfig
from drobench_plugins.solvers.fulltouch import FullTouch, FullTouchConfig
from drobench_plugins.solvers.gcivr import Gcivr
from drobench_plugins.solvers.pieces.gcivr_config import GcivrConfig


def build(seed=0, rows=100, **settings):
    config = ConstrainedQuadraticConfig(**{"constraints": 60, "active": 3, "condition": 4.0, **settings})
    return ConstrainedQuadratic(
        config, load_synthetic_dataset(SyntheticConfig(rows=rows, features=5, seed=seed)), ModelConfig(intercept=False)
    )


def smoothed(problem, alpha, gamma):
    return find_route(problem.form, (Composite,), ReformulationConfig(alpha=alpha, gamma=gamma, projection="none")).form


def violation(problem, point):
    return float((problem.form.constraints.normals @ point - problem.form.constraints.bounds).max())


def gap(problem, point):
    return float(problem.form.value(point)) - problem.optimal_value


def iterate(problem, form, passes, seed=0):
    """Return the point that GCIVR has after some passes, and the oracle."""
    start, alone = problem.start(torch.Generator()), SingleProcess()
    solver = Gcivr(GcivrConfig(step_size=1.0 / (problem.smoothness + form.alpha**2 / (4.0 * form.gamma))))
    oracle = build_oracle(form, seed, start)
    state = solver.init(start, oracle, alone)
    while oracle.passes < passes:
        state = solver.step(state, oracle, alone)
    return state.point, oracle


def lowest(problem, alpha, gamma):
    """Return the minimiser of the smoothed penalty, by a program that knows nothing of this project's forms."""
    normals, bounds = problem.form.constraints.normals.numpy(), problem.form.constraints.bounds.numpy()
    centre, curvatures = problem.centre.numpy(), np.geomspace(problem.curvature, problem.smoothness, 5)
    x = problem.solution.numpy()
    # Widths that shrink, each from the solution before.
    for width in (8 * gamma, 4 * gamma, 2 * gamma, gamma):

        def both(x, width=width):
            exponents = np.append(alpha * (normals @ x - bounds) / width, 0.0)
            top = exponents.max()
            powers = np.exp(exponents - top)
            value = 0.5 * curvatures @ (x - centre) ** 2 + width * (top + np.log(powers.sum()))
            return value, curvatures * (x - centre) + alpha * (powers[:-1] / powers.sum()) @ normals

        x = minimize(both, x, jac=True, method="L-BFGS-B", options={"gtol": 1e-10, "ftol": 0.0, "maxiter": 5000}).x
    return torch.from_numpy(x)


class TestProjectionCorollary:
    @pytest.mark.parametrize("weight", ["1.1 sum", "2 sum", "slope"])
    @pytest.mark.parametrize("gamma", [0.1, 0.01])
    @pytest.mark.parametrize(("constraints", "active"), [(20, 1), (60, 3)])
    def test_violation_distance_and_gap_are_below_their_bounds(self, weight, gamma, constraints, active):
        problem = build(1, constraints=constraints, active=active)
        total, slope = float(problem.multipliers.sum()), problem.lipschitz / problem.rho
        alpha = {"1.1 sum": 1.1 * total, "2 sum": 2.0 * total, "slope": slope}[weight]
        form, best = smoothed(problem, alpha, gamma), lowest(problem, alpha, gamma)
        for passes in (2.0, 15.0):
            point, _ = iterate(problem, form, passes)
            # No value of Psi is below this, by strong convexity.
            least = float(form.value(best)) - float(form.smooth_gradient(best).square().sum()) / (2 * problem.curvature)
            off = float(form.value(point)) - least + gamma * math.log(constraints + 1)
            worst = max(0.0, violation(problem, point))
            nearest = problem.form.constraints.project(point)
            assert worst <= off / (alpha - total)
            assert float((nearest - point).norm()) <= worst / problem.rho + 1e-8
            # The slope is known on the ball alone, which an early iterate may leave and a later one is in.
            inside = float((point - problem.solution).norm()) <= problem.radius
            assert inside or passes < 15.0
            assert gap(problem, nearest) >= -1e-8
            assert not inside or gap(problem, nearest) <= off * max(1.0, (slope - total) / (alpha - total))

    def test_the_bound_on_the_distance_is_attained_by_a_single_constraint(self):
        problem = build(constraints=1, active=1)
        assert problem.rho == pytest.approx(1.0, rel=1e-9)
        point = problem.solution + 0.3 * problem.form.constraints.normals[0]
        distance = float((problem.form.constraints.project(point) - point).norm())
        assert distance == pytest.approx(violation(problem, point) / problem.rho, rel=1e-6)


class TestExactPenalty:
    @pytest.mark.parametrize("seed", range(2))
    @pytest.mark.parametrize("ratio", [0.5, 0.9])
    def test_below_the_sum_of_the_multipliers_no_width_makes_the_minimiser_feasible(self, seed, ratio):
        problem = build(seed)
        alpha = ratio * float(problem.multipliers.sum())
        found = [violation(problem, lowest(problem, alpha, gamma)) for gamma in (0.03, 0.01, 0.003)]
        assert min(found) > 5e-3
        # It has all but stopped falling: what remains is not a matter of the width.
        assert found[2] > 0.5 * found[1]

    @pytest.mark.parametrize("seed", range(2))
    @pytest.mark.parametrize("ratio", [1.1, 2.0, None])
    def test_above_it_violation_and_gap_fall_with_the_width_as_predicted(self, seed, ratio):
        problem = build(seed)
        multipliers = problem.multipliers[:3]
        total = float(multipliers.sum())
        alpha = problem.lipschitz / problem.rho if ratio is None else ratio * total
        assert alpha > total
        room = alpha - total
        for gamma in (0.003, 0.001):
            point = lowest(problem, alpha, gamma)
            levels = gamma / alpha * torch.log(multipliers / room)
            # To first order: what is missing falls with the square of the width.
            assert violation(problem, point) == pytest.approx(float(levels.max()), abs=250 * gamma**2)
            assert gap(problem, point) == pytest.approx(-float(multipliers @ levels), abs=250 * gamma**2)
        inside = alpha >= total + float(multipliers.max())
        assert (violation(problem, point) <= 0.0) == inside


class TestSampling:
    def test_checks_grow_slower_than_the_constraints_while_the_accuracy_stays(self):
        checks = {}
        for constraints in (50, 800):
            problem = build(rows=400, constraints=constraints)
            form = smoothed(problem, problem.form.penalty, 0.02)
            point, oracle = iterate(problem, form, passes=60.0)
            assert gap(problem, problem.form.constraints.project(point)) <= 0.04
            checks[constraints] = oracle.counters.constraint_checks
        assert checks[800] < 8 * checks[50]

    @pytest.mark.parametrize("constraints", [50, 800])
    def test_a_method_that_looks_at_all_of_them_pays_for_each_in_every_step(self, constraints):
        problem, alone = build(constraints=constraints), SingleProcess()
        start = problem.start(torch.Generator())
        oracle, solver = build_oracle(problem.form, 0, start), FullTouch(FullTouchConfig())
        state = solver.init(start, oracle, alone)
        for _ in range(5):
            state = solver.step(state, oracle, alone)
        assert oracle.counters.constraint_checks == 5 * constraints

"""The quadratic of which everything is known: its optimum, its constants, and what theory says about projections."""

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from drobench.errors import SettingError
from drobench.objective.composite import Composite
from drobench.objective.forms import Constrained
from drobench.objective.oracles.constrained import ConstrainedOracle
from drobench.objective.predictor import ModelConfig
from drobench.reformulation.reformulation import ReformulationConfig
from drobench.reformulation.routes import find_route
from drobench_plugins.datasets.synthetic import SyntheticConfig, load_synthetic_dataset
from drobench_plugins.problems.constrained_quadratic import (
    ConstrainedQuadratic,
    ConstrainedQuadraticConfig,
    entries,
)

MODEL = ModelConfig(intercept=False)


def dataset(seed=0, rows=60, features=5):
    return load_synthetic_dataset(SyntheticConfig(rows=rows, features=features, seed=seed))


def build(seed=0, **settings):
    return ConstrainedQuadratic(
        ConstrainedQuadraticConfig(**{"constraints": 30, "active": 3, **settings}), dataset(seed), MODEL
    )


def parts(problem):
    constraints = problem.form.constraints
    return problem.form.objective.losses.targets.numpy(), constraints.normals.numpy(), constraints.bounds.numpy()


def violation(problem, point):
    return float(problem.form.constraints.violations(point[None], slice(None)).max())


def somewhere(problem, seed, size=1.0):
    generator = torch.Generator().manual_seed(seed)
    return problem.solution + size * torch.randn(len(problem.solution), generator=generator, dtype=torch.float64)


class TestInstance:
    @pytest.mark.parametrize("seed", range(3))
    @pytest.mark.parametrize("curvature", [0.5, 3.0])
    def test_the_optimum_and_the_multipliers_are_those_of_a_conic_solver(self, seed, curvature):
        problem = build(seed, curvature=curvature)
        targets, normals, bounds = parts(problem)
        x = cp.Variable(5)
        condition = normals @ x <= bounds
        objective = curvature / 2 * cp.sum_squares(cp.vstack([x] * 60) - targets) / 60
        program = cp.Problem(cp.Minimize(objective), [condition])
        program.solve(solver=cp.CLARABEL)
        assert float(problem.form.value(problem.solution)) == pytest.approx(program.value, rel=1e-7)
        np.testing.assert_allclose(problem.solution.numpy(), x.value, rtol=0, atol=1e-5)
        np.testing.assert_allclose(problem.multipliers.numpy(), condition.dual_value, rtol=0, atol=1e-4)

    def test_dials_do_what_they_say(self):
        problem = build(constraints=50, active=4, noise=0.7, curvature=2.0)
        _, normals, bounds = parts(problem)
        slack = bounds - normals @ problem.solution.numpy()
        assert (slack < 1e-12).sum() == 4
        assert (problem.multipliers > 0).sum() == 4
        np.testing.assert_allclose(np.linalg.norm(normals, axis=1), 1.0, rtol=1e-12)
        _, pullback = problem.form.objective.losses.linearize(problem.solution[None], slice(None))
        gradients = pullback(torch.eye(60, dtype=torch.float64)[None])[0]
        noise = (gradients - gradients.mean(dim=0)).square().sum(dim=1).mean().sqrt()
        assert float(noise) == pytest.approx(0.7, rel=1e-9)

    def test_the_seed_of_the_dataset_draws_the_instance(self):
        assert torch.equal(build(1).solution, build(1).solution)
        assert not torch.equal(build(1).solution, build(2).solution)

    def test_scores_are_violations_and_the_distance(self):
        problem = build()
        data = replace(dataset(), validation=None, test=None)
        problem = ConstrainedQuadratic(ConstrainedQuadraticConfig(constraints=30, active=3), data, MODEL)
        score = problem.score(problem.solution, "train")
        assert score.error is None
        assert score.max_violation == pytest.approx(0.0, abs=1e-12)
        assert score.extra == {"distance_to_optimum": 0.0}
        point = somewhere(problem, 0)
        expected = parts(problem)[1] @ point.numpy() - parts(problem)[2]
        found = problem.score(point, "train")
        tails = np.quantile(expected, [0.95, 0.99])
        assert (found.p95_violation, found.p99_violation) == pytest.approx(tails, rel=1e-9)
        assert problem.score(point, "test") is None
        assert problem.score(torch.full_like(point, torch.nan), "train").max_violation == np.inf

    def test_settings(self):
        with pytest.raises(SettingError, match=r"active must be at most the number of constraints, 3; found 4"):
            ConstrainedQuadraticConfig(constraints=3, active=4)
        with pytest.raises(SettingError, match=r"condition must be at least 1; found 0.5"):
            ConstrainedQuadraticConfig(condition=0.5)
        with pytest.raises(SettingError, match="needs model=linear"):
            ConstrainedQuadratic(ConstrainedQuadraticConfig(), dataset(), ModelConfig(name="mlp", hidden=[3]))
        (entry,) = entries()
        assert entry.name == "constrained_quadratic"


class TestConstants:
    @pytest.mark.parametrize("condition", [1.0, 25.0])
    @pytest.mark.parametrize("seed", range(2))
    def test_optimum_and_multipliers_are_those_of_a_conic_solver(self, seed, condition):
        problem = build(seed, curvature=0.5, condition=condition)
        targets, normals, bounds = parts(problem)
        curvatures = np.geomspace(0.5, 0.5 * condition, 5)
        x = cp.Variable(5)
        conditions = normals @ x <= bounds
        # The mean over the rows is this quadratic about their mean, and what does not depend on x.
        spread = 0.5 * np.mean((targets - targets.mean(axis=0)) ** 2 @ curvatures)
        objective = 0.5 * cp.sum_squares(cp.multiply(np.sqrt(curvatures), x - targets.mean(axis=0))) + spread
        program = cp.Problem(cp.Minimize(objective), [conditions])
        program.solve(solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
        assert problem.optimal_value == pytest.approx(program.value, abs=1e-9)
        np.testing.assert_allclose(problem.solution.numpy(), x.value, rtol=0, atol=1e-5)
        np.testing.assert_allclose(problem.multipliers.numpy(), conditions.dual_value, rtol=0, atol=1e-5)
        np.testing.assert_allclose(problem.centre.numpy(), targets.mean(axis=0), rtol=0, atol=1e-12)

    @pytest.mark.parametrize("count", [4, 30, 400])
    @pytest.mark.parametrize("seed", range(2))
    def test_rho_is_the_shortest_vector_of_the_hull_of_the_normals(self, seed, count):
        problem = build(seed, constraints=count)
        weights = cp.Variable(count, nonneg=True)
        shortest = cp.norm2(parts(problem)[1].T @ weights)
        cp.Problem(cp.Minimize(shortest), [cp.sum(weights) == 1]).solve(solver=cp.CLARABEL)
        assert problem.rho <= shortest.value + 1e-8
        assert problem.rho == pytest.approx(shortest.value, rel=1e-6)

    @pytest.mark.parametrize("condition", [1.0, 25.0])
    def test_curvature_and_slope_bound_the_objective_on_the_ball_around_the_optimum(self, condition):
        problem = build(3, curvature=2.0, condition=condition)
        form, generator = problem.form, torch.Generator().manual_seed(0)
        start = problem.start(generator)
        assert problem.radius == pytest.approx(float((start - problem.solution).norm()), rel=1e-12)
        for _ in range(60):
            directions = torch.randn(2, 5, generator=generator, dtype=torch.float64)
            x, y = problem.solution + problem.radius * directions / directions.norm(dim=1, keepdim=True)
            nearest = form.constraints.project(x)
            assert float((nearest - problem.solution).norm()) <= problem.radius + 1e-8
            assert float((form.value(x) - form.value(y)).abs() / (x - y).norm()) <= problem.lipschitz
            slope, growth = form.smooth_gradient(y), form.value(x) - form.value(y)
            squared = float((x - y).square().sum())
            rest = float(growth - slope.dot(x - y))
            assert 0.5 * problem.curvature * squared - 1e-9 <= rest <= 0.5 * problem.smoothness * squared + 1e-9
        # Straight away from the minimiser a distance is steepest, and the bound is attained.
        away = problem.solution - problem.centre
        steepest = form.smooth_gradient(problem.solution + problem.radius * away / away.norm()).norm()
        assert float(steepest) <= problem.lipschitz * (1 + 1e-12)
        assert condition > 1.0 or float(steepest) == pytest.approx(problem.lipschitz, rel=1e-12)

    def test_the_projected_minimiser_is_the_optimum_only_without_a_condition(self):
        for condition, lucky in ((1.0, True), (25.0, False)):
            problem = build(0, condition=condition)
            lost = float(problem.form.value(problem.form.constraints.project(problem.centre))) - problem.optimal_value
            assert (lost < 1e-9) == lucky
            assert lost > -1e-9


class TestProjection:
    @pytest.mark.parametrize("seed", range(4))
    def test_a_violation_bounds_the_distance_from_the_feasible_set(self, seed):
        problem = build(seed)
        assert 0.1 < problem.rho <= 1.0
        for size in (0.1, 1.0, 5.0):
            point = somewhere(problem, seed, size)
            distance = float((problem.form.constraints.project(point) - point).norm())
            assert distance <= max(violation(problem, point), 0.0) / problem.rho + 1e-9

    @pytest.mark.parametrize("seed", range(4))
    def test_the_projection_costs_no_more_than_the_penalty_was_off(self, seed):
        # With alpha >= G / rho, f(P x) - f* <= f(x) + alpha max(0, c(x)) - f*: what was lost before the projection.
        problem = build(seed)
        centre, best = torch.from_numpy(parts(problem)[0].mean(axis=0)), float(problem.form.value(problem.solution))
        for size in (0.1, 1.0, 5.0):
            point = somewhere(problem, 10 + seed, size)
            nearest = problem.form.constraints.project(point)
            slope = max(float((x - centre).norm()) for x in (point, nearest))
            alpha = slope / problem.rho
            lost = float(problem.form.value(point)) + alpha * max(violation(problem, point), 0.0) - best
            assert -1e-9 <= float(problem.form.value(nearest)) - best <= lost + 1e-9

    def test_is_counted_and_is_the_last_step_of_every_route(self):
        problem = build()
        oracle = ConstrainedOracle(problem.form, 0, problem.solution)
        point = somewhere(problem, 3)
        found = oracle.project(point)
        assert oracle.counters.projections == 1
        assert violation(problem, found) < 1e-8 < violation(problem, point)
        for accepted in (Constrained, Composite):
            route = find_route(problem.form, (accepted,), ReformulationConfig())
            assert route.projects
            torch.testing.assert_close(route.recover(route.lift(point)), found)
            plain = find_route(problem.form, (accepted,), ReformulationConfig(projection="none"))
            assert not plain.projects
            assert torch.equal(plain.recover(point), point)


class TestPenalty:
    @staticmethod
    def minimum(problem, alpha):
        """Return the minimiser of `f + alpha max(0, max_k c_k)` by a conic solver."""
        targets, normals, bounds = parts(problem)
        x, height = cp.Variable(5), cp.Variable(nonneg=True)
        objective = 0.5 * cp.sum_squares(x - targets.mean(axis=0)) + alpha * height
        cp.Problem(cp.Minimize(objective), [normals @ x - bounds <= height]).solve(solver=cp.CLARABEL)
        return torch.from_numpy(x.value)

    @pytest.mark.parametrize("seed", range(3))
    def test_is_exact_from_the_sum_of_the_multipliers_on_and_not_below(self, seed):
        problem = build(seed)
        total = float(problem.multipliers.sum())
        exact, short = (self.minimum(problem, factor * total) for factor in (1.05, 0.8))
        torch.testing.assert_close(exact, problem.solution, rtol=0, atol=1e-4)
        assert violation(problem, short) > 1e-3
        # Any weight above G / rho is above that sum.
        slope = float((problem.solution - torch.from_numpy(parts(problem)[0].mean(axis=0))).norm())
        assert total <= slope / problem.rho
        assert problem.form.penalty == pytest.approx(2 * total, rel=1e-12)

    def test_smoothed_is_off_by_a_multiple_of_the_width(self):
        problem = build()
        gaps = []
        for width in (0.02, 0.005):
            form = find_route(problem.form, (Composite,), ReformulationConfig(gamma=width, projection="none")).form

            def both(x, form=form):
                point = torch.from_numpy(x)
                return float(form.value(point)), form.smooth_gradient(point).numpy()

            found = minimize(both, np.zeros(5), jac=True, method="L-BFGS-B", options={"gtol": 1e-9})
            projected = problem.form.constraints.project(torch.from_numpy(found.x))
            gaps.append(float(problem.form.value(projected) - problem.form.value(problem.solution)))
        assert 0 < gaps[1] < gaps[0] < 0.1
        assert gaps[0] / gaps[1] == pytest.approx(4.0, rel=0.5)


def test_sampling_constraints_is_no_noisier_the_more_there_are():
    # The mean over M terms estimated from 8 of them: its variance is that of one term over 8, whatever M is.
    spreads = []
    for count in (50, 200, 800):
        problem = build(constraints=count)
        form = find_route(problem.form, (Composite,), ReformulationConfig(gamma=0.3)).form
        oracle_rows = [np.random.default_rng(seed).choice(count, 8, replace=False) for seed in range(400)]
        values = []
        for chosen in oracle_rows:
            rows = form.everything()._replace(constraints=torch.from_numpy(chosen), covered=8 / count)
            values.append(float(form.estimate(problem.solution[None], rows, torch.zeros(()).double()).inner_value))
        spreads.append(np.std(values))
    assert max(spreads) < 1.5 * min(spreads)

"""Projected descent and descent with one projection: against plain loops, counts, and the known optimum."""

from dataclasses import replace
from types import MappingProxyType

import cvxpy as cp
import numpy as np
import pytest
import torch
from constrained_samples import Fairness, run, run_on_several, same, through_a_file
from quadratic_samples import Quadratic
from scipy.special import expit

from drobench.checks import SolverChecks
from drobench.checks.known_solutions import HalfSpaces, known_problems
from drobench.checks.trials import Trial
from drobench.errors import DrobenchError, SettingError
from drobench.objective.forms import Constrained
from drobench.reformulation.projection import project_euclidean
from drobench.reformulation.reformulation import ReformulationConfig
from drobench.reformulation.routes import find_route
from drobench.registry import NeedsNotMet, check_requirements
from drobench.solver import SingleProcess
from drobench.solver.solver import state_from_dict, state_to_dict, state_type
from drobench_plugins.solvers import one_projection_sgd, projected_sgd
from drobench_plugins.solvers.one_projection_sgd import OneProjectionSgd, OneProjectionSgdConfig
from drobench_plugins.solvers.projected_sgd import ProjectedSgd, ProjectedSgdConfig


def nearest(problem, x):
    found = cp.Variable(len(x))
    cp.Problem(cp.Minimize(cp.sum_squares(found - x)), [problem.normals @ found <= problem.bounds]).solve(cp.CLARABEL)
    return found.value


class TestProjectedSgd:
    @pytest.mark.parametrize("decay", ["convex", "strongly_convex"])
    def test_takes_the_steps_of_a_plain_loop(self, decay):
        problem = Quadratic()
        config = ProjectedSgdConfig(step_size=0.6, delay=5, batch=7, decay=decay)
        oracle = problem.oracle(4)
        states = run(ProjectedSgd(config), oracle, problem.start, 12)
        generator, x = np.random.default_rng(4), problem.start.numpy()
        for k, state in enumerate(states[1:], start=1):
            chosen = generator.choice(40, 7, replace=False, shuffle=False)
            eta = 0.6 * (1 + (k - 1) / 5) ** (-1.0 if decay == "strongly_convex" else -0.5)
            x = nearest(problem, x - eta * problem.gradient(x, chosen))
            np.testing.assert_allclose(state.point.numpy(), x, rtol=0, atol=1e-5)
        assert oracle.counters.projections == 12
        assert (oracle.counters.sample_calls, oracle.counters.constraint_checks) == (12 * 7, 0)

    @pytest.mark.convergence
    def test_reaches_the_known_optimum(self):
        problem = Quadratic(constraints=60)
        solver = ProjectedSgd(ProjectedSgdConfig(batch=8))
        point = solver.solution(run(solver, problem.oracle(), problem.start, 800)[-1])
        assert 0 <= problem.projected_gap(point) < 5e-4
        assert float(problem.form.constraints.violations(point[None], slice(None)).max()) < 1e-8

    def test_refuses_constraints_that_cannot_project(self):
        problem = Fairness()
        with pytest.raises(NeedsNotMet, match=r"'projected_sgd' requires .*: projection, that is, a projection on its"):
            check_requirements(projected_sgd.entry(), problem.form)
        check_requirements(projected_sgd.entry(), Quadratic().form)
        with pytest.raises(DrobenchError, match="GroupErrors cannot project"):
            problem.oracle().project(problem.start)

    def test_continues_from_a_file_and_on_several_processes(self):
        problem, solver = Quadratic(), ProjectedSgd(ProjectedSgdConfig(batch=7))
        whole = run(solver, problem.oracle(2), problem.start, 10)
        oracle = problem.oracle(2)
        half = run(solver, oracle, problem.start, 5)[-1]
        state = state_from_dict(state_type(solver), through_a_file(state_to_dict(half)))
        for _ in range(5):
            state = solver.step(state, oracle, SingleProcess())
        assert same(state, whole[-1])
        parts = run_on_several(solver, problem, 2, 2, 10)
        for other, _, _ in parts:
            torch.testing.assert_close(other.point, whole[-1].point, rtol=0, atol=1e-12)
        assert sum(part.counters.projections for _, part, _ in parts) == 10

    def test_entry(self):
        found = projected_sgd.entry()
        assert (found.name, found.accepts) == ("projected_sgd", (Constrained,))
        assert found.calls_per_step(ProjectedSgdConfig(batch=7), Quadratic().oracle()) == {7}


class Projecting(HalfSpaces):
    """The small problem's constraints, able to project."""

    projectable = True

    def project(self, point):
        return project_euclidean(self, point)


class TestPromises(SolverChecks):
    """What every solver promises, on a small problem that this one does not refuse."""

    name = "projected_sgd"
    skips = MappingProxyType(
        {"two_processes_equal_one": "shown above, by threads: its processes see the installed problems only"}
    )

    def trials(self, dtype=torch.float64, *, spoiled=False):
        (known,) = (found for found in known_problems(dtype, spoiled=spoiled) if found.name == "half_spaces")
        constraints = Projecting(known.form.constraints.normals, known.form.constraints.bounds)
        form = Constrained(known.form.objective, constraints)
        problem = replace(known, form=form)
        route = find_route(form, (Constrained,), ReformulationConfig(projection="none"))
        return [Trial(problem, route, problem.start)]


class TestOneProjectionSgd:
    @pytest.mark.parametrize("gamma", [0.0, 0.05])
    def test_takes_the_steps_of_a_plain_loop(self, gamma):
        problem = Quadratic()
        config = OneProjectionSgdConfig(step_size=0.3, delay=5, batch=7, penalty=1.7, gamma=gamma)
        oracle = problem.oracle(4)
        states = run(OneProjectionSgd(config), oracle, problem.start, 40)
        generator, x, inside = np.random.default_rng(4), problem.start.numpy(), 0
        for k, state in enumerate(states[1:], start=1):
            chosen = generator.choice(40, 7, replace=False, shuffle=False)
            values = problem.violations(x)
            worst = values.argmax()
            inside += values[worst] < 0
            share = expit(values[worst] / gamma) if gamma else float(values[worst] > 0)
            gradient = problem.gradient(x, chosen) + 1.7 * share * problem.normals[worst]
            x = x - 0.3 / (1 + (k - 1) / 5) * gradient
            np.testing.assert_allclose(state.point.numpy(), x, rtol=0, atol=1e-12)
        assert 0 < inside < 40
        assert oracle.counters.projections == 0
        assert (oracle.counters.sample_calls, oracle.counters.constraint_checks) == (40 * 7, 40 * 12)

    @pytest.mark.convergence
    def test_reaches_the_known_optimum_with_the_one_projection(self):
        problem = Quadratic()
        solver = OneProjectionSgd(OneProjectionSgdConfig(batch=8, gamma=1e-3))
        route = find_route(problem.form, (Constrained,), ReformulationConfig())
        assert (route.names, route.projects) == (["projected_constraints"], True)
        point = route.recover(solver.solution(run(solver, problem.oracle(), problem.start, 2000)[-1]))
        assert float(problem.form.constraints.violations(point[None], slice(None)).max()) < 1e-8
        assert 0 <= float(problem.form.value(point)) - problem.optimum < 5e-3
        assert float(problem.form.value(route.recover(problem.start))) - problem.optimum > 0.1

    def test_constraints_at_the_same_height_share_the_slope(self):
        problem = Quadratic(active=0)
        problem.form.constraints.normals[:2] = torch.eye(4, dtype=torch.float64)[:2]
        problem.form.constraints.bounds[:] = 50.0
        problem.form.constraints.bounds[:2] = 1.0
        config = OneProjectionSgdConfig(batch=None, penalty=1.0, gamma=0.0, step_size=1.0)
        _, after = run(OneProjectionSgd(config), problem.oracle(), problem.start, 1)
        expected = problem.targets.mean(axis=0) - 0.5 * (np.arange(4) < 2)
        np.testing.assert_allclose(after.point.numpy(), expected, rtol=0, atol=1e-12)

    @pytest.mark.parametrize("parts", [2, 3])
    def test_several_processes_take_the_steps_of_one(self, parts):
        problem, solver = Quadratic(), OneProjectionSgd(OneProjectionSgdConfig(batch=7))
        oracle = problem.oracle(3)
        alone = run(solver, oracle, problem.start, 30)[-1]
        ends = run_on_several(solver, problem, parts, 3, 30)
        for state, _, _ in ends:
            torch.testing.assert_close(state.point, alone.point, rtol=0, atol=1e-12)
        assert sum(part.counters.constraint_checks for _, part, _ in ends) == oracle.counters.constraint_checks

    def test_refuses_problems_without_constraints_it_can_see(self):
        problem = Quadratic()
        problem.form.constraints.count = 0
        with pytest.raises(NeedsNotMet, match=r"'one_projection_sgd' requires .*: constraints, that is, "):
            check_requirements(one_projection_sgd.entry(), problem.form)
        problem.form.constraints.count, problem.form.constraints.cheap_count = 12, 1
        with pytest.raises(NeedsNotMet, match=r"only_numbered_constraints, that is, "):
            check_requirements(one_projection_sgd.entry(), problem.form)

    def test_a_violation_that_is_no_number_is_passed_on(self):
        problem = Quadratic()
        problem.form.constraints.bounds[3] = torch.nan
        for gamma in (0.0, 0.1):
            solver = OneProjectionSgd(OneProjectionSgdConfig(gamma=gamma))
            assert run(solver, problem.oracle(), problem.start, 1)[-1].point.isnan().all()

    def test_entry_and_settings(self):
        assert one_projection_sgd.entry().accepts == (Constrained,)
        for name in ("step_size", "delay", "batch", "penalty"):
            with pytest.raises(SettingError, match=rf"OneProjectionSgdConfig\.{name} must be a finite number above 0"):
                OneProjectionSgdConfig(**{name: 0})
        with pytest.raises(SettingError, match=r"\.gamma must be"):
            OneProjectionSgdConfig(gamma=-1.0)
        with pytest.raises(SettingError, match=r"\.decay must be one of strongly_convex, convex"):
            OneProjectionSgdConfig(decay="none")

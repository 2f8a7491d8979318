"""The standard Lagrangian: against torch's optimizers step by step, and against points known from KKT conditions."""

import cvxpy as cp
import numpy as np
import pytest
import torch
from constrained_samples import (
    Fairness,
    HalfSpaces,
    drawn,
    projection_problem,
    randn,
    reference_run,
    run,
)

from drobench.errors import SettingError
from drobench.objective.forms import Constrained, FiniteSum
from drobench.objective.losses import NoLosses
from drobench.objective.oracles.constrained import ConstrainedOracle
from drobench.objective.regularizers import Box, ElasticNet, NotDifferentiableError
from drobench.registry import NeedsNotMet, SolverEntry, check_requirements
from drobench_plugins.solvers.lagrangian import Lagrangian, LagrangianConfig, entry

STEPS = 40
OPTIMIZERS = {
    "adagrad": lambda variables: torch.optim.Adagrad(variables, 0.1, initial_accumulator_value=0.1, eps=1e-7),
    "sgd": lambda variables: torch.optim.SGD(variables, 0.1),
    "adam": lambda variables: torch.optim.Adam(variables, 0.1, eps=1e-7),
}


def variable(values) -> torch.Tensor:
    return torch.as_tensor(values, dtype=torch.float64).clone().requires_grad_(True)


def assert_path(states, path):
    for state, (theta, multipliers) in zip(states[1:], path, strict=True):
        torch.testing.assert_close(state.point, theta, rtol=0, atol=1e-11)
        torch.testing.assert_close(state.multipliers.parameters, multipliers, rtol=0, atol=1e-11)


class TestSteps:
    @pytest.mark.parametrize("optimizer", OPTIMIZERS)
    @pytest.mark.parametrize(("batch", "constraint_batch"), [(None, None), (6, None), (None, 2), (6, 2), (99, 99)])
    def test_are_those_of_torch(self, optimizer, batch, constraint_batch):
        problem = Fairness()
        config = LagrangianConfig(optimizer=optimizer, dual_scale=3.0, batch=batch, constraint_batch=constraint_batch)
        states = run(Lagrangian(config), problem.oracle(8), problem.start, STEPS)
        theta, mu = variable(problem.start), variable(torch.ones(problem.groups))
        whole = batch == 99
        draws = drawn(8, STEPS, 40, None if whole else batch, 7, None if whole else constraint_batch)
        path = reference_run(
            problem, lambda k: mu[k].abs(), [theta, mu], OPTIMIZERS[optimizer]([theta, mu]), draws, dual_scale=3.0
        )
        assert_path(states, path)
        assert float((states[-1].multipliers.parameters - 1.0).abs().max()) > 0.05

    @pytest.mark.parametrize("shared", [1, 2])
    @pytest.mark.parametrize("optimizer", ["adagrad", "sgd"])
    def test_of_common_multipliers_are_projected(self, optimizer, shared):
        problem = Fairness()
        config = LagrangianConfig(
            optimizer=optimizer, variant="common", common_multipliers=shared, constraint_batch=3, dual_rates=False
        )
        states = run(Lagrangian(config), problem.oracle(8), problem.start, STEPS)
        theta, mu = variable(problem.start), variable(torch.zeros(shared))
        path = reference_run(
            problem,
            lambda k: mu[k % shared],
            [theta, mu],
            OPTIMIZERS[optimizer]([theta, mu]),
            drawn(8, STEPS, 40, None, 7, 3),
            dual_rates=False,
            after=lambda: mu.clamp_(min=0.0),
        )
        assert_path(states, path)
        assert bool((states[-1].multipliers.parameters > 0).all())

    @pytest.mark.parametrize("optimizer", ["adagrad", "adam"])
    def test_take_the_gradient_of_the_regularizer(self, optimizer):
        problem = Fairness(ElasticNet(l1=0.03, l2=0.4))
        states = run(Lagrangian(LagrangianConfig(optimizer=optimizer)), problem.oracle(), problem.start, STEPS)
        theta, mu = variable(problem.start), variable(torch.ones(problem.groups))
        path = reference_run(
            problem,
            lambda k: mu[k].abs(),
            [theta, mu],
            OPTIMIZERS[optimizer]([theta, mu]),
            drawn(0, STEPS, 40, None, 7, None),
            penalty=lambda x: 0.03 * x.abs().sum() + 0.2 * x.square().sum(),
        )
        assert_path(states, path)

    def test_of_sgd_end_with_the_proximal_map(self):
        problem = Fairness(ElasticNet(l1=0.3, l2=0.4))
        states = run(Lagrangian(LagrangianConfig(optimizer="sgd")), problem.oracle(), problem.start, STEPS)
        theta, mu = variable(problem.start), variable(torch.ones(problem.groups))

        def shrink():
            theta.copy_(theta.sign() * (theta.abs() - 0.03).clamp(min=0.0) / 1.04)

        path = reference_run(
            problem,
            lambda k: mu[k].abs(),
            [theta, mu],
            OPTIMIZERS["sgd"]([theta, mu]),
            drawn(0, STEPS, 40, None, 7, None),
            after=shrink,
        )
        assert_path(states, path)

    def test_of_sgd_count_projections_and_the_others_refuse_sets(self):
        problem = Fairness(Box(-0.1, 0.1))
        oracle = problem.oracle()
        states = run(Lagrangian(LagrangianConfig(optimizer="sgd")), oracle, problem.start, 5)
        assert oracle.counters.projections == 5
        assert float(states[-1].point.abs().max()) <= 0.1
        with pytest.raises(NotDifferentiableError):
            run(Lagrangian(LagrangianConfig()), oracle, problem.start, 1)

    def test_with_repeated_rows_add_up(self):
        problem = Fairness()
        config = LagrangianConfig(optimizer="sgd", constraint_batch=6, replacement=True, dual_scale=1.0)
        _, after = run(Lagrangian(config), problem.oracle(3), problem.start, 1)
        numbers = np.random.default_rng(3).integers(0, 7, 6)
        assert len(set(numbers.tolist())) < 6
        expected = torch.ones(7, dtype=torch.float64)
        for group in numbers.tolist():
            expected[group] += 0.1 * problem.rate(problem.start, group)
        torch.testing.assert_close(after.multipliers.parameters, expected, rtol=0, atol=1e-14)

    def test_keep_single_precision(self):
        objective = FiniteSum(projection_problem([[1.0, 0.0]], [0.0], [1.0, 2.0]).objective.losses, ElasticNet())
        objective.losses.targets = objective.losses.targets.float()
        form = Constrained(objective, HalfSpaces(torch.ones(3, 2), torch.zeros(3)))
        start = torch.zeros(2)
        state = run(Lagrangian(LagrangianConfig()), ConstrainedOracle(form, 0, start), start, 3)[-1]
        assert state.point.dtype == state.multipliers.parameters.dtype == state.second_moment.dtype == torch.float32


SQUARE = ([[1.0, 1.0], [1.0, 0.0], [-1.0, 0.0]], [2.0, 5.0, 0.0], [2.0, 2.0])


@pytest.mark.convergence
class TestSaddlePoint:
    def test_of_a_projection_by_hand(self):
        form = projection_problem([[1.0, 1.0]], [2.0], [2.0, 2.0])
        start = torch.zeros(2, dtype=torch.float64)
        state = run(Lagrangian(LagrangianConfig(optimizer="sgd")), ConstrainedOracle(form, 0, start), start, 500)[-1]
        torch.testing.assert_close(state.point, torch.ones(2, dtype=torch.float64), rtol=0, atol=1e-9)
        assert float(state.multipliers.parameters[0]) == pytest.approx(1.0, abs=1e-9)

    def test_has_no_multiplier_on_slack_constraints(self):
        form = projection_problem(*SQUARE)
        start = torch.zeros(2, dtype=torch.float64)
        state = run(Lagrangian(LagrangianConfig()), ConstrainedOracle(form, 0, start), start, 2000)[-1]
        torch.testing.assert_close(state.point, torch.ones(2, dtype=torch.float64), rtol=0, atol=1e-2)
        expected = torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64)
        torch.testing.assert_close(state.multipliers.parameters.abs(), expected, rtol=0, atol=1e-2)

    @pytest.mark.parametrize("seed", range(3))
    def test_of_random_projections_is_that_of_a_conic_solver(self, seed):
        normals, bounds = randn(6, 4, seed=seed), randn(6, seed=10 + seed).abs() - 0.1
        target = 3.0 * randn(4, seed=20 + seed)
        x = cp.Variable(4)
        conditions = [normals.numpy() @ x <= bounds.numpy()]
        loss = 0.5 * cp.sum_squares(x - target.numpy()) + 0.1 * cp.sum_squares(x)
        cp.Problem(cp.Minimize(loss), conditions).solve(solver=cp.CLARABEL)
        form = projection_problem(normals, bounds, target, ElasticNet(l2=0.2))
        start = torch.zeros(4, dtype=torch.float64)
        solver = Lagrangian(LagrangianConfig(average=True))
        state = run(solver, ConstrainedOracle(form, 0, start), start, 3000)[-1]
        np.testing.assert_allclose(state.point.numpy(), x.value, rtol=0, atol=1e-2)
        np.testing.assert_allclose(solver.average(state).numpy(), x.value, rtol=0, atol=0.1)
        found = state.multipliers.parameters.abs().numpy()
        np.testing.assert_allclose(found, conditions[0].dual_value, rtol=0, atol=1e-2)
        assert (conditions[0].dual_value > 0.1).sum() >= 2

    def test_of_a_common_multiplier_is_that_of_the_sum_of_the_constraints(self):
        normals, _, target = SQUARE
        form = projection_problem(normals[:2], [2.0, 0.5], target)
        start = torch.zeros(2, dtype=torch.float64)
        config = LagrangianConfig(optimizer="sgd", variant="common")
        state = run(Lagrangian(config), ConstrainedOracle(form, 0, start), start, 2000)[-1]
        # min |x - (2, 2)|^2 / 2 with 2 x_1 + x_2 <= 2.5: along the normal (2, 1), the excess 3.5 over its square 5.
        expected = torch.tensor([2.0, 2.0], dtype=torch.float64) - 0.7 * torch.tensor([2.0, 1.0], dtype=torch.float64)
        torch.testing.assert_close(state.point, expected, rtol=0, atol=1e-9)
        assert float(state.multipliers.parameters[0]) == pytest.approx(0.7, abs=1e-9)

    def test_of_a_slack_common_multiplier_is_the_free_minimum(self):
        form = projection_problem([[1.0, 0.0]], [50.0], [2.0, -1.0])
        start = torch.zeros(2, dtype=torch.float64)
        config = LagrangianConfig(optimizer="sgd", variant="common", initial_multiplier=2.0)
        states = run(Lagrangian(config), ConstrainedOracle(form, 0, start), start, 500)
        torch.testing.assert_close(states[-1].point, torch.tensor([2.0, -1.0]).double(), rtol=0, atol=1e-9)
        assert float(states[0].multipliers.parameters[0]) == 2.0
        assert float(states[-1].multipliers.parameters[0]) == 0.0

    def test_of_an_objective_without_samples(self):
        normals = torch.tensor([[-1.0, -1.0]], dtype=torch.float64)
        template = torch.zeros(2, dtype=torch.float64)
        objective = FiniteSum(NoLosses(template), ElasticNet(l2=1.0))
        form = Constrained(objective, HalfSpaces(normals, torch.tensor([-2.0], dtype=torch.float64)))
        oracle = ConstrainedOracle(form, 0, template)
        config = LagrangianConfig(optimizer="sgd", snapshot_every=500)
        state = run(Lagrangian(config), oracle, template, 2000)[-1]
        torch.testing.assert_close(state.point, torch.ones(2, dtype=torch.float64), rtol=0, atol=1e-9)
        assert oracle.counters.sample_calls == 0
        assert state.candidates.objectives.tolist() == [0.0] * 4

    def test_candidates_of_a_fairness_problem_violate_far_less_than_the_free_minimum(self):
        problem = Fairness()
        free = Lagrangian(LagrangianConfig(initial_multiplier=0.0, dual_scale=0.0))
        fair = Lagrangian(LagrangianConfig(snapshot_every=5, output="best_candidate", rank_objectives=False))
        worst = []
        for solver in (free, fair):
            point = solver.solution(run(solver, problem.oracle(), problem.start, 1000)[-1])
            worst.append(max(problem.rate(point, group) for group in range(problem.groups)))
        assert worst[0] > 0.2
        assert worst[1] < 0.03


def test_entry():
    found = entry()
    assert isinstance(found, SolverEntry)
    assert (found.name, found.accepts) == ("lagrangian", (Constrained,))
    assert isinstance(found.factory(found.config()), Lagrangian)


def test_other_settings():
    with pytest.raises(SettingError, match=r"LagrangianConfig\.initial_multiplier must be a finite number of at least"):
        LagrangianConfig(initial_multiplier=-0.1)
    with pytest.raises(SettingError, match=r"LagrangianConfig\.variant must be one of separate, common; found 'both'"):
        LagrangianConfig(variant="both")


def test_problems_without_drawable_constraints_are_refused():
    form = projection_problem(torch.zeros(0, 2), torch.zeros(0), [1.0, 1.0])
    with pytest.raises(
        NeedsNotMet, match=r"Solver 'lagrangian' requires .* as a Constrained, .*: constraints, that is"
    ):
        check_requirements(entry(), form)
    form = projection_problem(*SQUARE)
    form.constraints.cheap_count = 1
    with pytest.raises(NeedsNotMet, match="no constraint beside those that are numbered"):
        check_requirements(entry(), form)

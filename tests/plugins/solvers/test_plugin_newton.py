"""Newton's method against numpy's Newton steps, to certified optima, and where second derivatives are of no use."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from composite_samples import half_spaces

from drobench.errors import DrobenchError, SettingError
from drobench.objective.ambiguity_sets import Chi2Variance, CVaR, KLBall, KLPenalty
from drobench.objective.composite import Composite
from drobench.objective.forms import RobustRisk
from drobench.objective.losses import LinearMarginLosses, LogisticLoss, NetworkLosses, SigmoidLoss
from drobench.objective.oracles.composite import CompositeOracle
from drobench.objective.regularizers import ElasticNet, Zero
from drobench.reformulation.reformulation import ReformulationConfig
from drobench.reformulation.routes import find_route
from drobench.solver import SingleProcess
from drobench_plugins.solvers.newton import Newton, NewtonConfig

KNOWN = [0.244617892736, -0.184093745094, 1.289486985032]


def oracle_of(form, start):
    return CompositeOracle(find_route(form, (Composite,), ReformulationConfig()).form, 0, start)


def run(solver, oracle, start, most=60):
    """Return the states until the method ends."""
    states = [solver.init(start, oracle, SingleProcess())]
    while not solver.ended(states[-1]) and len(states) <= most:
        states.append(solver.step(states[-1], oracle, SingleProcess()))
    return states


def test_whole_steps_are_those_of_numpy(synthetic, trace):
    data = synthetic(200, 5, 0)
    states = trace(Newton(NewtonConfig()), data.oracle(1.0, 0, ElasticNet(l2=0.1)), data.start, 5)
    x, numbers = np.zeros(5), data.numpy()
    for state in states[2:]:
        _, gradient = numbers.robust(x, 1.0, 0.1)
        x = x - np.linalg.solve(numbers.hessian(x, 1.0) + 0.1 * np.eye(5), gradient)
        np.testing.assert_allclose(state.point.numpy(), x, rtol=0, atol=1e-10)


def test_it_ends_at_the_known_optimum(twenty):
    oracle = twenty.oracle(0.5, 0, ElasticNet(l2=0.1))
    states = run(Newton(NewtonConfig()), oracle, twenty.start)
    np.testing.assert_allclose(states[-1].point.numpy(), KNOWN, rtol=0, atol=1e-8)
    assert len(states) < 12
    # Each trial is a pass, and each accepted point has its matrix in the same pass.
    assert oracle.counters.hessian_rows <= oracle.counters.sample_calls <= 20 * len(states)


def test_products_lead_to_the_same_optimum(twenty):
    oracle = twenty.oracle(0.5, 0, ElasticNet(l2=0.1))
    states = run(Newton(NewtonConfig(largest_matrix=2)), oracle, twenty.start)
    np.testing.assert_allclose(states[-1].point.numpy(), KNOWN, rtol=0, atol=1e-7)
    assert oracle.counters.hessian_rows == 0
    assert oracle.counters.hessian_products > 0
    # Every product is a sweep of its own.
    assert oracle.counters.sample_calls > oracle.counters.hessian_products


def test_every_step_goes_down(synthetic):
    data = synthetic(300, 8, 1)
    states = run(Newton(NewtonConfig()), data.oracle(0.05, 0, ElasticNet(l2=1e-4)), data.start)
    values = [state.accepted.value for state in states[1:]]
    assert all(after <= before for before, after in pairwise(values))
    _, least = data.numpy().optimum(0.05, 1e-4)
    assert values[-1] - least < 1e-10


def test_an_l1_part_is_solved_to_its_optimality_conditions(synthetic):
    data = synthetic(200, 6, 2)
    regularizer = ElasticNet(0.03, 0.01)
    oracle = data.oracle(0.5, 0, regularizer)
    point = run(Newton(NewtonConfig()), oracle, data.start)[-1].point
    form = data.kl(0.5, regularizer)
    rest = regularizer.least_subgradient(point, form.smooth_gradient(point))
    assert float(rest.norm()) < 1e-7
    assert 0 < int((point == 0).sum()) < 6


def test_a_stage_is_not_over_before_its_first_step(synthetic):
    data = synthetic(200, 4, 3)
    route = find_route(RobustRisk(data.losses, KLBall(0.2), ElasticNet(l2=0.05)), (Composite,), ReformulationConfig())
    solver, start = Newton(NewtonConfig()), route.lift(data.start)
    oracles = [CompositeOracle(stage, 0, start) for stage in route.stages[:2]]
    state = solver.init(start, oracles[0], SingleProcess())
    assert not solver.resting(state)
    # Where it begins is measured; that alone would be for nothing.
    state = solver.step(state, oracles[0], SingleProcess())
    assert not solver.resting(state)
    state = solver.step(state, oracles[0], SingleProcess())
    assert solver.resting(state)
    assert not torch.equal(state.point, start)
    assert not solver.resting(solver.sharpen(state, oracles[1], SingleProcess()))


@pytest.mark.parametrize("ambiguity", [KLBall(0.2), CVaR(0.3)])
def test_dual_variables_are_settled(synthetic, ambiguity):
    data = synthetic(200, 4, 3)
    form = RobustRisk(data.losses, ambiguity, ElasticNet(l2=0.05))
    route = find_route(form, (Composite,), ReformulationConfig())
    start = route.lift(data.start)
    solver, state = Newton(NewtonConfig()), None
    for stage in route.stages:
        oracle = CompositeOracle(stage, 0, start)
        state = (
            solver.init(start, oracle, SingleProcess())
            if state is None
            else solver.sharpen(state, oracle, SingleProcess())
        )
        while not (solver.ended(state) or solver.stalled(state)):
            state = solver.step(state, oracle, SingleProcess())
    found = form.value(route.recover(solver.solution(state)))
    assert float(found) < float(form.value(data.start))
    # No step of a plain subgradient method finds anything much lower.
    point = route.recover(solver.solution(state)).clone()
    for count in range(1, 400):
        point = point - 0.1 / count * (form.smooth_gradient(point) + 0.05 * point)
        assert float(form.value(point)) > float(found) - 2e-3


@pytest.mark.parametrize("ambiguity", [KLPenalty(0.3), Chi2Variance(0.3)])
def test_it_goes_down_where_the_objective_is_not_convex(synthetic, ambiguity):
    data = synthetic(150, 4, 4)
    losses = LinearMarginLosses(data.rows, data.signs, SigmoidLoss())
    oracle = oracle_of(RobustRisk(losses, ambiguity, ElasticNet(l2=1e-3)), data.start)
    states = run(Newton(NewtonConfig()), oracle, data.start)
    values = [state.accepted.value for state in states[1:]]
    assert values[-1] < values[0]
    assert all(after <= before for before, after in pairwise(values))


def test_a_network_goes_down_by_products():
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(60, 3, generator=generator, dtype=torch.float64)
    targets = torch.where(features[:, 0] * features[:, 1] > 0, 1.0, -1.0).to(torch.float64)

    def scores(point, rows):
        return torch.tanh(rows @ point[:12].view(3, 4)) @ point[12:]

    losses = NetworkLosses(scores, 16, features, targets, LogisticLoss())
    start = 0.5 * torch.randn(16, generator=generator, dtype=torch.float64)
    states = run(
        Newton(NewtonConfig()), oracle_of(RobustRisk(losses, KLPenalty(1.0), ElasticNet(l2=1e-3)), start), start
    )
    assert states[-1].accepted.value < 0.8 * states[1].accepted.value


@pytest.mark.parametrize("l2", [0.0, 1e-3])
def test_fewer_rows_than_variables(synthetic, l2):
    data = synthetic(6, 20, 5)
    states = run(Newton(NewtonConfig()), data.oracle(1.0, 0, ElasticNet(l2=l2)), data.start, most=30)
    assert states[-1].accepted.value < 0.2
    assert bool(states[-1].point.isfinite().all())


def test_a_start_that_is_optimal_ends_at_once(twenty):
    oracle = twenty.oracle(0.5, 0, ElasticNet(l2=0.1))
    solver = Newton(NewtonConfig())
    optimum = run(solver, oracle, twenty.start)[-1].point
    states = run(solver, oracle, optimum)
    assert len(states) <= 4
    torch.testing.assert_close(solver.solution(states[-1]), optimum)


def test_rows_that_are_all_alike(single):
    states = run(Newton(NewtonConfig()), single.oracle(0.1, 0, ElasticNet(l2=0.1)), single.start)
    assert solver_gradient(states[-1].point, single) < 1e-8


def solver_gradient(point, data):
    return float(np.linalg.norm(data.numpy().robust(point.numpy(), 0.1, 0.1)[1]))


def test_weights_that_underflow_leave_one_row_with_all_the_weight(synthetic):
    data = synthetic(100, 3, 6)
    states = run(Newton(NewtonConfig()), data.oracle(1e-4, 0, ElasticNet(l2=1e-2)), data.start, most=200)
    values = [state.accepted.value for state in states[1:]]
    assert all(np.isfinite(values))
    assert all(after <= before for before, after in pairwise(values))
    assert values[-1] < values[0]


def test_single_precision(twenty):
    start = twenty.start.float()
    losses = LinearMarginLosses(twenty.rows.float(), twenty.signs.float(), LogisticLoss())
    states = run(
        Newton(NewtonConfig()), oracle_of(RobustRisk(losses, KLPenalty(0.5), ElasticNet(l2=0.1)), start), start
    )
    np.testing.assert_allclose(states[-1].point.numpy(), KNOWN, rtol=0, atol=1e-3)


def test_it_solves_a_smoothed_constrained_problem_or_says_why_not():
    oracle, start, _ = half_spaces()
    with pytest.raises(DrobenchError, match="solver=lbfgs"):
        Newton(NewtonConfig()).init(start, oracle, SingleProcess())


def test_kinks_beyond_the_largest_matrix_are_refused(twenty):
    oracle = twenty.oracle(0.5, 0, ElasticNet(0.1, 0.1))
    with pytest.raises(DrobenchError, match="largest_matrix=2"):
        Newton(NewtonConfig(largest_matrix=2)).init(twenty.start, oracle, SingleProcess())


def test_settings_are_checked():
    with pytest.raises(SettingError, match="largest_matrix"):
        NewtonConfig(largest_matrix=0)


def test_no_regularizer_at_all(twenty):
    states = run(Newton(NewtonConfig()), twenty.oracle(0.5, 0, Zero()), twenty.start)
    gradient = twenty.numpy().robust(states[-1].point.numpy(), 0.5, 0.0)[1]
    assert np.linalg.norm(gradient) < 1e-7

"""L-BFGS against the two-loop recursion, to optima that others have found, and where curvature is hard to come by."""

from dataclasses import replace
from itertools import pairwise

import cvxpy as cp
import numpy as np
import pytest
import torch
from composite_samples import half_spaces
from scipy.optimize import minimize

from drobench.errors import SettingError
from drobench.objective.ambiguity_sets import Chi2Penalty, Chi2Variance, CVaR, KLBall, KLPenalty
from drobench.objective.composite import Composite
from drobench.objective.forms import RobustRisk
from drobench.objective.losses import LinearMarginLosses, LogisticLoss, NetworkLosses, SigmoidLoss
from drobench.objective.oracles.composite import CompositeOracle
from drobench.objective.regularizers import Box, ElasticNet, Zero
from drobench.reformulation.reformulation import ReformulationConfig
from drobench.reformulation.routes import find_route
from drobench.solver import SingleProcess
from drobench_plugins.solvers.lbfgs import Lbfgs, LbfgsConfig
from drobench_plugins.solvers.pieces.line_state import search

KNOWN = [0.244617892736, -0.184093745094, 1.289486985032]


def route_of(form):
    return find_route(form, (Composite,), ReformulationConfig())


def oracle_of(form, start):
    return CompositeOracle(route_of(form).form, 0, start)


def run(solver, oracle, start, most=200):
    """Return the states until the method ends."""
    states = [solver.init(start, oracle, SingleProcess())]
    while not solver.ended(states[-1]) and len(states) <= most:
        states.append(solver.step(states[-1], oracle, SingleProcess()))
    return states


def accepted(states):
    """Return the states in which a place is new."""
    found = [states[1]]
    return found + [after for before, after in pairwise(states[1:]) if after.place is not before.place]


def by_stages(form, start, steps=60):
    """Return the point that the problem is left with after all stages, and how its objective went."""
    route, solver, state = route_of(form), Lbfgs(LbfgsConfig()), None
    values = [float(form.value(start))]
    for stage in route.stages:
        oracle, more = CompositeOracle(stage, 0, start), stage is not route.stages[-1]
        if state is None:
            state = solver.init(route.lift(start), oracle, SingleProcess())
        else:
            state = solver.sharpen(state, oracle, SingleProcess())
        for _ in range(steps):
            state = solver.step(state, oracle, SingleProcess())
            values.append(float(form.value(route.recover(solver.solution(state)))))
            if solver.ended(state) or (more and solver.stalled(state)):
                break
    return route.recover(solver.solution(state)), values


def two_loops(points, gradients, memory):
    """Return the move of L-BFGS from the last of some points, by the recursion as it stands in textbooks."""
    pairs = [
        (after - before, later - sooner)
        for (before, after), (sooner, later) in zip(pairwise(points), pairwise(gradients), strict=True)
    ][-memory:]
    rest, shares = gradients[-1].copy(), []
    for move, change in reversed(pairs):
        shares.append(move @ rest / (move @ change))
        rest -= shares[-1] * change
    move, change = pairs[-1]
    rest *= move @ change / (change @ change)
    for (move, change), share in zip(pairs, reversed(shares), strict=True):
        rest += move * (share - change @ rest / (move @ change))
    return -rest


@pytest.mark.parametrize("memory", [3, 20])
def test_directions_are_those_of_the_two_loop_recursion(synthetic, memory):
    data = synthetic(200, 6, 0)
    oracle, numbers = data.oracle(0.3, 0, ElasticNet(l2=1e-2)), data.numpy()
    found = accepted(run(Lbfgs(LbfgsConfig(memory=memory)), oracle, data.start, 15))
    points = [state.place.point.numpy() for state in found]
    gradients = [numbers.robust(point, 0.3, 1e-2)[1] for point in points]
    assert len(found) > 8
    for count, state in enumerate(found[1:], 2):
        move = two_loops(points[:count], gradients[:count], memory)
        np.testing.assert_allclose((state.target - state.place.point).numpy(), move, rtol=1e-6, atol=1e-9)


def test_parameters_move_as_on_the_objective_without_the_dual_variable(synthetic):
    data = synthetic(150, 4, 1)
    form = RobustRisk(data.losses, Chi2Penalty(0.5), ElasticNet(l2=1e-2))
    route = route_of(form)
    oracle = CompositeOracle(route.form, 0, data.start)
    found = accepted(run(Lbfgs(LbfgsConfig()), oracle, route.lift(data.start), 15))
    points = [state.place.point[:-1] for state in found]
    gradients = [(form.smooth_gradient(point) + 1e-2 * point).numpy() for point in points]
    assert len(found) > 6
    for count, state in enumerate(found[1:], 2):
        move = two_loops([point.numpy() for point in points[:count]], gradients[:count], 20)
        np.testing.assert_allclose((state.target - state.place.point).numpy()[:-1], move, rtol=1e-5, atol=1e-7)


def test_it_ends_at_the_known_optimum(twenty):
    oracle = twenty.oracle(0.5, 0, ElasticNet(l2=0.1))
    solver = Lbfgs(LbfgsConfig())
    states = run(solver, oracle, twenty.start)
    assert solver.ended(states[-1])
    np.testing.assert_allclose(solver.solution(states[-1]).numpy(), KNOWN, rtol=0, atol=1e-7)
    assert len(states) < 25
    # Each trial is a pass; a method at its end asks for nothing more.
    assert oracle.counters.sample_calls == 20 * (len(states) - 1)
    assert solver.step(states[-1], oracle, SingleProcess()) is states[-1]
    assert oracle.counters.sample_calls == 20 * (len(states) - 1)


@pytest.mark.parametrize("line_search", ["armijo", "strong_wolfe"])
@pytest.mark.parametrize("memory", [1, 5, 20])
def test_it_finds_what_scipy_finds(synthetic, line_search, memory):
    data = synthetic(300, 8, 1)
    solver = Lbfgs(LbfgsConfig(line_search=line_search, memory=memory))
    states = run(solver, data.oracle(0.3, 0, ElasticNet(l2=1e-2)), data.start, 300)
    point, least = data.numpy().optimum(0.3, 1e-2)
    assert data.numpy().robust(solver.solution(states[-1]).numpy(), 0.3, 1e-2)[0] - least < 1e-11
    np.testing.assert_allclose(solver.solution(states[-1]).numpy(), point, rtol=0, atol=1e-4)


def test_what_is_returned_was_measured_and_never_rises(synthetic):
    data = synthetic(300, 8, 1)
    solver = Lbfgs(LbfgsConfig())
    states = run(solver, data.oracle(0.05, 0, ElasticNet(l2=1e-4)), data.start, 80)
    assert torch.equal(solver.solution(states[0]), data.start)
    measured = [state.point for state in states[:-1]]
    for state in states[1:]:
        assert any(torch.equal(solver.solution(state), point) for point in measured)
    values = [data.numpy().robust(solver.solution(state).numpy(), 0.05, 1e-4)[0] for state in states]
    assert (np.diff(values) <= 1e-14).all()
    # Between places that were accepted the objective falls by more than nothing.
    values = [state.place.value for state in accepted(states)]
    assert all(after < before for before, after in list(pairwise(values))[:20])


@pytest.mark.parametrize(("l1", "l2"), [(0.03, 0.01), (0.03, 0.0), (0.3, 0.0)])
def test_an_l1_part_is_solved_to_its_optimality_conditions(synthetic, l1, l2):
    data, solver, regularizer = synthetic(200, 6, 2), Lbfgs(LbfgsConfig()), ElasticNet(l1, l2)
    point = solver.solution(run(solver, data.oracle(0.5, 0, regularizer), data.start)[-1])
    rest = regularizer.least_subgradient(point, data.kl(0.5, regularizer).smooth_gradient(point))
    assert float(rest.norm()) < 1e-6
    zeros = int((point == 0).sum())
    assert zeros == 6 if l1 == 0.3 else 0 < zeros < 6


def test_a_start_outside_its_box_comes_inside_and_to_the_optimum(synthetic):
    data = synthetic(150, 5, 3)
    box, start = Box(-0.2, 0.3), torch.full((5,), 4.0, dtype=torch.float64)
    solver, oracle = Lbfgs(LbfgsConfig()), data.oracle(0.5, 0, box)
    states = run(solver, oracle, start)
    numbers = data.numpy()
    best = minimize(numbers.robust, np.zeros(5), (0.5, 0.0), jac=True, method="L-BFGS-B", bounds=[(-0.2, 0.3)] * 5)
    np.testing.assert_allclose(solver.solution(states[-1]).numpy(), best.x, rtol=0, atol=1e-4)
    assert numbers.robust(solver.solution(states[-1]).numpy(), 0.5, 0.0)[0] - best.fun < 1e-9
    assert oracle.counters.projections > 0


def test_it_solves_a_smoothed_constrained_problem():
    oracle, start, least = half_spaces()
    states = run(Lbfgs(LbfgsConfig()), oracle, start)
    assert states[-1].place.value - least < 1e-9
    assert oracle.counters.oracle_calls == 42 * (len(states) - 1)


def test_a_ball_is_solved_through_its_stages(synthetic):
    data = synthetic(200, 4, 3)
    form = RobustRisk(data.losses, KLBall(0.2), ElasticNet(l2=0.05))
    point, values = by_stages(form, data.start)
    assert (np.diff(values) <= 1e-12).all()

    def value(x):
        return float(form.value(torch.from_numpy(x)))

    best = min(
        value(minimize(value, at, method="BFGS", options={"gtol": 1e-8}).x) for at in (point.numpy(), np.ones(4))
    )
    assert values[-1] - best < 1e-8


def test_cvar_is_solved_through_its_stages(synthetic):
    data = synthetic(80, 3, 4)
    form = RobustRisk(data.losses, CVaR(0.3), ElasticNet(l2=0.05))
    _, values = by_stages(form, data.start)
    assert (np.diff(values) <= 1e-12).all()
    weights, threshold = cp.Variable(3), cp.Variable()
    losses = cp.logistic(-data.numpy().signed @ weights)
    objective = threshold + cp.sum(cp.pos(losses - threshold)) / (0.3 * 80) + 0.025 * cp.sum_squares(weights)
    best = cp.Problem(cp.Minimize(objective)).solve(solver=cp.CLARABEL)
    assert -1e-6 < values[-1] - best < 2e-4


def test_a_stage_begins_with_the_pairs_and_the_best_of_the_one_before(synthetic):
    data = synthetic(200, 4, 3)
    route = route_of(RobustRisk(data.losses, CVaR(0.3), ElasticNet(l2=0.05)))
    solver, start = Lbfgs(LbfgsConfig()), route.lift(data.start)
    oracles = [CompositeOracle(stage, 0, start) for stage in route.stages[:2]]
    state = solver.init(start, oracles[0], SingleProcess())
    assert not solver.resting(state)
    while not solver.stalled(state):
        state = solver.step(state, oracles[0], SingleProcess())
    assert solver.resting(state)
    assert state.gained < 0.1 * oracles[0].smoothing_error
    fresh = solver.sharpen(state, oracles[1], SingleProcess())
    assert fresh.pairs is state.pairs
    assert torch.equal(fresh.point, state.place.point)
    assert torch.equal(solver.solution(fresh), solver.solution(state))
    assert fresh.best_original == state.best_original
    assert not solver.stalled(fresh)
    # An objective of another kind has nothing to be compared with.
    oracles[1].comparable = False
    assert solver.sharpen(state, oracles[1], SingleProcess()).best_original == np.inf


@pytest.mark.parametrize("ambiguity", [KLBall(0.2), CVaR(0.3)])
def test_of_what_was_measured_the_best_is_that_of_the_problem_itself(synthetic, ambiguity):
    data = synthetic(200, 4, 3)
    form = RobustRisk(data.losses, ambiguity, ElasticNet(l2=1e-3))
    # So wide that the lowest smoothed objective is not where the problem itself is lowest.
    route = find_route(form, (Composite,), ReformulationConfig(gamma=1.0))
    solver, start = Lbfgs(LbfgsConfig()), route.lift(data.start)
    states = run(solver, CompositeOracle(route.form, 0, start), start, 40)
    values = [float(form.value(state.point[:-1])) for state in states[:-1]]
    assert values[-1] > min(values) + 1e-6
    for count, state in enumerate(states[1:], 1):
        assert float(form.value(solver.solution(state)[:-1])) == pytest.approx(min(values[:count]), abs=1e-10)


@pytest.mark.parametrize("ambiguity", [KLPenalty(0.3), Chi2Variance(0.3)])
def test_it_goes_down_where_the_objective_is_not_convex(synthetic, ambiguity):
    data = synthetic(150, 4, 4)
    losses = LinearMarginLosses(data.rows, data.signs, SigmoidLoss())
    form = RobustRisk(losses, ambiguity, ElasticNet(l2=1e-3))
    states = run(Lbfgs(LbfgsConfig()), oracle_of(form, data.start), data.start)
    values = [state.place.value for state in accepted(states)]
    assert values[-1] < values[0] - 1e-2
    assert all(after <= before + 1e-14 for before, after in pairwise(values))
    point = states[-1].place.point
    assert float((form.smooth_gradient(point) + 1e-3 * point).norm()) < 1e-5


def test_a_network_goes_down():
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(60, 3, generator=generator, dtype=torch.float64)
    targets = torch.where(features[:, 0] * features[:, 1] > 0, 1.0, -1.0).to(torch.float64)

    def scores(point, rows):
        return torch.tanh(rows @ point[:12].view(3, 4)) @ point[12:]

    losses = NetworkLosses(scores, 16, features, targets, LogisticLoss())
    start = 0.5 * torch.randn(16, generator=generator, dtype=torch.float64)
    states = run(
        Lbfgs(LbfgsConfig()), oracle_of(RobustRisk(losses, KLPenalty(1.0), ElasticNet(l2=1e-3)), start), start, 60
    )
    assert states[-1].place.value < 0.8 * states[1].place.value


@pytest.mark.parametrize("l2", [0.0, 1e-3])
def test_fewer_rows_than_variables(synthetic, l2):
    data = synthetic(6, 20, 5)
    states = run(Lbfgs(LbfgsConfig()), data.oracle(1.0, 0, ElasticNet(l2=l2)), data.start, most=60)
    assert states[-1].place.value < 0.2
    assert bool(states[-1].point.isfinite().all())


def test_a_start_that_is_optimal_is_left_as_it_is(twenty):
    oracle, solver = twenty.oracle(0.5, 0, ElasticNet(l2=0.1)), Lbfgs(LbfgsConfig())
    optimum = solver.solution(run(solver, oracle, twenty.start)[-1])
    states = run(solver, oracle, optimum)
    assert solver.ended(states[-1])
    assert len(states) <= 2 + LbfgsConfig().most_trials
    torch.testing.assert_close(solver.solution(states[-1]), optimum)
    # With an l1 part that outweighs everything the optimum is exactly zero, and known after one look.
    assert len(run(solver, twenty.oracle(0.5, 0, ElasticNet(5.0)), twenty.start)) == 2


def test_rows_that_are_all_alike(single):
    solver = Lbfgs(LbfgsConfig())
    point = solver.solution(run(solver, single.oracle(0.1, 0, ElasticNet(l2=0.1)), single.start)[-1])
    assert np.linalg.norm(single.numpy().robust(point.numpy(), 0.1, 0.1)[1]) < 1e-7


def test_weights_that_underflow_leave_one_row_with_all_the_weight(synthetic):
    data = synthetic(100, 3, 6)
    states = run(Lbfgs(LbfgsConfig()), data.oracle(1e-4, 0, ElasticNet(l2=1e-2)), data.start, most=200)
    values = [state.place.value for state in accepted(states)]
    assert all(np.isfinite(values))
    assert all(after <= before + 1e-14 for before, after in pairwise(values))
    assert values[-1] - data.numpy().optimum(1e-4, 1e-2)[1] < 1e-10


@pytest.mark.parametrize("l1", [0.0, 0.01])
def test_single_precision(twenty, l1):
    start = twenty.start.float()
    losses = LinearMarginLosses(twenty.rows.float(), twenty.signs.float(), LogisticLoss())
    solver = Lbfgs(LbfgsConfig())
    form = RobustRisk(losses, KLPenalty(0.5), ElasticNet(l1, 0.1))
    states = run(solver, oracle_of(form, start), start)
    found = solver.solution(states[-1])
    assert found.dtype == torch.float32
    assert solver.ended(states[-1])
    exact = solver.solution(run(solver, twenty.oracle(0.5, 0, ElasticNet(l1, 0.1)), twenty.start)[-1])
    np.testing.assert_allclose(found.numpy(), exact.numpy(), rtol=0, atol=2e-3)


def test_no_regularizer_at_all(twenty):
    solver = Lbfgs(LbfgsConfig())
    point = solver.solution(run(solver, twenty.oracle(0.5, 0, Zero()), twenty.start)[-1])
    assert np.linalg.norm(twenty.numpy().robust(point.numpy(), 0.5, 0.0)[1]) < 1e-6


def test_a_search_without_success_forgets_the_pairs(synthetic):
    data = synthetic(200, 6, 0)
    solver, oracle = Lbfgs(LbfgsConfig(most_trials=3)), data.oracle(0.3, 0, ElasticNet(l2=1e-2))
    state = run(solver, oracle, data.start, 10)[-1]
    assert state.pairs.count
    # The search is made to believe that it began far below everything.
    state, place, scale = replace(state, line=search(-1e3, -1.0)), state.place, state.pairs.scale
    for trials in (1, 2):
        state = solver.step(state, oracle, SingleProcess())
        assert state.line.trials == trials
    state = solver.step(state, oracle, SingleProcess())
    assert state.place is place
    assert (state.pairs.count, state.pairs.scale, state.line.trials) == (0, scale, 0)
    torch.testing.assert_close(state.target, place.point - place.gradient / scale)
    # Where there were none to forget, nothing goes down from here.
    state = replace(state, line=replace(search(-1e3, -1.0), trials=2))
    assert solver.ended(solver.step(state, oracle, SingleProcess()))


def test_trials_that_are_accepted_and_gain_nothing_are_the_end(synthetic):
    data = synthetic(200, 6, 0)
    solver, oracle = Lbfgs(LbfgsConfig()), data.oracle(0.3, 0, ElasticNet(l2=1e-2))
    state = replace(run(solver, oracle, data.start, 10)[-1], lowest_value=-1e3)
    for idle in range(1, 11):
        state = solver.step(replace(state, lowest_value=-1e3), oracle, SingleProcess())
        assert (state.idle, solver.ended(state)) == (idle, False)
    assert solver.ended(solver.step(state, oracle, SingleProcess()))


def test_a_start_without_a_number_is_the_end(twenty):
    oracle, solver = twenty.oracle(0.5, 0, ElasticNet(l2=0.1)), Lbfgs(LbfgsConfig())
    states = run(solver, oracle, torch.full((3,), torch.nan, dtype=torch.float64))
    assert len(states) == 2
    assert solver.ended(states[-1])


def test_settings_are_checked():
    with pytest.raises(SettingError, match=r"LbfgsConfig\.memory"):
        LbfgsConfig(memory=0)
    with pytest.raises(SettingError, match=r"LbfgsConfig\.line_search must be one of armijo, strong_wolfe"):
        LbfgsConfig(line_search="wolfe")
    for sufficient, flat in ((0.9, 0.5), (0.5, 0.5), (1e-4, 1.0)):
        with pytest.raises(SettingError, match="sufficient < flat < 1"):
            LbfgsConfig(sufficient=sufficient, flat=flat)

"""Accelerated proximal gradients against a plain loop in numpy, to the optimum, and where momentum or step mislead."""

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from composite_samples import KINDS, composite_sample, half_spaces

from drobench.errors import SettingError
from drobench.objective.ambiguity_sets import CVaR, KLBall, KLPenalty
from drobench.objective.composite import Composite
from drobench.objective.forms import RobustRisk
from drobench.objective.losses import LinearMarginLosses, LogisticLoss, SigmoidLoss
from drobench.objective.oracles.composite import CompositeOracle
from drobench.objective.regularizers import Box, ElasticNet
from drobench.reformulation.reformulation import ReformulationConfig
from drobench.reformulation.routes import find_route
from drobench.solver import SingleProcess
from drobench_plugins.solvers.accelerated_gradient import AcceleratedGradient, AcceleratedGradientConfig, entry
from drobench_plugins.solvers.prox_gradient import ProxGradient, ProxGradientConfig

KNOWN = [0.244617892736, -0.184093745094, 1.289486985032]


def fista(gradient, prox, start, step, count, *, restarts=True):
    """Yield the proximal and the extrapolated points, as Beck and Teboulle have them."""
    x, y, t = start, start, 1.0
    for _ in range(count):
        found = prox(y - step * gradient(y), step)
        if restarts and (y - found) @ (found - x) > 0.0:
            t = 1.0
        grown = (1.0 + math.sqrt(1.0 + 4.0 * t * t)) / 2.0
        y = found + (t - 1.0) / grown * (found - x)
        x, t = found, grown
        # Beyond the border of a domain the nearest point inside is taken, but not for mere rounding.
        inside = prox(y, 0.0)
        if np.linalg.norm(y - inside) > math.sqrt(np.finfo(float).eps) * (1.0 + np.linalg.norm(y)):
            y = inside
        yield x, y


def plain(step):
    """Return the method with a step size that stays."""
    return AcceleratedGradient(AcceleratedGradientConfig(step_size=step, growth=1.0, monotone=False))


def rough(seed=0):
    """Return losses whose columns differ in scale by a thousand."""
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(120, 4, generator=generator, dtype=torch.float64) * torch.tensor([30.0, 3.0, 0.3, 0.03])
    signs = torch.where(rows[:, 1] + torch.randn(120, generator=generator) > 0.0, 1.0, -1.0).double()
    return LinearMarginLosses(rows, signs, LogisticLoss())


def oracle_of(form, start):
    return CompositeOracle(find_route(form, (Composite,), ReformulationConfig()).form, 0, start)


def same_points(states, expected):
    """Compare proximal and extrapolated points."""
    for state, (x, y) in zip(states[1:], expected, strict=True):
        np.testing.assert_allclose(state.before.numpy(), x, rtol=0, atol=1e-10)
        np.testing.assert_allclose(state.place.point.numpy(), y, rtol=0, atol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_the_iterates_are_those_of_a_plain_loop(synthetic, trace, kind):
    sample = composite_sample(kind, synthetic(60, 4, 0))
    oracle = sample.oracle(0)
    states = trace(plain(0.2), oracle, sample.start, 60)
    same_points(
        states, fista(lambda x: sample.direction(sample.terms(x).mean()), sample.prox, sample.start.numpy(), 0.2, 60)
    )
    assert {state.safeguard.step_size for state in states} == {0.2}
    # The start, and then one pass a step.
    assert oracle.counters.sample_calls == 61 * 60


def test_momentum_is_given_up_where_it_leads_away(synthetic, trace):
    data = synthetic(200, 5, 0)
    numbers, (_, least) = data.numpy(), data.numpy().optimum(1.0, 0.1)

    def loop(restarts):
        parts = (lambda x: numbers.robust(x, 1.0, 0.0)[1]), (lambda v, eta: v / (1.0 + 0.1 * eta))
        return list(fista(*parts, np.zeros(5), 1.5, 120, restarts=restarts))

    states, expected = trace(plain(1.5), data.oracle(1.0, 0, ElasticNet(l2=0.1)), data.start, 120), loop(True)
    same_points(states, expected)
    assert sum(after.momentum < before.momentum for before, after in pairwise(states[1:])) >= 2
    # Without restarts the same loop swings around the optimum and is far behind.
    ours, theirs = (numbers.robust(found[-1][0], 1.0, 0.1)[0] - least for found in (expected, loop(False)))
    assert ours < 1e-12
    assert theirs > 100.0 * abs(ours)


def test_it_ends_at_the_known_optimum(twenty, trace):
    solver, oracle = AcceleratedGradient(AcceleratedGradientConfig()), twenty.oracle(0.5, 0, ElasticNet(l2=0.1))
    states = trace(solver, oracle, twenty.start, 100)
    np.testing.assert_allclose(solver.solution(states[-1]).numpy(), KNOWN, rtol=0, atol=1e-6)


def test_it_needs_a_fraction_of_the_passes_of_plain_steps(synthetic, trace):
    data = synthetic(400, 8, 1)
    numbers = data.numpy()
    _, least = numbers.optimum(1.0, 1e-3)
    goal = least + 1e-6 * (math.log(2.0) - least)

    def steps_to_goal(solver, most):
        states = trace(solver, data.oracle(1.0, 0, ElasticNet(l2=1e-3)), data.start, most)
        values = [numbers.robust(solver.solution(state).numpy(), 1.0, 1e-3)[0] for state in states]
        return next((count for count, value in enumerate(values) if value <= goal), most)

    fast = steps_to_goal(AcceleratedGradient(AcceleratedGradientConfig()), 200)
    assert fast < 100
    assert steps_to_goal(ProxGradient(ProxGradientConfig()), 4 * fast) == 4 * fast


@pytest.mark.parametrize(("l1", "l2"), [(0.03, 0.01), (0.3, 0.0)])
def test_an_l1_part_is_solved_to_its_optimality_conditions(synthetic, trace, l1, l2):
    data, regularizer = synthetic(200, 6, 2), ElasticNet(l1, l2)
    solver = AcceleratedGradient(AcceleratedGradientConfig())
    point = solver.solution(trace(solver, data.oracle(0.5, 0, regularizer), data.start, 250)[-1])
    rest = regularizer.least_subgradient(point, data.kl(0.5, regularizer).smooth_gradient(point))
    assert float(rest.norm()) < 1e-5
    zeros = int((point == 0).sum())
    assert zeros == 6 if l1 == 0.3 else 0 < zeros < 6


def test_points_beyond_a_bound_are_never_measured(synthetic, trace):
    data, box = synthetic(150, 5, 3), Box(-0.2, 0.3)
    solver, oracle = AcceleratedGradient(AcceleratedGradientConfig()), data.oracle(0.5, 0, box)
    states = trace(solver, oracle, data.start, 150)
    assert all(math.isfinite(state.place.value) for state in states)
    point = solver.solution(states[-1])
    gradient = data.kl(0.5, box).smooth_gradient(point)
    torch.testing.assert_close(box.project(point - gradient), point, rtol=0, atol=1e-6)
    assert bool(((point == -0.2) | (point == 0.3)).any())


def test_it_solves_a_smoothed_constrained_problem(trace):
    oracle, start, least = half_spaces()
    states = trace(AcceleratedGradient(AcceleratedGradientConfig()), oracle, start, 100)
    assert states[-1].safeguard.accepted.value - least < 1e-9
    assert entry().calls_per_step(AcceleratedGradientConfig(), oracle) == {42}


@pytest.mark.parametrize("step_size", [None, 1e-6, 1.0, 1e4, 1e12])
def test_on_any_scale_and_from_any_step_size_the_output_never_rises(trace, step_size):
    form, start = RobustRisk(rough(), KLPenalty(0.5), ElasticNet(l2=1e-3)), torch.zeros(4, dtype=torch.float64)
    solver = AcceleratedGradient(AcceleratedGradientConfig(step_size=step_size))
    states = trace(solver, oracle_of(form, start), start, 100)
    values = [float(form.value(solver.solution(state))) for state in states]
    assert (np.diff(values) <= 1e-13).all()
    assert values[-1] < values[0] - 0.1


def test_what_is_returned_was_measured(synthetic, trace):
    data = synthetic(200, 5, 0)
    solver = AcceleratedGradient(AcceleratedGradientConfig())
    states = trace(solver, data.oracle(0.05, 0), data.start, 60)
    assert torch.equal(solver.solution(states[0]), data.start)
    for count, state in enumerate(states):
        assert any(torch.equal(solver.solution(state), before.place.point) for before in states[: count + 1])
    last = AcceleratedGradient(AcceleratedGradientConfig(monotone=False))
    assert torch.equal(last.solution(states[-1]), states[-1].before)


def test_a_rise_takes_the_momentum_back_and_only_without_it_the_step_size(synthetic):
    data = synthetic(200, 5, 0)
    solver, oracle = AcceleratedGradient(AcceleratedGradientConfig()), data.oracle(1.0, 0)
    state = solver.init(data.start, oracle, SingleProcess())
    while state.momentum < 3.0:
        state = solver.step(state, oracle, SingleProcess())
    # A last point far behind makes the extrapolated one overshoot.
    thrown = replace(state, before=state.before - 50.0 * (state.place.point - state.before + 1.0))
    after = solver.step(thrown, oracle, SingleProcess())
    assert after.place is state.place
    assert after.momentum == 1.0
    assert torch.equal(after.before, state.place.point)
    assert after.safeguard.failures == 0
    # Without momentum, and with a step size that is too long, it is the step size that goes.
    long = replace(state, before=state.place.point, momentum=1.0, safeguard=replace(state.safeguard, step_size=1e5))
    after = solver.step(long, oracle, SingleProcess())
    assert after.place is state.place
    assert after.safeguard.failures == 1
    assert after.safeguard.step_size < 0.5e5


def test_the_step_size_follows_the_curvature(synthetic, trace):
    data = synthetic(300, 4, 1)
    numbers = data.numpy()
    config = AcceleratedGradientConfig(step_size=1e-3)
    states = trace(AcceleratedGradient(config), data.oracle(1.0, 0, ElasticNet(l2=0.1)), data.start, 40)
    # It grows by half a step until something curves, to about the inverse of the largest curvature.
    assert states[3].safeguard.step_size == pytest.approx(1e-3 * 1.5**3)
    sizes = [state.safeguard.step_size for state in states[25:]]
    curvature = numbers.curvature(states[-1].place.point.numpy(), 1.0)
    assert min(sizes) >= 0.9 / curvature
    assert max(sizes) <= 20.0 / curvature
    # One that does not grow stays as it was asked for.
    config = AcceleratedGradientConfig(step_size=1e-3, growth=1.0)
    states = trace(AcceleratedGradient(config), data.oracle(1.0, 0, ElasticNet(l2=0.1)), data.start, 40)
    assert {state.safeguard.step_size for state in states} == {1e-3}


@pytest.mark.parametrize("ambiguity", [KLBall(0.2), CVaR(0.3)])
def test_a_stage_goes_on_with_momentum_and_step_size_of_the_one_before(synthetic, ambiguity):
    data = synthetic(200, 4, 3)
    form = RobustRisk(data.losses, ambiguity, ElasticNet(l2=0.05))
    route = find_route(form, (Composite,), ReformulationConfig())
    solver, start = AcceleratedGradient(AcceleratedGradientConfig()), route.lift(data.start)
    oracles = [CompositeOracle(stage, 0, start) for stage in route.stages[:2]]
    state = solver.init(start, oracles[0], SingleProcess())
    assert not solver.resting(state)
    while not solver.stalled(state):
        state = solver.step(state, oracles[0], SingleProcess())
    assert solver.resting(state)
    fresh = solver.sharpen(state, oracles[1], SingleProcess())
    assert fresh.momentum == state.momentum
    assert torch.equal(fresh.before, state.before)
    assert fresh.safeguard.step_size == state.safeguard.step_size
    assert fresh.safeguard.best_original <= state.safeguard.best_original
    assert not solver.stalled(fresh)
    # One measurement, at the same parameters.
    assert oracles[1].counters.sample_calls == 200
    assert torch.equal(fresh.place.point[:-1], state.place.point[:-1])


def test_an_objective_of_another_kind_is_begun_anew(synthetic):
    data = synthetic(100, 4, 3)
    solver, oracle = AcceleratedGradient(AcceleratedGradientConfig()), data.oracle(1.0, 0)
    state = solver.init(data.start, oracle, SingleProcess())
    for _ in range(5):
        state = solver.step(state, oracle, SingleProcess())
    oracle.comparable = False
    fresh = solver.sharpen(state, oracle, SingleProcess())
    assert fresh.momentum == 1.0
    assert torch.equal(fresh.place.point, solver.solution(state))


def test_it_goes_down_where_the_objective_is_not_convex(synthetic, trace):
    data = synthetic(150, 4, 4)
    losses = LinearMarginLosses(data.rows, data.signs, SigmoidLoss())
    form = RobustRisk(losses, KLPenalty(0.3), ElasticNet(l2=1e-3))
    solver = AcceleratedGradient(AcceleratedGradientConfig())
    point = solver.solution(trace(solver, oracle_of(form, data.start), data.start, 300)[-1])
    assert float(form.value(point)) < float(form.value(data.start)) - 1e-2
    assert float((form.smooth_gradient(point) + 1e-3 * point).norm()) < 1e-4


def test_single_precision(twenty, trace):
    losses = LinearMarginLosses(twenty.rows.float(), twenty.signs.float(), LogisticLoss())
    form, start = RobustRisk(losses, KLPenalty(0.5), ElasticNet(l2=0.1)), twenty.start.float()
    solver = AcceleratedGradient(AcceleratedGradientConfig())
    states = trace(solver, oracle_of(form, start), start, 200)
    assert solver.solution(states[-1]).dtype == torch.float32
    np.testing.assert_allclose(solver.solution(states[-1]).numpy(), KNOWN, rtol=0, atol=2e-3)


def test_changes_of_the_gradient_that_are_rounding_say_nothing_about_the_step_size(synthetic, trace):
    data = synthetic(1000, 8, 0)
    losses = LinearMarginLosses(data.rows.float(), data.signs.float(), LogisticLoss())
    form, start = RobustRisk(losses, KLPenalty(0.3), ElasticNet(l2=0.1)), data.start.float()
    states = trace(AcceleratedGradient(AcceleratedGradientConfig()), oracle_of(form, start), start, 150)
    sizes = [state.safeguard.step_size for state in states[20:]]
    assert min(sizes) > 0.2 * max(sizes)


def test_settings_are_checked():
    with pytest.raises(SettingError, match=r"AcceleratedGradientConfig\.step_size"):
        AcceleratedGradientConfig(step_size=-1.0)
    for growth in (0.99, 2.0, math.nan):
        with pytest.raises(SettingError, match=r"AcceleratedGradientConfig\.growth must be in \[1, 2\)"):
            AcceleratedGradientConfig(growth=growth)

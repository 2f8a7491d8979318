"""SCGD against its recursion written in numpy, in logarithms so that nothing can overflow."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy.special import logsumexp

from drobench.objective.ambiguity_sets import KLBall
from drobench.objective.composite import Composite
from drobench.objective.composites.functions import FunctionComposite
from drobench.objective.forms import RobustRisk
from drobench.objective.oracles.composite import CompositeOracle
from drobench.objective.regularizers import ElasticNet
from drobench.reformulation.reformulation import ReformulationConfig
from drobench.reformulation.routes import find_route
from drobench.solver import SingleProcess
from drobench_plugins.solvers.scgd import Scgd, ScgdConfig


def numpy_scgd(problem, gamma, mu, settings, steps, seed, start=None):
    """Return the iterates; the tracked value is kept as its logarithm."""
    generator = np.random.default_rng(seed)
    x = np.zeros(problem.n) if start is None else start
    log_y, points = None, []
    for k in range(1, steps + 1):
        if settings.batch >= problem.m:
            index = np.arange(problem.m)
        elif settings.replacement:
            index = generator.integers(0, problem.m, settings.batch)
        else:
            index = generator.choice(problem.m, settings.batch, replace=False, shuffle=False)
        losses, gradients = problem.linearize(x, index)
        log_mean = logsumexp(losses / gamma) - np.log(index.size)
        if settings.decay == "convex":
            a, b = settings.step_size * (1 + (k - 1) / settings.delay) ** (-3 / 4), k ** (-1 / 2)
        else:
            a, b = settings.step_size / (1 + (k - 1) / settings.delay), k ** (-2 / 3)
        log_y = log_mean if k == 1 else np.logaddexp(np.log1p(-b) + log_y, np.log(b) + log_mean)
        gradient = np.exp(losses / gamma - log_y) @ gradients / index.size
        x = (x - a * gradient) / (1.0 + a * mu)
        points.append(x)
    return points


@pytest.mark.parametrize("replacement", [False, True])
@pytest.mark.parametrize("delay", [1, 100])
@pytest.mark.parametrize("decay", ["convex", "strongly_convex"])
def test_the_iterates_are_those_of_a_plain_loop(synthetic, trace, decay, delay, replacement):
    data = synthetic(120, 4, 0)
    settings = ScgdConfig(step_size=0.8, decay=decay, delay=delay, batch=6, replacement=replacement)
    oracle = data.oracle(0.4, 9, ElasticNet(l2=0.05))
    states = trace(Scgd(settings), oracle, data.start, 200)
    expected = numpy_scgd(data.numpy(), 0.4, 0.05, settings, 200, seed=9)
    assert max(np.abs(state.point.numpy() - x).max() for state, x in zip(states[1:], expected, strict=True)) < 1e-12
    assert oracle.counters.sample_calls == 200 * 6
    assert states[-1].steps == 200


def test_a_delay_of_one_is_the_published_schedule():
    solver = Scgd(ScgdConfig(delay=1))
    for k in (1, 2, 10, 1000):
        assert solver._weights(k) == pytest.approx((k**-0.75, k**-0.5), rel=1e-14)


@pytest.mark.parametrize("batch", [20, 21, 1000])
def test_a_batch_larger_than_the_set_is_the_set(twenty, trace, batch):
    settings = ScgdConfig(step_size=0.5, batch=batch)
    oracle = twenty.oracle(0.5, 0)
    states = trace(Scgd(settings), oracle, twenty.start, 50)
    expected = numpy_scgd(twenty.numpy(), 0.5, 1e-2, settings, 50, seed=0)
    np.testing.assert_allclose(states[-1].point.numpy(), expected[-1], rtol=0, atol=1e-13)
    assert oracle.counters.sample_calls == 50 * 20


def test_one_sample_is_enough(single, trace):
    settings = ScgdConfig(step_size=0.3)
    states = trace(Scgd(settings), single.oracle(0.5, 0), single.start, 50)
    expected = numpy_scgd(single.numpy(), 0.5, 1e-2, settings, 50, seed=0)
    np.testing.assert_allclose(states[-1].point.numpy(), expected[-1], rtol=0, atol=1e-13)


def test_the_shift_stays_as_it_was_first_chosen(synthetic, trace):
    data = synthetic(120, 4, 0)
    states = trace(Scgd(ScgdConfig(step_size=1.0, batch=6)), data.oracle(0.4, 0), data.start, 300)
    assert states[0].shift is None
    # At zero all losses are ln 2, and the best shift is their common value.
    assert float(states[1].shift) == pytest.approx(np.log(2.0), abs=1e-14)
    assert all(torch.equal(state.shift, states[1].shift) for state in states[1:])


def test_the_shift_rises_only_when_an_exponential_would_overflow(synthetic, trace):
    gamma = 2e-3
    data = synthetic(40, 3, 0)
    settings = ScgdConfig(step_size=3.0, batch=4, delay=10)
    states = trace(Scgd(settings), data.oracle(gamma, 2), data.start, 60)
    expected = numpy_scgd(data.numpy(), gamma, 1e-2, settings, 60, seed=2)
    for state, x in zip(states[1:], expected, strict=True):
        np.testing.assert_allclose(state.point.numpy(), x, rtol=0, atol=1e-9)
    shifts = [float(state.shift) for state in states[1:]]
    assert all(after >= before for before, after in pairwise(shifts))
    raised = [k for k in range(1, 60) if shifts[k] > shifts[k - 1]]
    assert 1 <= len(raised) < 10
    for k in raised:
        assert shifts[k] - shifts[k - 1] > 500 * gamma


def test_the_average_is_the_plain_mean_of_the_iterates(synthetic, trace):
    data = synthetic(120, 4, 0)
    solver = Scgd(ScgdConfig(step_size=1.0, batch=6))
    states = trace(solver, data.oracle(0.4, 0), data.start, 100)
    assert solver.average(states[0]) is None
    for k in (1, 2, 60, 100):
        mean = torch.stack([state.point for state in states[1 : k + 1]]).mean(dim=0)
        torch.testing.assert_close(solver.average(states[k]), mean, rtol=0, atol=1e-13)
    assert solver.solution(states[-1]) is states[-1].point


def test_losses_beside_the_inner_map_are_used(half_square, trace):
    # g_i = a_i x, f = y^2 / 2, h_i = c_i x: by hand, with full batches, y_1 = 2 x_0 and y_2 = (1 - b) y_1 + b 2 x_1.
    slopes = torch.tensor([1.0, 3.0], dtype=torch.float64)
    composite = FunctionComposite(
        1,
        2,
        1,
        ElasticNet(l1=0.1),
        inner=lambda point, numbers: slopes[numbers] * point,
        outer=half_square,
        loss=lambda point, numbers: (slopes[numbers] - 1.0) * point,
    )
    start = torch.ones(1, dtype=torch.float64)
    states = trace(Scgd(ScgdConfig(step_size=0.1, delay=1)), CompositeOracle(composite, 0, start), start, 2)
    x_1 = 1.0 - 0.1 * (2.0 * 2.0 + 1.0) - 0.1 * 0.1
    a, b = 0.1 * 2**-0.75, 2**-0.5
    y_2 = (1.0 - b) * 2.0 + b * 2.0 * x_1
    x_2 = x_1 - a * (2.0 * y_2 + 1.0)
    assert states[1].point.item() == pytest.approx(x_1, abs=1e-15)
    assert states[2].point.item() == pytest.approx(np.sign(x_2) * max(abs(x_2) - 0.1 * a, 0.0), abs=1e-15)


def test_without_a_step_size_it_is_derived_from_the_curvature(synthetic):
    data = synthetic(40, 4, 0)
    oracle = data.oracle(1.0, 0)
    state = Scgd(ScgdConfig(step_scale=0.5)).init(data.start, oracle, SingleProcess())
    assert state.step_size == pytest.approx(0.5 / data.numpy().curvature(np.zeros(4), 1.0), rel=0.05)
    assert oracle.counters.sample_calls >= 2 * 40


@pytest.fixture
def kl_ball(synthetic):
    data = synthetic(60, 3, 0)
    risk = RobustRisk(data.losses, KLBall(0.3), ElasticNet(l2=0.1))
    route = find_route(risk, (Composite,), ReformulationConfig(gamma=0.05))
    return route.form, route.lift(data.start)


class Echo(SingleProcess):
    """An exchange that hands out new tensors with the same numbers."""

    world_size = 2

    def total(self, tensors):
        return [tensor.clone() for tensor in tensors]

    def maximum(self, tensor):
        return tensor.clone()


def test_an_exchange_leaves_the_shift_of_a_varying_temperature_alone(kl_ball, trace):
    form, start = kl_ball
    solver, oracle, communicator = Scgd(ScgdConfig(step_size=0.3, batch=8)), CompositeOracle(form, 0, start), Echo()
    expected = trace(solver, CompositeOracle(form, 0, start), start, 20)[-1]
    state = solver.init(start, oracle, communicator)
    for _ in range(20):
        state = solver.step(state, oracle, communicator)
    torch.testing.assert_close(state.point, expected.point, rtol=0, atol=1e-12)

"""GCIVR against hand calculation, a plain numpy loop, and the method it generalises."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from drobench.objective.composite import Composite, Means
from drobench.objective.composites.functions import FunctionComposite
from drobench.objective.composites.losses import LossComposite
from drobench.objective.losses import Losses
from drobench.objective.oracles.composite import CompositeOracle
from drobench.objective.outer_functions import OuterFunction
from drobench.objective.regularizers import ElasticNet, Zero
from drobench.objective.sampling import Rows
from drobench.solver import SingleProcess
from drobench.solver.estimators import Estimates, direction
from drobench_plugins.solvers.gcivr import Gcivr
from drobench_plugins.solvers.pieces.gcivr_config import GcivrConfig


class ScriptedOracle(CompositeOracle):
    """Draws what it is told to, one row at a time; larger draws are the full set."""

    script: list[int]

    def draw(self, samples=None, constraints=None, *, replacement=False) -> Rows:
        if samples is None:
            return super().draw()
        assert samples == 1
        return Rows(torch.tensor([self.script.pop(0)]), covered=0.5)


def test_two_epochs_by_hand(half_square):
    slopes = torch.tensor([1.0, 3.0], dtype=torch.float64)
    curvatures = torch.tensor([0.0, 2.0], dtype=torch.float64)
    composite = FunctionComposite(
        dimension=1,
        samples=2,
        outputs=1,
        regularizer=ElasticNet(l1=0.1),
        inner=lambda point, numbers: slopes[numbers] * point,
        outer=half_square,
        loss=lambda point, numbers: 0.5 * curvatures[numbers] * point.square(),
    )
    start = torch.ones(1, dtype=torch.float64)
    oracle = ScriptedOracle(composite, 0, start)
    oracle.script = [0, 1, 1, 1]
    solver = Gcivr(GcivrConfig(step_size=0.1, epoch_length=3, batch=1, monotone=False))
    # Inner value, loss gradient, gradient estimate, next point.
    expected = [
        (2, 1, 5, 49 / 100),
        (149 / 100, 1, 3.98, 41 / 500),
        (133 / 500, 23 / 125, 0.716, 1 / 2500),
        (1 / 1250, 1 / 2500, 0.002, 0),
        (-1 / 2500, -1 / 2500, -0.0012, 0),
        (-1 / 2500, -1 / 2500, -0.0012, 0),
    ]
    state = solver.init(start, oracle, SingleProcess())
    for number, row in enumerate(expected, start=1):
        state = solver.step(state, oracle, SingleProcess())
        estimates = state.estimates
        found = (
            estimates.inner_value.item(),
            estimates.loss_gradient.item(),
            direction(estimates, oracle).item(),
            state.point.item(),
        )
        assert found == pytest.approx(row, rel=0, abs=1e-15), f"step {number}"
        assert estimates.inner_jacobian.item() == pytest.approx(2.0, rel=0, abs=1e-15)
    assert oracle.script == []
    assert oracle.counters.sample_calls == 2 * (2 + 2 * 1 * 2)


def numpy_gcivr(problem, gamma, mu, settings, steps, seed):
    """Return the iterates of the algorithm as it is written down, without shift and without safeguard."""
    generator = np.random.default_rng(seed)
    eta, tau, size = settings.step_size, settings.epoch_length, settings.batch

    def means(x, index):
        losses, gradients = problem.linearize(x, index)
        tilted = np.exp(losses / gamma)
        return tilted.mean(), (tilted[:, None] * gradients / gamma).mean(axis=0)

    x = previous = np.zeros(problem.n)
    points = []
    for step in range(steps):
        if step % tau == 0:
            y, z = means(x, slice(None))
        else:
            if settings.replacement:
                index = generator.integers(0, problem.m, size)
            else:
                index = generator.choice(problem.m, size, replace=False, shuffle=False)
            (new_y, new_z), (old_y, old_z) = means(x, index), means(previous, index)
            y, z = y + new_y - old_y, z + new_z - old_z
        previous, x = x, (x - eta * gamma * z / y) / (1.0 + eta * mu)
        points.append(x)
    return points


@pytest.mark.parametrize("replacement", [False, True])
@pytest.mark.parametrize("gamma", [2.0, 0.3])
def test_the_iterates_are_those_of_a_plain_loop(synthetic, trace, gamma, replacement):
    data = synthetic(150, 4, 0)
    settings = GcivrConfig(step_size=0.3, epoch_length=11, batch=5, monotone=False, replacement=replacement)
    states = trace(Gcivr(settings), data.oracle(gamma, 3, ElasticNet(l2=0.02)), data.start, 60)
    expected = numpy_gcivr(data.numpy(), gamma, 0.02, settings, 60, seed=3)
    assert max(np.abs(state.point.numpy() - x).max() for state, x in zip(states[1:], expected, strict=True)) < 1e-12
    assert np.abs(expected[-1]).max() > 0.1


class LogPlusSquare(OuterFunction):
    """`f(y) = ln y_1 + y_2^2 / 2`, or with a third inner value `u` also `+ u`."""

    def value(self, inner_value, shift):
        return inner_value[0].log() + 0.5 * inner_value[1] ** 2 + inner_value[2:].sum()

    def gradient(self, inner_value, shift):
        return torch.cat([1.0 / inner_value[:1], inner_value[1:2], torch.ones_like(inner_value[2:])])


@pytest.mark.parametrize("schedule", ["constant", "adaptive"])
def test_the_loss_may_as_well_be_an_inner_value(trace, schedule):
    # CIVR on the map (g, h) with the outer function f(y) + u takes the same steps.
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(49, 3, generator=generator, dtype=torch.float64)

    def inner(point, numbers):
        scores = rows[numbers] @ point
        return torch.stack([torch.exp(-scores), torch.tanh(scores)], dim=1)

    def loss(point, numbers):
        return torch.log1p((rows[numbers] @ point - 1.0).square())

    def both(point, numbers):
        return torch.cat([inner(point, numbers), loss(point, numbers)[:, None]], dim=1)

    start = torch.full((3,), 0.2, dtype=torch.float64)
    regularizer = ElasticNet(l1=0.01, l2=0.1)
    separate = FunctionComposite(3, 49, 2, regularizer, inner, LogPlusSquare(), loss)
    augmented = FunctionComposite(3, 49, 3, regularizer, both, LogPlusSquare())
    settings = GcivrConfig(schedule=schedule, step_size=0.1, growth=1.0, initial=2.0)
    first, second = (
        trace(Gcivr(settings), CompositeOracle(one, 5, start), start, 120) for one in (separate, augmented)
    )
    for one, other in zip(first, second, strict=True):
        torch.testing.assert_close(one.point, other.point, rtol=0, atol=1e-14)
    assert (first[-1].point - start).norm() > 0.1
    assert first[-1].epoch > 5


class Raised(Losses):
    """Losses plus a constant."""

    def __init__(self, base: Losses, constant: float) -> None:
        self.base, self.constant = base, constant
        self.samples, self.dimension, self.convex = base.samples, base.dimension, base.convex

    def origin(self):
        return self.base.origin()

    def linearize(self, points, index):
        values, pullback = self.base.linearize(points, index)
        return values + self.constant, pullback


@pytest.mark.parametrize("constant", [-2.0, 1.5, 300.0])
def test_a_constant_added_to_all_losses_changes_no_iterate(synthetic, trace, constant):
    data = synthetic(200, 4, 1)
    plain = data.kl(0.3)
    raised = LossComposite(Raised(plain.losses, constant), plain.transform, plain.outer, plain.regularizer)
    settings = GcivrConfig(step_size=0.3)
    first, second = (
        trace(Gcivr(settings), CompositeOracle(one, 0, data.start), data.start, 80) for one in (plain, raised)
    )
    for one, other in zip(first, second, strict=True):
        # A loss of 300 carries an absolute rounding error of 6e-14, which 1 / gamma multiplies.
        torch.testing.assert_close(one.point, other.point, rtol=0, atol=1e-12)
    assert float(second[-1].estimates.shift - first[-1].estimates.shift) == pytest.approx(constant, abs=1e-10)


@pytest.mark.parametrize("offset", [-1.0, 4.0])
def test_another_shift_in_the_middle_of_an_epoch_changes_no_iterate(synthetic, trace, offset):
    data = synthetic(200, 4, 1)
    solver = Gcivr(GcivrConfig(step_size=0.3, epoch_length=40))
    states = trace(solver, data.oracle(0.3, 0), data.start, 38)
    oracle = data.oracle(0.3, 0)
    state = trace(solver, oracle, data.start, 15)[-1]
    old = state.estimates
    new_shift = old.shift + offset
    state = replace(
        state,
        estimates=Estimates(
            oracle.rescale(old.inner_value, old.shift, new_shift),
            oracle.rescale(old.inner_jacobian, old.shift, new_shift),
            old.loss_value,
            old.loss_gradient,
            new_shift,
        ),
    )
    for expected in states[16:]:
        state = solver.step(state, oracle, SingleProcess())
        torch.testing.assert_close(state.point, expected.point, rtol=0, atol=1e-12)
    assert torch.equal(state.estimates.shift, new_shift)


def test_an_inner_value_below_the_floor_ends_the_epoch(synthetic, trace):
    m, batch, eta, mu = 200, 7, 0.3, 1e-2
    data = synthetic(m, 4, 1)
    solver = Gcivr(GcivrConfig(step_size=eta, epoch_length=40, batch=batch))
    oracle = data.oracle(0.3, 0, ElasticNet(l2=mu))
    state = trace(solver, oracle, data.start, 15)[-1]
    assert (state.position, state.epoch) == (15, 1)
    low = replace(state, estimates=replace(state.estimates, inner_value=state.estimates.inner_value - 1.0))
    calls = oracle.counters.sample_calls
    after = solver.step(low, oracle, SingleProcess())
    assert oracle.counters.sample_calls == calls + 2 * batch + m
    assert (after.position, after.epoch) == (1, 2)
    assert after.safeguard.step_size == eta
    # The step is the exact proximal gradient step from the point where the epoch was ended.
    x = state.point.numpy()
    gradient = data.numpy().robust(x, 0.3, 0.0)[1]
    np.testing.assert_allclose(after.point.numpy(), (x - eta * gradient) / (1.0 + eta * mu), rtol=0, atol=1e-14)


def test_a_sound_step_costs_no_refresh(synthetic, trace):
    data = synthetic(200, 4, 1)
    oracle = data.oracle(0.3, 0)
    state = trace(Gcivr(GcivrConfig(step_size=0.3, epoch_length=40, batch=7)), oracle, data.start, 15)[-1]
    assert oracle.counters.sample_calls == 200 + 14 * 2 * 7
    assert (state.position, state.epoch) == (15, 1)


@pytest.mark.parametrize(("m", "tau", "batch"), [(100, None, None), (150, None, None), (150, 9, 4), (70, 1, 3)])
def test_calls_of_the_constant_schedule(synthetic, trace, m, tau, batch):
    data = synthetic(m, 4, 0)
    oracle = data.oracle(1.0, 0)
    settings = GcivrConfig(step_size=0.2, epoch_length=tau, batch=batch)
    tau = tau or math.floor(2 * math.sqrt(m))
    batch = batch or math.floor(math.sqrt(m) / 2)
    epochs = 6
    states = trace(Gcivr(settings), oracle, data.start, epochs * tau)
    assert [state.epoch for state in states[1:]] == [1 + k // tau for k in range(epochs * tau)]
    assert oracle.counters.sample_calls == epochs * (m + 2 * batch * (tau - 1))
    assert oracle.counters.inner_values == oracle.counters.inner_jacobians == oracle.counters.sample_calls
    assert oracle.counters.loss_gradients == 0
    assert states[-1].safeguard.step_size == 0.2


@pytest.mark.parametrize("refresh_batch", [20, 99])
def test_calls_with_a_small_refresh_batch(synthetic, trace, refresh_batch):
    data = synthetic(100, 4, 0)
    oracle = data.oracle(1.0, 0)
    settings = GcivrConfig(step_size=0.2, epoch_length=5, batch=3, refresh_batch=refresh_batch)
    states = trace(Gcivr(settings), oracle, data.start, 4 * 5)
    assert oracle.counters.sample_calls == 4 * (refresh_batch + 2 * 3 * 4)
    # The objective is never measured on everything, so nothing can be accepted or refused.
    assert states[-1].safeguard.accepted is None


@pytest.mark.parametrize(
    ("m", "growth", "initial"), [(150, 1.5, 2.5), (150, 0.4, 0.3), (144, 2.0, 5.0), (90, 0.0, 40.0)]
)
def test_calls_of_the_adaptive_schedule(synthetic, trace, m, growth, initial):
    data = synthetic(m, 4, 0)
    epochs = 12 if growth != 0.4 else 35
    lengths, expected, refreshes = [], 0, []
    for t in range(1, epochs + 1):
        q = min(growth * t + initial, math.sqrt(m))
        # Equal to m up to rounding of the square of its root.
        refreshes.append(min(max(int(q * q + 1e-9), 1), m))
        lengths.append(max(int(q), 1))
        expected += refreshes[-1] + 2 * lengths[-1] * (lengths[-1] - 1)
    assert refreshes[-1] == m
    oracle = data.oracle(1.0, 0)
    settings = GcivrConfig(schedule="adaptive", step_size=0.1, growth=growth, initial=initial)
    solver = Gcivr(settings)
    states = trace(solver, oracle, data.start, sum(lengths))
    assert states[-1].epoch == epochs
    assert states[-1].position == 0
    assert oracle.counters.sample_calls == expected
    solver.step(states[-1], oracle, SingleProcess())
    assert oracle.counters.sample_calls == expected + m


def test_without_a_step_size_the_curvature_is_paid_for(synthetic):
    data = synthetic(40, 4, 0)
    oracle = data.oracle(1.0, 0)
    state = Gcivr(GcivrConfig(step_scale=2.0)).init(data.start, oracle, SingleProcess())
    assert state.safeguard.step_size == pytest.approx(2.0 / data.numpy().curvature(np.zeros(4), 1.0), rel=0.05)
    assert oracle.counters.sample_calls >= 2 * 40
    assert oracle.counters.sample_calls % 40 == 0


def test_full_batches_make_it_proximal_gradient_descent(synthetic, trace):
    eta, mu = 0.5, 0.05
    data = synthetic(40, 4, 2)
    solver = Gcivr(GcivrConfig(step_size=eta, epoch_length=7, batch=10**6, refresh_batch=10**6))
    oracle = data.oracle(0.5, 0, ElasticNet(l1=0.02, l2=mu))
    states = trace(solver, oracle, data.start, 30)
    problem, x = data.numpy(), np.zeros(4)
    for state in states[1:]:
        v = x - eta * problem.robust(x, 0.5, 0.0)[1]
        x = np.sign(v) * np.maximum(np.abs(v) - eta * 0.02, 0.0) / (1.0 + eta * mu)
        np.testing.assert_allclose(state.point.numpy(), x, rtol=0, atol=1e-13)
    refreshes = math.ceil(30 / 7)
    assert oracle.counters.sample_calls == refreshes * 40 + (30 - refreshes) * 2 * 40


@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize("gamma", [1.0, 0.01])
def test_one_sample_is_enough(single, trace, gamma, monotone):
    # The robust risk of one sample is its loss, whatever gamma is.
    states = trace(
        Gcivr(GcivrConfig(monotone=monotone)), single.oracle(gamma, 0, ElasticNet(l2=0.1)), single.start, 200
    )
    assert all(bool(state.point.isfinite().all()) for state in states)
    x_star, _ = single.numpy().optimum(1.0, 0.1)
    np.testing.assert_allclose(states[-1].point.numpy(), x_star, rtol=0, atol=1e-6)


@pytest.mark.parametrize("schedule", ["constant", "adaptive"])
def test_empirical_risk_needs_no_inner_map(synthetic, trace, schedule):
    # h alone: the method is proximal SARAH.
    data = synthetic(100, 4, 0)
    losses = data.losses
    composite = FunctionComposite(
        4,
        100,
        0,
        ElasticNet(l2=0.1),
        loss=lambda point, numbers: torch.log1p(torch.exp(-(losses.signed_rows[numbers] @ point))),
    )
    settings = GcivrConfig(schedule=schedule, step_size=0.5)
    states = trace(Gcivr(settings), CompositeOracle(composite, 0, data.start), data.start, 300)
    x_star, _ = data.numpy().optimum(math.inf, 0.1)
    np.testing.assert_allclose(states[-1].point.numpy(), x_star, rtol=0, atol=1e-5)


def test_single_precision_stays_single_precision(synthetic, trace):
    data = synthetic(400, 5, 0)
    small = type(data)(data.rows.float(), data.signs.float())
    states = trace(Gcivr(GcivrConfig()), small.oracle(1.0, 0), small.start, 400)
    assert states[-1].point.dtype == torch.float32
    assert states[-1].estimates.inner_jacobian.dtype == torch.float32
    _, value = data.numpy().optimum(1.0, 1e-2)
    found = data.numpy().robust(states[-1].point.numpy().astype(np.float64), 1.0, 1e-2)[0]
    start = data.numpy().robust(np.zeros(5), 1.0, 1e-2)[0]
    assert (found - value) / (start - value) < 1e-4


class TwoSets(Composite):
    """`mean over 50 samples of (x - i / 10)^2 / 2` plus half the square of the mean of five constraints `k x`."""

    dimension, samples, constraints, outputs, has_losses = 1, 50, 5, 1, True

    def __init__(self, outer: OuterFunction) -> None:
        self.outer, self.regularizer = outer, Zero()

    def estimate(self, points, rows, shift):
        numbers = torch.arange(50, dtype=torch.float64)[rows.samples] / 10.0
        slope = torch.arange(5, dtype=torch.float64)[rows.constraints].mean()
        differences = points - numbers
        return Means(
            slope * points,
            (slope * torch.ones_like(points))[:, None],
            0.5 * differences.square().mean(dim=1),
            differences.mean(dim=1, keepdim=True),
            torch.full_like(points, -torch.inf),
            points.new_zeros(()) if shift is None else shift,
        )


@pytest.mark.parametrize("refresh_batch", [None, 3, 10, 60])
def test_with_two_index_sets_only_an_exact_objective_is_accepted(half_square, trace, refresh_batch):
    form = TwoSets(half_square)
    start = torch.ones(1, dtype=torch.float64)
    oracle = CompositeOracle(form, 0, start)
    state = trace(Gcivr(GcivrConfig(step_size=0.1, refresh_batch=refresh_batch)), oracle, start, 1)[-1]
    assert state.safeguard.accepted is None or state.safeguard.accepted.value == pytest.approx(
        float(form.value(start)), abs=1e-12
    )
    assert (state.safeguard.accepted is None) == (refresh_batch in (3, 10))


def counted(config, half_square, trace, steps):
    start = torch.ones(1, dtype=torch.float64)
    oracle = CompositeOracle(TwoSets(half_square), 0, start)
    states = trace(Gcivr(config), oracle, start, steps)
    return states[-1], oracle.counters


def test_with_two_index_sets_each_has_its_own_batch(half_square, trace):
    """tau = floor(2 sqrt 50) = 14, S = 3 samples and 1 constraint: a refresh, then steps at two points each."""
    state, counters = counted(GcivrConfig(step_size=0.01), half_square, trace, 4)
    assert state.sizes.length == 14
    assert counters.constraint_checks == 5 + 3 * 2
    assert counters.sample_calls == 50 + 3 * 2 * 3


def test_the_batches_of_both_index_sets_can_be_chosen(half_square, trace):
    _, counters = counted(GcivrConfig(step_size=0.01, batch=7, constraint_batch=2), half_square, trace, 4)
    assert counters.constraint_checks == 5 + 3 * 2 * 2
    assert counters.sample_calls == 50 + 3 * 2 * 7
    _, counters = counted(GcivrConfig(step_size=0.01, batch=4), half_square, trace, 4)
    assert counters.constraint_checks == 5 + 3 * 2 * 4


def test_the_objective_can_be_evaluated_on_all_samples(half_square, trace):
    config = GcivrConfig(step_size=0.01, constraint_batch=2, whole_samples=True)
    state, counters = counted(config, half_square, trace, 4)
    assert counters.sample_calls == 50 + 3 * 2 * 50
    assert state.sizes.batch is None

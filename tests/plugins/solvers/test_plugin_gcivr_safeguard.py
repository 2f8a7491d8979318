"""GCIVR's safeguard, its three outputs and its average."""

import math
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from drobench.objective.composites.functions import FunctionComposite
from drobench.objective.oracles.composite import CompositeOracle
from drobench.objective.regularizers import ElasticNet
from drobench.solver import SingleProcess
from drobench_plugins.solvers.gcivr import Gcivr
from drobench_plugins.solvers.pieces.gcivr_config import GcivrConfig

GAMMA, MU = 0.5, 1e-2


@pytest.fixture
def data(synthetic):
    return synthetic(400, 5, 0)


def too_large(data, factor: float) -> float:
    return factor / data.numpy().curvature(np.zeros(5), GAMMA)


@pytest.fixture
def gap(data):
    """Return the relative gap at a point; not finite if the point is not."""
    problem = data.numpy()
    _, optimum = problem.optimum(GAMMA, MU)
    start, _ = problem.robust(np.zeros(problem.n), GAMMA, MU)

    def relative(point: torch.Tensor) -> float:
        return (problem.robust(point.numpy(), GAMMA, MU)[0] - optimum) / (start - optimum)

    return relative


def is_rejection(before, after) -> bool:
    return after.safeguard.step_size < before.safeguard.step_size


# The adaptive schedule is guarded only once its refreshes reach everything, and starts from wherever it is by then.
@pytest.mark.convergence
@pytest.mark.parametrize(("schedule", "steps", "goal"), [("constant", 1200, 1e-9), ("adaptive", 2500, 1e-6)])
@pytest.mark.parametrize("recovery", [1.0, 1.5])
def test_a_step_twenty_times_too_large_is_repaired(data, gap, trace, schedule, steps, goal, recovery):
    step_size = too_large(data, 20.0)
    solver = Gcivr(GcivrConfig(schedule=schedule, step_size=step_size, recovery=recovery))
    states = trace(solver, data.oracle(GAMMA, 0, ElasticNet(l2=MU)), data.start, steps)
    # A large rise costs more than one halving, and a step size that may not grow back stays that small.
    goal = 0.05 if recovery == 1.0 else goal
    assert gap(states[-1].safeguard.accepted.point) < goal
    smallest = min(state.safeguard.step_size for state in states)
    assert smallest <= step_size / 2
    if recovery == 1.0:
        halvings = math.log2(step_size / states[-1].safeguard.step_size)
        assert halvings == int(halvings)
        assert states[-1].safeguard.step_size == smallest
        assert gap(solver.solution(states[-1])) < goal


@pytest.mark.convergence
@pytest.mark.parametrize("seed", range(3))
def test_once_at_the_optimum_the_output_stays_there(data, gap, trace, seed):
    solver = Gcivr(GcivrConfig(step_size=too_large(data, 4.0)))
    states = trace(solver, data.oracle(GAMMA, seed, ElasticNet(l2=MU)), data.start, 1500)
    gaps = [gap(solver.solution(state)) for state in states[800::5]]
    assert min(gaps) < 1e-9
    assert max(gaps) < 1e-2


def test_without_the_safeguard_it_is_not_repaired(data, gap, trace):
    step_size = too_large(data, 20.0)
    solver = Gcivr(GcivrConfig(step_size=step_size, monotone=False))
    states = trace(solver, data.oracle(GAMMA, 0, ElasticNet(l2=MU)), data.start, 1200)
    assert states[-1].safeguard.step_size == step_size
    assert not gap(states[-1].point) < 1e-2


@pytest.mark.parametrize("recovery", [1.0, 1.3])
def test_accepted_values_fall_and_a_rejection_returns_to_the_last_of_them(data, trace, recovery):
    first = too_large(data, 20.0)
    solver = Gcivr(GcivrConfig(step_size=first, recovery=recovery))
    states = trace(solver, data.oracle(GAMMA, 0, ElasticNet(l2=MU)), data.start, 600)
    problem = data.numpy()
    rejections = growths = 0
    for before, after in pairwise(states[1:]):
        assert after.safeguard.accepted.value <= before.safeguard.accepted.value + 1e-11
        if is_rejection(before, after):
            rejections += 1
            # One halving, and more where the rise is large or follows another.
            halvings = math.log2(before.safeguard.step_size / after.safeguard.step_size)
            assert halvings == int(halvings) >= 1
            assert after.safeguard.failures == before.safeguard.failures + 1
            assert after.safeguard.accepted is before.safeguard.accepted
            assert torch.equal(after.previous, before.safeguard.accepted.point)
            # The step after the return is the exact proximal gradient step with the smaller step size.
            x, eta = after.safeguard.accepted.point.numpy(), after.safeguard.step_size
            expected = (x - eta * problem.robust(x, GAMMA, 0.0)[1]) / (1.0 + eta * MU)
            np.testing.assert_allclose(after.point.numpy(), expected, rtol=0, atol=1e-13)
            left = problem.robust(before.point.numpy(), GAMMA, MU)[0]
            assert left > before.safeguard.accepted.value
        elif after.safeguard.accepted is not before.safeguard.accepted:
            measured = problem.robust(after.safeguard.accepted.point.numpy(), GAMMA, MU)[0]
            assert after.safeguard.accepted.value == pytest.approx(measured, abs=1e-13)
            assert torch.equal(after.safeguard.accepted.point, before.point)
            assert (
                before.safeguard.step_size
                <= after.safeguard.step_size
                <= min(first, recovery * before.safeguard.step_size)
            )
            growths += after.safeguard.step_size > before.safeguard.step_size
        else:
            assert after.safeguard.step_size == before.safeguard.step_size
    assert rejections >= 1
    assert (growths > 0) == (recovery > 1.0)


def test_a_rejected_epoch_leaves_the_mean_and_the_reservoir(data, trace):
    solver = Gcivr(GcivrConfig(step_size=too_large(data, 20.0), average=True, output="random"))
    states = trace(solver, data.oracle(GAMMA, 0, ElasticNet(l2=MU)), data.start, 600)
    kept: list[torch.Tensor] = []
    kept_at_snapshot, dropped = 0, 0
    for before, after in pairwise(states):
        if is_rejection(before, after):
            dropped += len(kept) - kept_at_snapshot
            del kept[kept_at_snapshot:]
        elif after.safeguard.accepted is not before.safeguard.accepted:
            kept_at_snapshot = len(kept)
        kept.append(after.point)
        assert after.trail.visited == len(kept)
        torch.testing.assert_close(solver.average(after), torch.stack(kept).mean(dim=0), rtol=0, atol=1e-12)
        assert any(torch.equal(solver.solution(after), point) for point in kept)
    assert dropped > 0


@pytest.mark.convergence
def test_an_objective_that_is_not_finite_is_rejected(trace):
    # Gradient steps on x^4 with a large step size grow doubly exponentially until they overflow.
    composite = FunctionComposite(
        1, 4, 0, ElasticNet(l2=1e-3), loss=lambda point, numbers: (point + numbers).square().square()
    )
    start = torch.full((1,), 3.0, dtype=torch.float64)
    oracle = CompositeOracle(composite, 0, start)
    states = trace(Gcivr(GcivrConfig(step_size=1.0, epoch_length=12)), oracle, start, 700)
    assert any(not state.point.isfinite() for state in states)
    assert states[-1].safeguard.step_size < 1.0
    # By symmetry the mean of (x + i)^4 over i = 0..3 is least at -3/2.
    assert states[-1].point.item() == pytest.approx(-1.5, abs=1e-2)


@pytest.mark.convergence
def test_rounding_at_the_optimum_does_not_wear_the_step_size_out(data, trace):
    x_star, _ = data.numpy().optimum(GAMMA, MU)
    start = torch.from_numpy(x_star)
    step_size = too_large(data, 0.5)
    solver = Gcivr(GcivrConfig(step_size=step_size))
    states = trace(solver, data.oracle(GAMMA, 0, ElasticNet(l2=MU)), start, 3000)
    np.testing.assert_allclose(states[-1].point.numpy(), x_star, rtol=0, atol=1e-6)
    assert states[-1].epoch > 50
    assert states[-1].safeguard.step_size >= step_size / 16


def test_the_last_output_is_the_current_point_where_nothing_is_undone(data, trace):
    solver = Gcivr(GcivrConfig(step_size=0.5, monotone=False))
    state = trace(solver, data.oracle(GAMMA, 0), data.start, 17)[-1]
    assert solver.solution(state) is state.point
    assert solver.average(state) is None


@pytest.mark.parametrize("monotone", [False, True])
def test_the_best_snapshot_is_the_lowest_of_all_epoch_starts(data, trace, monotone):
    settings = GcivrConfig(step_size=too_large(data, 6.0), epoch_length=25, output="best_snapshot", monotone=monotone)
    solver = Gcivr(settings)
    states = trace(solver, data.oracle(GAMMA, 0, ElasticNet(l2=MU)), data.start, 800)
    problem = data.numpy()
    best, rises = math.inf, 0
    for before, after in pairwise(states):
        if after.epoch > before.epoch:
            value = problem.robust(before.point.numpy(), GAMMA, MU)[0]
            rises += value > best
            best = min(best, value)
        found = problem.robust(solver.solution(after).numpy(), GAMMA, MU)[0]
        assert found == pytest.approx(best, abs=1e-11)
    assert rises > 0


def test_before_any_snapshot_the_best_is_the_current_point(data):
    solver = Gcivr(GcivrConfig(step_size=0.5, output="best_snapshot"))
    state = solver.init(data.start, data.oracle(GAMMA, 0), SingleProcess())
    assert torch.equal(solver.solution(state), data.start)


@pytest.mark.convergence
def test_the_random_output_is_uniform_over_the_iterates(synthetic, trace):
    data = synthetic(9, 2, 0)
    composite = data.kl(1.0)
    solver = Gcivr(GcivrConfig(step_size=0.3, output="random"))
    steps, frequencies = 7, Counter()
    for seed in range(700):
        states = trace(solver, CompositeOracle(composite, seed, data.start), data.start, steps)
        chosen = solver.solution(states[-1])
        (number,) = (k for k, state in enumerate(states) if torch.equal(state.point, chosen))
        frequencies[number] += 1
    # The start is no iterate.
    assert set(frequencies) <= set(range(1, steps + 1))
    assert chisquare([frequencies[k] for k in range(1, steps + 1)]).pvalue > 1e-3


@pytest.mark.parametrize("output", ["last", "random"])
@pytest.mark.parametrize("schedule", ["constant", "adaptive"])
def test_the_average_is_the_plain_mean_of_the_iterates(data, trace, schedule, output):
    solver = Gcivr(GcivrConfig(schedule=schedule, step_size=0.2, average=True, output=output))
    states = trace(solver, data.oracle(1.0, 0), data.start, 150)
    assert states[-1].safeguard.step_size == 0.2
    assert solver.average(states[0]) is None
    for k in (1, 2, 77, 150):
        mean = torch.stack([state.point for state in states[1 : k + 1]]).mean(dim=0)
        torch.testing.assert_close(solver.average(states[k]), mean, rtol=0, atol=1e-13)


def test_keeping_the_average_changes_no_iterate(data, trace):
    runs = [
        trace(Gcivr(GcivrConfig(step_size=0.2, average=average)), data.oracle(1.0, 0), data.start, 100)
        for average in (False, True)
    ]
    assert all(torch.equal(one.point, other.point) for one, other in zip(*runs, strict=True))

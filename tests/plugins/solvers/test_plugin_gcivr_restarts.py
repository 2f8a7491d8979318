"""The stages of the strongly convex recipe: their length, where they start, what they gain, where they end."""

import math
from dataclasses import replace
from itertools import pairwise

import pytest
import torch

from drobench.errors import SettingError
from drobench.objective.oracles.composite import CompositeOracle
from drobench.objective.regularizers import ElasticNet, Zero
from drobench.solver import SingleProcess
from drobench_plugins.solvers.gcivr import Gcivr, build
from drobench_plugins.solvers.pieces.gcivr_config import GcivrConfig

SETTINGS = GcivrConfig(schedule="square_root", step_size=0.2, restarts=3, stage_epochs=2, monotone=False)


def until_the_end(solver, oracle, start, most=100000):
    """Return all states up to the one at which the method ends."""
    alone = SingleProcess()
    states = [solver.init(start, oracle, alone)]
    while not solver.ended(states[-1]):
        assert len(states) < most
        states.append(solver.step(states[-1], oracle, alone))
    return states


@pytest.mark.parametrize(("m", "mu", "eta"), [(100, 0.1, 0.05), (100, 1.0, 1.0), (10000, 1e-3, 0.045), (50, 0.02, 0.3)])
def test_a_stage_is_as_long_as_the_corrected_theorem_has_it(synthetic, m, mu, eta):
    data = synthetic(m, 3, 0)
    solver = build(replace(SETTINGS, step_size=eta, stage_epochs=None))
    state = solver.init(data.start, data.oracle(1.0, 0, ElasticNet(l2=mu)), SingleProcess())
    # At least one epoch, where the printed formula gives a fraction of one.
    assert state.stage_epochs == max(1, math.ceil(5.0 / (math.sqrt(m) * mu * eta)))
    stated = build(replace(SETTINGS, step_size=eta, stage_epochs=None, strong_convexity=2.0 * mu))
    state = stated.init(data.start, data.oracle(1.0, 0, ElasticNet(l2=mu)), SingleProcess())
    assert state.stage_epochs == max(1, math.ceil(5.0 / (math.sqrt(m) * 2.0 * mu * eta)))


def test_the_cost_is_that_of_all_epochs(synthetic):
    data = synthetic(90, 3, 0)
    oracle = data.oracle(1.0, 0)
    states = until_the_end(build(SETTINGS), oracle, data.start)
    root = 9  # of sqrt(90), rounded down
    assert len(states) - 1 == 3 * 2 * root
    assert oracle.counters.sample_calls == 3 * 2 * (90 + 2 * root * (root - 1))
    assert [state.stage for state in states[:: 2 * root]] == [0, 1, 2, 3]


def test_with_the_last_iterate_restarts_are_one_long_run(synthetic, trace):
    data = synthetic(90, 3, 0)
    staged = until_the_end(build(SETTINGS), data.oracle(1.0, 5), data.start)
    long = trace(Gcivr(replace(SETTINGS, restarts=None, stage_epochs=None)), data.oracle(1.0, 5), data.start, 54)
    assert len(staged) == len(long)
    assert all(torch.equal(one.inner.point, other.point) for one, other in zip(staged, long, strict=True))


@pytest.mark.convergence
def test_a_stage_starts_from_a_random_iterate_of_the_one_before(synthetic):
    data = synthetic(90, 3, 0)
    solver = build(replace(SETTINGS, output="random"))
    chosen = []
    for seed in range(300):
        states = until_the_end(solver, data.oracle(1.0, seed), data.start)
        first, second = states[:19], states[19:]
        # The last step of the stage puts the state back to the iterate it starts the next from.
        visited = torch.stack([state.inner.point for state in first[1:-1]])
        equal = (visited == first[-1].inner.point).all(dim=1)
        place = int(equal.nonzero()[0, 0]) if bool(equal.any()) else 17
        chosen.append(place)
        assert torch.equal(second[0].inner.previous, first[-1].inner.point)
        assert torch.equal(solver.solution(states[-1]), states[-1].inner.point)
    counts = torch.bincount(torch.tensor(chosen), minlength=18).double()
    # Uniform over the 18 iterates of the stage: chi-square with 17 degrees of freedom, 99.9 % below 40.8.
    assert float(((counts - 300 / 18).square() / (300 / 18)).sum()) < 40.8


@pytest.mark.convergence
def test_a_stage_of_the_theorem_gains_the_factor_e_on_average(synthetic):
    # The theorem's step and schedule, output at random, on five draws of a well-conditioned instance.
    data = synthetic(400, 4, 1)
    _, optimum = data.numpy().optimum(1.0, 0.1)
    settings = GcivrConfig(
        schedule="square_root", step_rule="theorem", restarts=4, output="random", replacement=True, monotone=False
    )
    gaps = torch.zeros(5, dtype=torch.float64)
    for seed in range(5):
        form = data.kl(1.0, ElasticNet(l2=0.1))
        states = until_the_end(build(settings), CompositeOracle(form, seed, data.start), data.start)
        ends = [next(state for state in states if state.stage == stage) for stage in range(5)]
        gaps += torch.stack([form.value(state.inner.point) - optimum for state in ends]) / 5
    assert gaps[0] > 0.01
    assert bool((gaps[1:] <= gaps[:-1] / math.e + 1e-15).all())


def test_an_epoch_that_breaks_off_counts_and_a_stage_ends_with_a_whole_one(synthetic):
    data = synthetic(400, 3, 0)
    # A step far too large at a small gamma drives the inner value out of its range again and again.
    solver = build(replace(SETTINGS, step_size=30.0, restarts=2))
    states = until_the_end(solver, data.oracle(0.05, 0), data.start)
    ends = [state for before, state in pairwise(states) if state.stage > before.stage]
    assert len(ends) == 2
    assert all(state.inner.position == 0 for state in ends)
    assert len(states) - 1 < 4 * 20


def test_the_safeguard_forgets_what_it_accepted_before_a_random_restart(synthetic):
    data = synthetic(90, 3, 0)
    states = until_the_end(build(replace(SETTINGS, output="random", monotone=True)), data.oracle(1.0, 0), data.start)
    starts = [state for before, state in pairwise(states) if state.stage > before.stage]
    assert len(starts) == 3
    assert all(state.inner.safeguard.accepted is None for state in starts)


def test_with_the_safeguard_the_last_epoch_is_judged_before_the_end(synthetic):
    data = synthetic(90, 3, 0)
    form = data.kl(0.1)
    # A single epoch whose steps are far too large.
    settings = replace(SETTINGS, step_size=40.0, restarts=1, stage_epochs=1)
    careless = until_the_end(build(settings), CompositeOracle(form, 0, data.start), data.start)
    oracle = CompositeOracle(form, 0, data.start)
    careful = until_the_end(build(replace(settings, monotone=True)), oracle, data.start)
    assert form.value(careless[-1].inner.point) > form.value(data.start)
    assert form.value(careful[-1].inner.point) <= form.value(data.start)
    assert careful[-1].inner.safeguard.accepted.value == pytest.approx(float(form.value(careful[-1].inner.point)))


def test_without_strong_convexity_the_length_of_a_stage_must_be_given(synthetic):
    data = synthetic(50, 3, 0)
    solver = build(replace(SETTINGS, stage_epochs=None))
    with pytest.raises(SettingError, match=r"problem\.l2 above 0, solver\.strong_convexity or solver\.stage_epochs"):
        solver.init(data.start, data.oracle(1.0, 0, Zero()), SingleProcess())


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"stage_epochs": 3}, "stage_epochs is about the stages of `restarts=`"),
        ({"strong_convexity": 0.1}, "strong_convexity is about the stages of `restarts=`"),
        ({"restarts": 2, "schedule": "adaptive"}, "epochs that are all alike"),
        ({"restarts": 0}, "restarts must be a finite number above 0"),
        ({"step_rule": "guess"}, "step_rule must be"),
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong, message):
    with pytest.raises(SettingError, match=message):
        GcivrConfig(**wrong)

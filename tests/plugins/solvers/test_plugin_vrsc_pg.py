"""VRSC-PG against a plain loop with the same draws, its safeguards, and how fast it reaches the optimum."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from composite_samples import KINDS, composite_sample, half_spaces

from drobench.objective.oracles.composite import CompositeOracle
from drobench.objective.regularizers import ElasticNet
from drobench.objective.sampling import Shard
from drobench.solver import SingleProcess
from drobench.solver.estimators import sample_pair
from drobench_plugins.solvers.vrsc_pg import VrscPg, VrscPgConfig, entry


@pytest.mark.parametrize("kind", KINDS)
def test_the_iterates_are_those_of_a_plain_loop(synthetic, trace, kind):
    sample = composite_sample(kind, synthetic(60, 4, 0))
    oracle = sample.oracle(5)
    settings = VrscPgConfig(step_size=0.1, batch=6, epoch_length=7, monotone=False)
    states = trace(VrscPg(settings), oracle, sample.start, 28)
    generator, x = np.random.default_rng(5), sample.start.numpy()
    for step, state in enumerate(states[1:]):
        if step % 7 == 0:
            snapshot, full = x, sample.terms(x).mean()
            d = sample.direction(full)
        else:
            index = sample.draw(generator, 6)
            here, there = sample.terms(x, index).mean(), sample.terms(snapshot, index).mean()
            y = full.inner + here.inner - there.inner
            d = sample.direction(full) + sample.direction(here, y) - sample.direction(there, full.inner)
        x = sample.prox(x - 0.1 * d, 0.1)
        np.testing.assert_allclose(state.point.numpy(), x, rtol=0, atol=1e-11)
    assert oracle.counters.sample_calls == 4 * (60 + 2 * 6 * 6)


@pytest.mark.convergence
def test_it_reaches_twelve_digits_within_sixty_passes(synthetic):
    data, mu = synthetic(1024, 10, 0), 1e-2
    data = data._replace(rows=data.rows * 10.0 ** (torch.arange(10, dtype=torch.float64) / 9) / 2)  # well conditioned
    problem, oracle, alone = data.numpy(), data.oracle(1.0, 0, ElasticNet(l2=mu)), SingleProcess()
    solver = VrscPg(VrscPgConfig(step_scale=0.3))
    state = solver.init(data.start, oracle, alone)
    while oracle.passes < 59.0:
        state = solver.step(state, oracle, alone)
    assert oracle.passes < 60.0 + 1.0
    least, most = problem.optimum(1.0, mu)[1], problem.robust(np.zeros(10), 1.0, mu)[0]
    assert problem.robust(state.point.numpy(), 1.0, mu)[0] - least < 1e-12 * (most - least)


def test_an_inner_value_out_of_its_domain_ends_the_epoch(synthetic, trace):
    # Away from zero a few rows dominate, and a mean over two rows can subtract more than there is.
    data, gamma = synthetic(40, 3, 1), 0.1
    start = torch.ones(3, dtype=torch.float64)
    oracle = data.oracle(gamma, 3, ElasticNet(l2=0.05))
    settings = VrscPgConfig(step_size=0.3, batch=2, epoch_length=1000, monotone=False)
    states = trace(VrscPg(settings), oracle, start, 60)
    again = [state for state in states[2:] if state.position == 1]
    assert again
    assert all(bool(state.point.isfinite().all()) for state in states)
    # Such a step costs the draw, twice, and everything.
    assert oracle.counters.sample_calls == 40 * (1 + len(again)) + 2 * 2 * 59
    for state in again:
        exact = data.numpy().robust(state.snapshot.point.numpy(), gamma, 0.0)[1]
        np.testing.assert_allclose(state.snapshot.gradient.numpy(), exact, rtol=0, atol=1e-12)


def test_an_epoch_that_goes_up_is_undone(twenty, trace):
    oracle = twenty.oracle(0.5, 0, ElasticNet(l2=0.1))
    states = trace(VrscPg(VrscPgConfig(step_size=100.0, batch=4, epoch_length=5)), oracle, twenty.start, 100)
    values = [state.safeguard.accepted.value for state in states[1:]]
    assert all(after <= before + 1e-11 for before, after in pairwise(values))
    assert states[-1].safeguard.step_size < 100.0
    assert values[-1] < 0.6


def test_it_solves_a_smoothed_constrained_problem(trace):
    oracle, start, least = half_spaces()
    states = trace(VrscPg(VrscPgConfig()), oracle, start, 600)
    assert states[-1].safeguard.accepted.value - least < 1e-8
    # Two of 30 samples and one of 12 constraints, twice: floors of sqrt(m) / 2.
    assert entry().calls_per_step(VrscPgConfig(), oracle) == {6, 42, 48}


def test_shares_of_a_pair_add_up_to_one_process(synthetic):
    """Two shards, pooled by hand, give what one process measures on all rows of the draw."""
    data = synthetic(31, 4, 0)
    points = torch.randn(2, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    form, shift = data.kl(0.4), torch.zeros((), dtype=torch.float64)
    alone = CompositeOracle(form, 0, data.start)
    expected = sample_pair(alone, SingleProcess(), points, alone.draw(9), shift)

    class Recorder(SingleProcess):
        world_size = 2

        def total(self, tensors):
            self.sent = list(tensors)
            return self.sent

    recorders = []
    for rank in (0, 1):
        oracle = CompositeOracle(form, 0, data.start, Shard(rank, 2))
        recorders.append(Recorder())
        sample_pair(oracle, recorders[-1], points, oracle.draw(9), shift)
    value, jacobian, floor, *_ = (
        one + two for one, two in zip(*(recorder.sent for recorder in recorders), strict=True)
    )
    for place, estimates in enumerate(expected[:2]):
        torch.testing.assert_close(value[place], estimates.inner_value, rtol=1e-13, atol=0)
        torch.testing.assert_close(jacobian[place], estimates.inner_jacobian, rtol=1e-12, atol=0)
    assert floor[0].tolist() == pytest.approx(expected[2], rel=1e-12)

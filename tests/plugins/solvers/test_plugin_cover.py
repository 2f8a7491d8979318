"""COVER against a plain loop with the same draws, and how near it comes to the optimum."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from composite_samples import KINDS, Terms, composite_sample, half_spaces

from drobench.errors import SettingError
from drobench.objective.regularizers import ElasticNet
from drobench.solver import SingleProcess
from drobench_plugins.solvers.cover import Cover, CoverConfig, entry


@pytest.mark.parametrize("kind", KINDS)
def test_the_iterates_are_those_of_a_plain_loop(synthetic, trace, kind):
    sample = composite_sample(kind, synthetic(60, 4, 0))
    oracle = sample.oracle(5)
    states = trace(Cover(CoverConfig(step_size=0.1, batch=6, delay=3, mixing=0.7)), oracle, sample.start, 50)
    generator, x, estimates = np.random.default_rng(5), sample.start.numpy(), None
    previous = x
    for k, state in enumerate(states[1:], start=1):
        index, b = sample.draw(generator, 6), 0.7 * k ** (-2 / 3)
        here = sample.terms(x, index).mean()
        if estimates is None:
            estimates = here
        else:
            parts = zip(here, estimates, sample.terms(previous, index).mean(), strict=True)
            estimates = Terms(*(new + (1 - b) * (old - then) for new, old, then in parts))
        a = 0.1 * (1 + (k - 1) / 3) ** (-1 / 3)
        previous, x = x, sample.prox(x - a * sample.direction(estimates), a)
        np.testing.assert_allclose(state.point.numpy(), x, rtol=0, atol=1e-11)
    assert oracle.counters.sample_calls == 6 + 49 * 12
    assert entry().calls_per_step(CoverConfig(batch=6), oracle) == {6, 12}


def test_an_inner_value_out_of_its_domain_begins_anew(synthetic, trace):
    data, gamma = synthetic(40, 3, 1), 0.05
    start = torch.ones(3, dtype=torch.float64)
    states = trace(Cover(CoverConfig(step_size=0.3, batch=2)), data.oracle(gamma, 3, ElasticNet(l2=0.05)), start, 80)
    generator, problem, anew = np.random.default_rng(3), data.numpy(), 0
    for before, after in pairwise(states):
        index = generator.choice(40, 2, replace=False, shuffle=False)
        assert bool(after.point.isfinite().all())
        assert float(after.estimates.inner_value) > 0
        # What a mean over these two rows alone would be, at the shift of the estimates.
        losses = problem.linearize(before.point.numpy(), index)[0]
        plain = np.exp((losses - float(after.estimates.shift)) / gamma).mean()
        assert float(after.estimates.inner_value) >= 2 / 40 * plain * (1 - 1e-12)
        anew += before.estimates is not None and abs(float(after.estimates.inner_value) / plain - 1.0) < 1e-12
    assert anew > 0


@pytest.mark.convergence
def test_half_of_its_runs_come_nearer_to_the_optimum_than_a_thousandth_and_a_quarter(synthetic):
    data, mu = synthetic(1024, 10, 0), 1e-2
    data = data._replace(rows=data.rows * 10.0 ** (torch.arange(10, dtype=torch.float64) / 9) / 2)  # well conditioned
    problem, alone, gaps = data.numpy(), SingleProcess(), []
    least, most = problem.optimum(1.0, mu)[1], problem.robust(np.zeros(10), 1.0, mu)[0]
    for seed in range(5):
        solver, oracle = Cover(CoverConfig()), data.oracle(1.0, seed, ElasticNet(l2=mu))
        state = solver.init(data.start, oracle, alone)
        while oracle.passes < 60.0:
            state = solver.step(state, oracle, alone)
        gaps.append((problem.robust(state.point.numpy(), 1.0, mu)[0] - least) / (most - least))
    assert np.median(gaps) < 1.25e-3


def test_it_comes_near_the_optimum_of_a_constrained_problem(trace):
    oracle, start, least = half_spaces()
    solver = Cover(CoverConfig(step_size=0.02, batch=4))
    state = trace(solver, oracle, start, 1000)[-1]
    form = oracle.materialise()
    assert float(form.value(solver.average(state))) - least < 0.1 * (float(form.value(start)) - least)


def test_more_of_a_draw_than_all_of_it_cannot_be_mixed_in():
    with pytest.raises(SettingError, match=r"CoverConfig.mixing must be at most 1; found 1.5"):
        CoverConfig(mixing=1.5)


def test_the_entry_says_that_schedules_are_reconstructed():
    assert entry().reconstructed
    assert "reconstructed" in entry().reference

"""Proximal gradient descent against a plain loop, and to the optimum."""

from itertools import pairwise

import numpy as np
import pytest
from composite_samples import KINDS, composite_sample, half_spaces

from drobench.errors import SettingError
from drobench.objective.regularizers import ElasticNet
from drobench.solver import SingleProcess
from drobench_plugins.solvers.prox_gradient import ProxGradient, ProxGradientConfig, entry


@pytest.mark.parametrize("kind", KINDS)
def test_the_iterates_are_those_of_a_plain_loop(synthetic, trace, kind):
    sample = composite_sample(kind, synthetic(60, 4, 0))
    oracle = sample.oracle(0)
    states = trace(ProxGradient(ProxGradientConfig(step_size=0.3, monotone=False)), oracle, sample.start, 30)
    x = sample.start.numpy()
    for state in states[1:]:
        x = sample.prox(x - 0.3 * sample.direction(sample.terms(x).mean()), 0.3)
        np.testing.assert_allclose(state.point.numpy(), x, rtol=0, atol=1e-12)
    assert oracle.counters.sample_calls == 30 * 60


def test_a_step_that_goes_up_is_taken_back_and_the_step_size_halved(twenty, trace):
    oracle = twenty.oracle(0.5, 0, ElasticNet(l2=0.1))
    states = trace(ProxGradient(ProxGradientConfig(step_size=500.0)), oracle, twenty.start, 60)
    values = [twenty.numpy().robust(state.safeguard.accepted.point.numpy(), 0.5, 0.1)[0] for state in states[1:]]
    assert all(after <= before + 1e-11 for before, after in pairwise(values))
    halvings = np.log2(500.0 / states[-1].safeguard.step_size)
    assert halvings >= 3
    assert halvings == int(halvings)
    # Where the first step went up, the second one starts again from the same point, half as far.
    assert states[2].safeguard.accepted.value == states[1].safeguard.accepted.value
    assert states[2].safeguard.step_size == 250.0


def test_it_ends_at_the_known_optimum(twenty, trace):
    solver = ProxGradient(ProxGradientConfig())
    states = trace(solver, twenty.oracle(0.5, 0, ElasticNet(l2=0.1)), twenty.start, 300)
    known = [0.244617892736, -0.184093745094, 1.289486985032]
    np.testing.assert_allclose(solver.solution(states[-1]).numpy(), known, rtol=0, atol=1e-6)


def test_it_solves_a_smoothed_constrained_problem(trace):
    oracle, start, least = half_spaces()
    states = trace(ProxGradient(ProxGradientConfig()), oracle, start, 400)
    assert states[-1].safeguard.accepted.value - least < 1e-9
    assert entry().calls_per_step(ProxGradientConfig(), oracle) == {42}


def test_without_a_step_size_it_is_derived_from_the_curvature(synthetic):
    data = synthetic(40, 4, 0)
    state = ProxGradient(ProxGradientConfig()).init(data.start, data.oracle(1.0, 0), SingleProcess())
    assert state.safeguard.step_size == pytest.approx(1.0 / data.numpy().curvature(np.zeros(4), 1.0), rel=0.05)


def test_a_step_size_must_be_positive():
    with pytest.raises(SettingError, match=r"ProxGradientConfig\.step_size"):
        ProxGradientConfig(step_size=-1.0)

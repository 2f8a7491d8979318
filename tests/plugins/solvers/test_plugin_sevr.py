"""SEVR against a plain numpy loop, its counts, and the certified optimum of a Wasserstein problem."""

import numpy as np
import pytest
import torch
from saddle_samples import TRANSPORT_OPTIMUM, NumpyTransport, run_in_parts, saddle_oracle, transport, weighted

from drobench.errors import SettingError
from drobench.objective.ambiguity_sets import KLPenalty
from drobench.objective.forms import MinMax
from drobench_plugins.solvers.sevr import Sevr, SevrConfig, entry


def numpy_sevr(problem, step_size, batch, lengths, seed):
    generator, u, path = np.random.default_rng(seed), problem.start(), []
    everything = np.arange(problem.m)
    for length in lengths:
        anchor, full = u, problem.operator(u, everything)
        for _ in range(length):
            chosen = everything if batch >= problem.m else generator.choice(problem.m, batch, False, shuffle=False)
            half = problem.project(u - step_size * full)
            noise = problem.operator(half, chosen) - problem.operator(anchor, chosen)
            u = problem.project(u - step_size * (full + noise))
            path.append(u)
    return path


@pytest.mark.parametrize("batch", [1, 6, 20])
def test_the_iterates_are_those_of_a_plain_loop(twenty, trace, batch):
    _, oracle, start = saddle_oracle(transport(twenty), twenty, 9)
    expected = numpy_sevr(NumpyTransport(twenty.numpy().signed), 0.7, batch, (3, 6, 12), seed=9)
    states = trace(Sevr(SevrConfig(step_size=0.7, batch=batch, first_epoch=3)), oracle, start, 21)
    for state, u in zip(states[1:], expected, strict=True):
        np.testing.assert_allclose(state.joint.numpy(), u, rtol=0, atol=1e-12)
    assert oracle.counters.sample_calls == 3 * 20 + 21 * 2 * batch
    assert oracle.counters.projections == 2 * 21


def test_epochs_grow_up_to_the_longest(twenty, trace):
    _, oracle, start = saddle_oracle(transport(twenty), twenty, 0)
    config = SevrConfig(first_epoch=2, growth=3.0, longest_epoch=10, batch=1)
    solver = Sevr(config)
    assert [solver._length(epochs) for epochs in range(5)] == [2, 6, 10, 10, 10]
    states = trace(solver, oracle, start, 30)
    assert [state.epochs for state in states[1:]] == [1] * 2 + [2] * 6 + [3] * 10 + [4] * 10 + [5] * 2


def test_at_a_fixed_point_there_is_no_noise(twenty, trace):
    # Where the snapshot is a solution, every draw leaves it there: what variance reduction is for.
    form = weighted(twenty, KLPenalty(0.5))
    best, _ = twenty.numpy().optimum(0.5, 0.1)
    losses = torch.from_numpy(twenty.numpy().linearize(best)[0])
    solution = torch.cat([torch.from_numpy(best), form.ambiguity.weights(losses)])
    _, oracle, _ = saddle_oracle(form, twenty, 0)
    states = trace(Sevr(SevrConfig(batch=1, step_size=0.5)), oracle, solution, 50)
    torch.testing.assert_close(states[-1].joint, solution, rtol=0, atol=1e-6)


@pytest.mark.convergence
def test_reaches_the_optimum_of_wasserstein_regression(twenty, trace):
    form = transport(twenty)
    route, oracle, start = saddle_oracle(form, twenty, 0)
    solver = Sevr(SevrConfig(step_size=0.3, batch=4))
    state = trace(solver, oracle, start, 1250)[-1]
    assert oracle.passes < 520
    assert 0 <= float(form.value(route.recover(solver.solution(state)))) - TRANSPORT_OPTIMUM < 1e-3


def test_several_processes_take_the_steps_of_one(twenty, trace):
    form = weighted(twenty, KLPenalty(0.5))
    solver = Sevr(SevrConfig(batch=6))
    _, oracle, start = saddle_oracle(form, twenty, 3)
    alone = trace(solver, oracle, start, 12)[-1]
    ends = run_in_parts(solver, form, twenty, 2, 12)
    for state, _ in ends:
        torch.testing.assert_close(state.joint, alone.joint, rtol=0, atol=1e-13)
    assert sum(part.counters.sample_calls for _, part in ends) == oracle.counters.sample_calls


def test_entry_and_settings():
    found = entry()
    assert (found.name, found.accepts, found.reconstructed) == ("sevr", (MinMax,), True)
    for name in ("step_size", "batch", "first_epoch", "growth", "longest_epoch"):
        with pytest.raises(SettingError, match=rf"SevrConfig\.{name} must be a finite number above 0"):
            SevrConfig(**{name: 0})

"""SERR against a plain numpy loop, its counts, and the certified optimum of a Wasserstein problem."""

import numpy as np
import pytest
import torch
from saddle_samples import TRANSPORT_OPTIMUM, NumpyTransport, run_in_parts, saddle_oracle, transport, weighted

from drobench.errors import SettingError
from drobench.objective.ambiguity_sets import Chi2Ball, KLPenalty
from drobench.objective.forms import MinMax
from drobench_plugins.solvers.serr import Serr, SerrConfig, entry


def numpy_serr(problem, step_size, batch, epochs, seed):
    generator, u, path = np.random.default_rng(seed), problem.start(), []
    for _ in range(epochs):
        order = generator.permutation(problem.m)
        for first in range(0, problem.m, batch):
            chosen = order[first : first + batch]
            eta = step_size * len(chosen) / batch
            half = problem.project(u - eta * problem.operator(u, chosen))
            u = problem.project(u - eta * problem.operator(half, chosen))
            path.append(u)
    return path


@pytest.mark.parametrize("batch", [1, 4, 6, 20, 50])
def test_the_iterates_are_those_of_a_plain_loop(twenty, trace, batch):
    _, oracle, start = saddle_oracle(transport(twenty), twenty, 9)
    expected = numpy_serr(NumpyTransport(twenty.numpy().signed), 0.7, min(batch, 20), 6, seed=9)
    states = trace(Serr(SerrConfig(step_size=0.7, batch=batch)), oracle, start, len(expected))
    for state, u in zip(states[1:], expected, strict=True):
        np.testing.assert_allclose(state.joint.numpy(), u, rtol=0, atol=1e-12)
    # Six epochs, two points a row; two projections a step.
    assert oracle.counters.sample_calls == 6 * 2 * 20
    assert oracle.counters.projections == 2 * len(expected)


def test_every_epoch_sees_every_row_once(twenty, trace):
    _, oracle, start = saddle_oracle(transport(twenty), twenty, 0)
    states = trace(Serr(SerrConfig(batch=6)), oracle, start, 8)
    assert [state.position for state in states[1:]] == [6, 12, 18, 20] * 2
    assert sorted(states[4].order.tolist()) == list(range(20))
    assert states[4].order.tolist() != states[5].order.tolist()


def test_steps_on_weights_are_measured_in_their_own_size(twenty, trace):
    # Weights on m samples are about 1/m: in the variables m q the step is the same as on the parameters.
    form = weighted(twenty, Chi2Ball(0.3))
    _, oracle, start = saddle_oracle(form, twenty, 0)
    after = trace(Serr(SerrConfig(step_size=0.2, batch=20)), oracle, start, 1)[-1].joint
    losses, gradients = twenty.numpy().linearize(np.zeros(3))
    half_x = -0.2 * gradients.mean(axis=0)
    half_q = np.full(20, 1 / 20) + 0.2 / 400 * (losses - losses.mean())
    losses, gradients = twenty.numpy().linearize(half_x)
    np.testing.assert_allclose(after[:3], -0.2 * (half_q @ gradients + 0.1 * half_x), rtol=0, atol=1e-12)
    np.testing.assert_allclose(after[3:], 1 / 20 + 0.2 / 400 * (losses - losses.mean()), rtol=0, atol=1e-12)


@pytest.mark.convergence
def test_reaches_the_optimum_of_wasserstein_regression(twenty, trace):
    form = transport(twenty)
    route, oracle, start = saddle_oracle(form, twenty, 0)
    solver = Serr(SerrConfig(step_size=0.3, batch=4))
    state = trace(solver, oracle, start, 1250)[-1]
    assert oracle.passes == 500
    assert 0 <= float(form.value(route.recover(solver.solution(state)))) - TRANSPORT_OPTIMUM < 1e-3
    assert float(form.value(twenty.start)) - TRANSPORT_OPTIMUM > 0.1


def test_the_average_is_over_the_later_steps(twenty, trace):
    _, oracle, start = saddle_oracle(weighted(twenty, KLPenalty(0.5)), twenty, 0)
    solver = Serr(SerrConfig())
    states = trace(solver, oracle, start, 40)
    assert solver.average(states[0]) is None
    assert torch.equal(solver.solution(states[0]), start)
    for count, first in ((1, 1), (2, 2), (3, 2), (4, 3), (7, 3), (8, 5), (16, 9), (31, 9), (32, 17), (40, 17)):
        mean = torch.stack([state.joint for state in states[first : count + 1]]).mean(dim=0)
        torch.testing.assert_close(solver.average(states[count]), mean, rtol=0, atol=1e-12)
    assert torch.equal(Serr(SerrConfig(output="last")).solution(states[-1]), states[-1].joint)


@pytest.mark.parametrize("parts", [2, 3])
def test_several_processes_take_the_steps_of_one(twenty, trace, parts):
    form = weighted(twenty, KLPenalty(0.5))
    solver = Serr(SerrConfig(batch=6))
    _, oracle, start = saddle_oracle(form, twenty, 3)
    alone = trace(solver, oracle, start, 12)[-1]
    ends = run_in_parts(solver, form, twenty, parts, 12)
    for state, _ in ends:
        torch.testing.assert_close(state.joint, alone.joint, rtol=0, atol=1e-13)
    assert sum(part.counters.sample_calls for _, part in ends) == oracle.counters.sample_calls
    assert sum(part.counters.projections for _, part in ends) == oracle.counters.projections


def test_entry_and_settings():
    found = entry()
    assert (found.name, found.accepts, found.reconstructed) == ("serr", (MinMax,), False)
    for name in ("step_size", "batch"):
        with pytest.raises(SettingError, match=rf"SerrConfig\.{name} must be a finite number above 0"):
            SerrConfig(**{name: 0})
    with pytest.raises(SettingError, match=r"SerrConfig\.output must be one of average, last"):
        SerrConfig(output="best")

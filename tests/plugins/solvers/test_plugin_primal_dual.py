"""The primal-dual method against plain numpy loops in both geometries, its counts, and certified optima."""

import numpy as np
import pytest
import torch
from saddle_samples import NumpyTransport, run_in_parts, saddle_oracle, transport, weighted

from drobench.errors import DrobenchError, SettingError
from drobench.objective.ambiguity_sets import Chi2Ball, KLPenalty
from drobench.objective.forms import MinMax
from drobench.reformulation.saddle import project_weights
from drobench.registry import NeedsNotMet, check_requirements
from drobench_plugins.solvers.primal_dual import PrimalDual, PrimalDualConfig, entry

SETTINGS = {"step_size": 0.7, "adversary_step": 0.4, "delay": 10, "batch": 6}


def numpy_primal_dual(problem, weights_step, steps, seed, delay=10):
    """Return the iterates; `weights_step` moves the weights by estimated losses and a step in units of 1/m."""
    generator = np.random.default_rng(seed)
    x, q, path = np.zeros(problem.n), np.full(problem.m, 1 / problem.m), []
    for k in range(1, steps + 1):
        chosen = generator.choice(problem.m, 6, replace=False, shuffle=False)
        losses, gradients = problem.linearize(x, chosen)
        decay = (1 + (k - 1) / delay) ** -0.5
        estimate = np.zeros(problem.m)
        estimate[chosen] = problem.m / 6 * losses
        gradient = problem.m / 6 * (q[chosen] @ gradients) + 0.1 * x
        x = x - 0.7 * decay * gradient
        q = weights_step(q, estimate, 0.4 * 6 * decay)
        path.append(np.concatenate([x, q]))
    return path


def entropic(gamma):
    def step(q, losses, step_size):
        eta = step_size / len(q)
        powers = np.exp((np.log(q) + eta * losses - eta * gamma * np.log(len(q))) / (1 + eta * gamma))
        return powers / powers.sum()

    return step


def euclidean(ambiguity):
    def step(q, losses, step_size):
        moved = torch.from_numpy(q + step_size / len(q) ** 2 * losses)
        return project_weights(ambiguity, moved).numpy()

    return step


@pytest.mark.parametrize("gamma", [0.05, 0.5])
def test_under_a_kl_penalty_weights_move_by_factors(twenty, trace, gamma):
    _, oracle, start = saddle_oracle(weighted(twenty, KLPenalty(gamma)), twenty, 4)
    states = trace(PrimalDual(PrimalDualConfig(**SETTINGS)), oracle, start, 100)
    expected = numpy_primal_dual(twenty.numpy(), entropic(gamma), 100, seed=4)
    for state, u in zip(states[1:], expected, strict=True):
        np.testing.assert_allclose(state.joint.numpy(), u, rtol=0, atol=1e-10)
    assert oracle.counters.sample_calls == 600
    assert oracle.counters.projections == 100


def test_on_a_chi_square_ball_weights_are_projected(twenty, trace):
    ambiguity = Chi2Ball(0.3)
    _, oracle, start = saddle_oracle(weighted(twenty, ambiguity), twenty, 4)
    states = trace(PrimalDual(PrimalDualConfig(**SETTINGS)), oracle, start, 60)
    expected = numpy_primal_dual(twenty.numpy(), euclidean(ambiguity), 60, seed=4)
    for state, u in zip(states[1:], expected, strict=True):
        np.testing.assert_allclose(state.joint.numpy(), u, rtol=0, atol=1e-10)


def test_the_entropic_step_solves_its_own_small_problem(twenty):
    # Against the definition, by the slope of what is maximised: constant over the coordinates, as on a simplex.
    gamma, form = 0.3, weighted(twenty, KLPenalty(0.3))
    _, oracle, start = saddle_oracle(form, twenty, 0)
    old = torch.softmax(torch.linspace(-1, 2, 20, dtype=torch.float64), 0)
    joint = torch.cat([start[:3] + 0.2, old])
    operator = oracle.operator(joint, oracle.draw())
    new = oracle.mirror_step(joint, operator, 0.5, 20 * 0.8)[3:]
    losses = form.losses.values(joint[:3])
    slope = losses - gamma * (1 + (20 * new).log()) - (1 + (new / old).log()) / 0.8
    torch.testing.assert_close(slope, slope.mean().expand(20), rtol=0, atol=1e-10)
    assert float(new.sum()) == pytest.approx(1.0, abs=1e-14)


def test_weights_that_have_vanished_do_no_harm(twenty):
    _, oracle, start = saddle_oracle(weighted(twenty, KLPenalty(0.3)), twenty, 0)
    joint = torch.cat([start[:3], torch.eye(20, dtype=torch.float64)[0]])
    operator = oracle.operator(joint, oracle.draw())
    assert oracle.mirror_step(joint, operator, 0.5, 1.0).isfinite().all()


def test_on_a_transport_problem_both_players_move_in_straight_lines(twenty, trace):
    problem = NumpyTransport(twenty.numpy().signed)
    _, oracle, start = saddle_oracle(transport(twenty), twenty, 0)
    after = trace(PrimalDual(PrimalDualConfig(step_size=0.3, adversary_step=0.2, batch=20)), oracle, start, 1)[-1]
    steps = np.concatenate([np.full(4, 0.3), np.full(20, 0.2 * 20)])
    expected = problem.project(problem.start() - steps * problem.operator(problem.start(), np.arange(20)))
    np.testing.assert_allclose(after.joint.numpy(), expected, rtol=0, atol=1e-13)


@pytest.mark.convergence
def test_reaches_the_optimum_under_a_kl_penalty(twenty, trace):
    form = weighted(twenty, KLPenalty(0.5))
    _, best = twenty.numpy().optimum(0.5, 0.1)
    route, oracle, start = saddle_oracle(form, twenty, 0)
    solver = PrimalDual(PrimalDualConfig(batch=2))
    state = trace(solver, oracle, start, 600)[-1]
    assert oracle.passes == 60
    # Four thousandths after sixty passes are what such a method is known to reach.
    assert 0 <= float(form.value(route.recover(solver.solution(state)))) - best < 4e-3
    assert float(form.value(twenty.start)) - best > 0.15


def test_several_processes_take_the_steps_of_one(twenty, trace):
    form = weighted(twenty, KLPenalty(0.5))
    solver = PrimalDual(PrimalDualConfig(**SETTINGS))
    _, oracle, start = saddle_oracle(form, twenty, 3)
    alone = trace(solver, oracle, start, 12)[-1]
    for state, _ in run_in_parts(solver, form, twenty, 2, 12):
        torch.testing.assert_close(state.joint, alone.joint, rtol=0, atol=1e-13)


def test_a_form_without_a_geometry_of_its_own_says_so():
    class Plain(MinMax):
        def start(self, point):
            return point

        def operator(self, joint, rows):
            return joint

        def project(self, joint):
            return joint

    with pytest.raises(DrobenchError, match=r"Plain has no step of its own geometry; use a solver"):
        Plain().mirror_step(torch.zeros(1), torch.zeros(1), 1.0, 1.0)
    with pytest.raises(NeedsNotMet, match=r"'primal_dual' requires .* as a Plain, .*: mirror_step, that is, "):
        check_requirements(entry(), Plain())
    assert Plain().scales(torch.zeros(2)).tolist() == [1.0, 1.0]


def test_entry_and_settings():
    found = entry()
    assert (found.name, found.accepts, found.reconstructed) == ("primal_dual", (MinMax,), False)
    for name in ("step_size", "adversary_step", "delay", "batch"):
        with pytest.raises(SettingError, match=rf"PrimalDualConfig\.{name} must be a finite number above 0"):
            PrimalDualConfig(**{name: 0})

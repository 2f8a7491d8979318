"""FullTouch, LightTouch and MidTouch: against plain loops, exact counts of checks, and the known optimum."""

import numpy as np
import pytest
from constrained_samples import run
from quadratic_samples import Quadratic

from drobench.errors import SettingError
from drobench.objective.forms import Constrained
from drobench.solver import SingleProcess
from drobench_plugins.solvers import fulltouch, lighttouch, midtouch
from drobench_plugins.solvers.fulltouch import FullTouch, FullTouchConfig
from drobench_plugins.solvers.lighttouch import LightTouch, LightTouchConfig
from drobench_plugins.solvers.midtouch import MidTouch, MidTouchConfig

ALPHA, STEP, ADVERSARY, DELAY = 1.7, 0.2, 0.3, 5
SETTINGS = {"step_size": STEP, "delay": DELAY, "batch": 7, "penalty": ALPHA}


def decay(k):
    return 1 / (1 + (k - 1) / DELAY)


class Game:
    """The three methods as plain loops, with the draws in the order in which they are made."""

    def __init__(self, problem, seed):
        self.problem, self.generator = problem, np.random.default_rng(seed)
        self.total = len(problem.bounds)
        self.x = problem.start.numpy()
        self.p = np.full(self.total, 1 / self.total)

    def gradient(self):
        chosen = self.generator.choice(40, 7, replace=False, shuffle=False)
        return self.problem.gradient(self.x, chosen)

    def full(self, k):
        gradient, values = self.gradient(), self.problem.violations(self.x)
        worst = values.argmax()
        self.x = self.x - STEP * decay(k) * (gradient + ALPHA * (values[worst] > 0) * self.problem.normals[worst])

    def light(self, k, choose, seen):
        """Take a step; `choose` draws constraints, and their weight in the estimate around `seen`."""
        gradient, values = self.gradient(), self.problem.violations(self.x)
        i = int(np.searchsorted(self.p.cumsum(), self.generator.random() * self.p.sum(), side="right"))
        gradient = gradient + ALPHA * (values[i] > 0) * self.problem.normals[i]
        drawn, weight = choose(self.generator)
        estimate = seen.copy()
        estimate[drawn] += weight * (np.maximum(values[drawn], 0) - seen[drawn])
        powers = self.p * np.exp(ADVERSARY * decay(k) * ALPHA * estimate)
        self.x, self.p = self.x - STEP * decay(k) * gradient, powers / powers.sum()
        return drawn, np.maximum(values[drawn], 0)


def test_fulltouch_takes_the_steps_of_a_plain_loop():
    problem = Quadratic()
    oracle, game = problem.oracle(4), Game(problem, 4)
    for k, state in enumerate(run(FullTouch(FullTouchConfig(**SETTINGS)), oracle, problem.start, 40)[1:], start=1):
        game.full(k)
        np.testing.assert_allclose(state.point.numpy(), game.x, rtol=0, atol=1e-12)
    assert (oracle.counters.sample_calls, oracle.counters.constraint_checks) == (40 * 7, 40 * 12)


def test_lighttouch_takes_the_steps_of_a_plain_loop():
    problem = Quadratic()
    oracle, game = problem.oracle(4), Game(problem, 4)
    states = run(LightTouch(LightTouchConfig(**SETTINGS, adversary_step=ADVERSARY)), oracle, problem.start, 60)
    seen = np.maximum(problem.violations(game.x), 0)
    np.testing.assert_allclose(states[0].seen, seen, rtol=0, atol=1e-14)
    for k, state in enumerate(states[1:], start=1):
        drawn, found = game.light(k, lambda generator: ([int(generator.integers(12))], 12), seen)
        seen[drawn] = found
        np.testing.assert_allclose(state.point.numpy(), game.x, rtol=0, atol=1e-11)
        np.testing.assert_allclose(state.probabilities.numpy(), game.p, rtol=0, atol=1e-11)
        np.testing.assert_allclose(state.seen.numpy(), seen, rtol=0, atol=1e-11)
    assert game.p.max() > 0.2
    assert (oracle.counters.sample_calls, oracle.counters.constraint_checks) == (60 * 7, 12 + 60 * 2)


@pytest.mark.parametrize("size", [1, 3, 50])
def test_midtouch_takes_the_steps_of_a_plain_loop(size):
    problem = Quadratic()
    oracle, game = problem.oracle(4), Game(problem, 4)
    config = MidTouchConfig(**SETTINGS, adversary_step=ADVERSARY, full_steps=10, constraint_batch=size)
    states = run(MidTouch(config), oracle, problem.start, 40)
    path = []
    for k in range(1, 11):
        game.full(k)
        path.append(game.x)
        np.testing.assert_allclose(states[k].point.numpy(), game.x, rtol=0, atol=1e-12)
    # Of ten iterates the mean is that of the last six, from the fifth on, weighted by their numbers.
    game.x = np.average(path[4:], axis=0, weights=range(5, 11))
    anchored, drawn = np.maximum(problem.violations(game.x), 0), min(size, 12)
    for k in range(11, 41):
        game.light(k + 10, lambda generator: (generator.choice(12, drawn, False, shuffle=False), 12 / drawn), anchored)
        np.testing.assert_allclose(states[k].point.numpy(), game.x, rtol=0, atol=1e-11)
        np.testing.assert_allclose(states[k].probabilities.numpy(), game.p, rtol=0, atol=1e-11)
    assert oracle.counters.constraint_checks == 10 * 12 + 12 + 30 * (1 + drawn)


def test_the_estimate_of_all_violations_is_unbiased():
    # Over the uniform choice of j, whatever was seen before.
    seen, values = np.array([0.3, 0.0, 0.1, 0.7]), np.array([0.0, 0.2, 0.5, 0.7])
    estimates = np.stack([seen + 4 * (values[j] - seen[j]) * (np.arange(4) == j) for j in range(4)])
    np.testing.assert_allclose(estimates.mean(axis=0), values, rtol=0, atol=1e-15)
    problem = Quadratic()
    state = run(LightTouch(LightTouchConfig(**SETTINGS)), problem.oracle(), problem.start, 30)[-1]
    exact = np.maximum(problem.violations(state.point.numpy()), 0)
    logarithms = np.log(state.probabilities.numpy())
    step = 0.1 * decay(31) * ALPHA
    moves = []
    for number in range(12):
        oracle = problem.oracle(5)
        # The generator hands out each constraint in turn; the rest of the step does not move the probabilities.
        oracle.generator = Rigged(number)
        after = LightTouch(LightTouchConfig(**SETTINGS)).step(state, oracle, SingleProcess())
        change = np.log(after.probabilities.numpy()) - logarithms
        moves.append(change - change[(number + 1) % 12] + step * state.seen.numpy()[(number + 1) % 12])
    np.testing.assert_allclose(np.mean(moves, axis=0), step * exact, rtol=0, atol=1e-10)


class Rigged(np.random.Generator):
    """Numpy's generator, but for the uniform choice of a constraint."""

    def __init__(self, number):
        super().__init__(np.random.PCG64(0))
        self.number = number

    def integers(self, *_sizes, **_how):
        return self.number


@pytest.mark.convergence
@pytest.mark.parametrize(
    ("solver", "steps", "goal"),
    [
        (FullTouch(FullTouchConfig(batch=8)), 1500, 2e-2),
        (LightTouch(LightTouchConfig(batch=8)), 1500, 2e-2),
        (MidTouch(MidTouchConfig(batch=8)), 1500, 2e-2),
    ],
    ids=["fulltouch", "lighttouch", "midtouch"],
)
def test_reaches_the_known_optimum_after_the_projection(solver, steps, goal):
    problem = Quadratic(constraints=40)
    oracle = problem.oracle()
    state = run(solver, oracle, problem.start, steps)[-1]
    assert 0 <= problem.projected_gap(solver.solution(state)) < goal
    assert problem.projected_gap(problem.start) > 0.1
    assert oracle.counters.projections == 0


def test_entries_and_settings():
    for module, name in ((fulltouch, "fulltouch"), (lighttouch, "lighttouch"), (midtouch, "midtouch")):
        found = module.entry()
        assert (found.name, found.accepts, found.reconstructed) == (name, (Constrained,), True)
        assert bool(found.one_process) == (name != "fulltouch")
    for config, names in (
        (FullTouchConfig, ("penalty", "step_size")),
        (LightTouchConfig, ("adversary_step", "penalty")),
        (MidTouchConfig, ("full_steps", "constraint_batch", "adversary_step")),
    ):
        for name in names:
            with pytest.raises(SettingError, match=rf"Config\.{name} must be a finite number above 0"):
                config(**{name: 0})

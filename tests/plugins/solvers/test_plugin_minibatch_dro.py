"""Mini-batch DRO against a plain loop; what its estimators are on average, by enumeration."""

import itertools

import numpy as np
import pytest
import torch
from composite_samples import KINDS, composite_sample, half_spaces
from scipy.optimize import minimize
from scipy.special import logsumexp

from drobench.errors import SettingError
from drobench.objective.oracles.composite import CompositeOracle
from drobench.objective.regularizers import ElasticNet
from drobench.objective.sampling import Rows
from drobench.solver import SingleProcess
from drobench_plugins.solvers.minibatch_dro import MinibatchDro, MinibatchDroConfig, entry, levels_of


@pytest.mark.parametrize("kind", KINDS)
def test_the_iterates_are_those_of_a_plain_loop(synthetic, trace, kind):
    sample = composite_sample(kind, synthetic(60, 4, 0))
    oracle = sample.oracle(5)
    states = trace(MinibatchDro(MinibatchDroConfig(step_size=0.3, batch=6, delay=3)), oracle, sample.start, 40)
    generator, x, visited = np.random.default_rng(5), sample.start.numpy(), []
    for k, state in enumerate(states[1:], start=1):
        a = 0.3 * (1 + (k - 1) / 3) ** -0.5
        x = sample.prox(x - a * sample.direction(sample.terms(x, sample.draw(generator, 6)).mean()), a)
        visited.append(x)
        np.testing.assert_allclose(state.point.numpy(), x, rtol=0, atol=1e-12)
    np.testing.assert_allclose(states[-1].mean.numpy(), np.mean(visited, axis=0), rtol=0, atol=1e-12)
    assert oracle.counters.sample_calls == 40 * 6


@pytest.mark.parametrize("kind", KINDS)
def test_a_multilevel_step_is_that_of_the_formula(synthetic, trace, kind):
    sample = composite_sample(kind, synthetic(60, 4, 0))
    oracle = sample.oracle(5)
    settings = MinibatchDroConfig(estimator="multilevel", step_size=0.1, batch=3)
    states = trace(MinibatchDro(settings), oracle, sample.start, 25)
    generator, x, calls, levels = np.random.default_rng(5), sample.start.numpy(), 0, set()
    for k, state in enumerate(states[1:]):
        level = min(generator.geometric(0.5), 4)
        probability = {1: 1 / 2, 2: 1 / 4, 3: 1 / 8, 4: 1 / 8}[level]
        half = 3 * 2 ** (level - 1)
        base = generator.integers(0, 60, 3)
        first = np.append(base, generator.integers(0, 60, half - 3) if half > 3 else [])
        second = generator.integers(0, 60, half)

        def direction(*parts, x=x):
            return sample.direction(sample.terms(x, np.concatenate(parts).astype(int)).mean())

        difference = direction(first, second) - 0.5 * direction(first) - 0.5 * direction(second)
        a = 0.1 * (1 + k / 100) ** -0.5
        x = sample.prox(x - a * (direction(base) + difference / probability), a)
        np.testing.assert_allclose(state.point.numpy(), x, rtol=0, atol=1e-11)
        calls, levels = calls + 2 * half, levels | {level}
    assert oracle.counters.sample_calls == calls
    assert len(levels) >= 3
    assert entry().calls_per_step(settings, oracle) == {6, 12, 24, 48}


class Scripted(CompositeOracle):
    """Hands out given rows in their order, at a given level."""

    def prescribe(self, level, numbers):
        self.numbers = list(numbers)
        self.generator = type("Level", (), {"geometric": staticmethod(lambda _: level)})

    def draw(self, samples=None, constraints=None, *, replacement=False):
        taken, self.numbers = self.numbers[:samples], self.numbers[samples:]
        return Rows(torch.tensor(taken))


@pytest.fixture
def four(synthetic):
    data = synthetic(4, 2, 3)
    point = torch.tensor([1.5, -2.0], dtype=torch.float64)
    return data, point, Scripted(data.kl(0.3), 0, data.start)


def batch_gradient(problem, x, index, gamma):
    losses, gradients = problem.linearize(x, np.array(index))
    return np.exp(losses / gamma - logsumexp(losses / gamma)) @ gradients


def test_the_multilevel_estimator_has_the_mean_of_the_largest_batch(four):
    data, point, oracle = four
    solver = MinibatchDro(MinibatchDroConfig(estimator="multilevel", step_size=1.0, batch=1))
    assert levels_of(solver.config, oracle) == 2
    expected = np.zeros(2)
    for level in (1, 2):
        found = []
        for numbers in itertools.product(range(4), repeat=2**level):
            oracle.prescribe(level, numbers)
            found.append(solver.gradient(point, oracle, SingleProcess()).numpy())
        expected += 0.5 * np.mean(found, axis=0)  # both levels have probability one half
    problem = data.numpy()
    largest, smallest = (
        np.mean([batch_gradient(problem, point.numpy(), n, 0.3) for n in itertools.product(range(4), repeat=r)], axis=0)
        for r in (4, 1)
    )
    np.testing.assert_allclose(expected, largest, rtol=0, atol=1e-13)
    # The smallest batch alone is far from that.
    assert np.abs(largest - smallest).max() > 0.05


def test_the_batch_estimator_has_the_mean_of_its_own_batches(four):
    data, point, oracle = four
    solver, found = MinibatchDro(MinibatchDroConfig(step_size=1.0, batch=2)), []
    for numbers in itertools.combinations(range(4), 2):
        oracle.prescribe(0, numbers)
        found.append(solver.gradient(point, oracle, SingleProcess()).numpy())
    problem = data.numpy()
    pairs = [batch_gradient(problem, point.numpy(), n, 0.3) for n in itertools.combinations(range(4), 2)]
    np.testing.assert_allclose(np.mean(found, axis=0), np.mean(pairs, axis=0), rtol=0, atol=1e-13)
    assert np.abs(np.mean(found, axis=0) - batch_gradient(problem, point.numpy(), range(4), 0.3)).max() > 0.05


@pytest.mark.convergence
def test_it_ends_at_the_minimiser_of_the_expected_batch_objective(twenty, trace):
    gamma, mu, problem = 0.1, 0.1, twenty.numpy()
    pairs = np.array(list(itertools.combinations(range(20), 2)))

    def expected(x):
        losses = problem.linearize(x)[0][pairs]
        return gamma * (logsumexp(losses / gamma, axis=1) - np.log(2.0)).mean() + 0.5 * mu * x @ x

    biased = minimize(expected, np.zeros(3), method="BFGS").x
    optimum = problem.optimum(gamma, mu)[0]
    solver = MinibatchDro(MinibatchDroConfig(step_size=0.3, batch=2, delay=10, output="average"))
    states = trace(solver, twenty.oracle(gamma, 0, ElasticNet(l2=mu)), twenty.start, 5000)
    reached = solver.solution(states[-1]).numpy()
    assert np.linalg.norm(optimum - biased) > 0.3
    assert np.linalg.norm(reached - biased) < 0.1


@pytest.mark.convergence
@pytest.mark.parametrize("estimator", ["batch", "multilevel"])
def test_it_comes_near_the_optimum_of_a_constrained_problem(trace, estimator):
    oracle, start, least = half_spaces()
    settings = MinibatchDroConfig(estimator=estimator, batch=4, step_size=0.02, output="average")
    solver = MinibatchDro(settings)
    allowed, before = entry().calls_per_step(settings, oracle), 0
    state = solver.init(start, oracle, SingleProcess())
    for _ in range(1000):
        state = solver.step(state, oracle, SingleProcess())
        assert oracle.counters.oracle_calls - before in allowed
        before = oracle.counters.oracle_calls
    form = oracle.materialise()
    assert float(form.value(solver.solution(state))) - least < 0.1 * (float(form.value(start)) - least)


def test_unless_asked_the_multilevel_method_stands_for_the_mean_of_its_points(twenty, trace):
    for estimator, averaged in (("batch", False), ("multilevel", True)):
        solver = MinibatchDro(MinibatchDroConfig(estimator=estimator, step_size=0.3, batch=4))
        state = trace(solver, twenty.oracle(0.5, 0), twenty.start, 30)[-1]
        assert not torch.equal(state.mean, state.point)
        assert solver.solution(state) is (state.mean if averaged else state.point)


def test_settings_without_sense_are_refused(twenty):
    with pytest.raises(SettingError, match=r"estimator must be one of batch, multilevel"):
        MinibatchDroConfig(estimator="both")
    with pytest.raises(SettingError, match=r"levels must be at most 2 for 20 rows and batch=4"):
        levels_of(MinibatchDroConfig(estimator="multilevel", batch=4, levels=3), twenty.oracle(0.5, 0))

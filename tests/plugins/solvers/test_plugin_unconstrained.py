"""SGD, Adagrad and Adam against torch's own optimizers on the same batches."""

import numpy as np
import pytest
import torch

from drobench.objective.forms import FiniteSum
from drobench.objective.oracles.finite_sum import FiniteSumOracle
from drobench.objective.regularizers import Box, ElasticNet, NotDifferentiableError, Zero
from drobench.solver import SingleProcess
from drobench_plugins.solvers.unconstrained import Unconstrained, UnconstrainedConfig

STEPS = 60


def finite_sum(data, regularizer, seed: int = 0) -> FiniteSumOracle:
    return FiniteSumOracle(FiniteSum(data.losses, regularizer), seed, data.start)


def torch_iterates(data, make_optimizer, batch: int | None, seed: int, replacement: bool = False) -> list[torch.Tensor]:
    """Return the iterates of a torch optimizer, its gradients by autograd, on the index stream of `seed`."""
    generator = np.random.default_rng(seed)
    signed = data.rows * data.signs[:, None]
    m = signed.shape[0]
    point = torch.zeros(signed.shape[1], dtype=torch.float64, requires_grad=True)
    optimizer = make_optimizer([point])
    iterates = []
    for _ in range(STEPS):
        rows = signed
        if batch is not None and batch < m:
            index = generator.integers(0, m, batch) if replacement else generator.choice(m, batch, False, shuffle=False)
            rows = signed[torch.from_numpy(index)]
        optimizer.zero_grad()
        torch.log1p(torch.exp(-(rows @ point))).mean().backward()
        optimizer.step()
        iterates.append(point.detach().clone())
    return iterates


ADAPTIVE = [
    ({"optimizer": "adagrad"}, lambda p: torch.optim.Adagrad(p, 0.1, weight_decay=0.05)),
    (
        {"optimizer": "adagrad", "initial_accumulator": 0.1, "epsilon": 1e-3, "learning_rate": 0.3},
        lambda p: torch.optim.Adagrad(p, 0.3, weight_decay=0.05, initial_accumulator_value=0.1, eps=1e-3),
    ),
    ({"optimizer": "adam"}, lambda p: torch.optim.Adam(p, 0.1, weight_decay=0.05)),
    (
        {"optimizer": "adam", "epsilon": 1e-2, "learning_rate": 0.03},
        lambda p: torch.optim.Adam(p, 0.03, weight_decay=0.05, eps=1e-2),
    ),
]


@pytest.mark.parametrize(("batch", "replacement"), [(None, False), (8, False), (8, True), (1000, False)])
@pytest.mark.parametrize(("settings", "make_optimizer"), ADAPTIVE, ids=["adagrad", "adagrad_keras", "adam", "adam_eps"])
def test_adaptive_methods_are_those_of_torch(synthetic, trace, settings, make_optimizer, batch, replacement):
    data = synthetic(90, 4, 0)
    solver = Unconstrained(UnconstrainedConfig(**settings, batch=batch, replacement=replacement))
    states = trace(solver, finite_sum(data, ElasticNet(l2=0.05), seed=4), data.start, STEPS)
    expected = torch_iterates(data, make_optimizer, batch, seed=4, replacement=replacement)
    for state, point in zip(states[1:], expected, strict=True):
        torch.testing.assert_close(state.point, point, rtol=0, atol=1e-12)
    assert expected[-1].norm() > 0.1


@pytest.mark.parametrize("batch", [None, 8])
def test_sgd_without_regularizer_is_that_of_torch(synthetic, trace, batch):
    data = synthetic(90, 4, 0)
    solver = Unconstrained(UnconstrainedConfig(optimizer="sgd", learning_rate=0.7, batch=batch))
    states = trace(solver, finite_sum(data, Zero(), seed=4), data.start, STEPS)
    for state, point in zip(states[1:], torch_iterates(data, lambda p: torch.optim.SGD(p, 0.7), batch, 4), strict=True):
        torch.testing.assert_close(state.point, point, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("l1", "l2"), [(0.0, 0.2), (0.03, 0.0), (0.03, 0.2)])
@pytest.mark.parametrize("batch", [None, 8])
def test_sgd_with_regularizer_takes_the_proximal_step(synthetic, trace, batch, l1, l2):
    data, rate = synthetic(90, 4, 0), 0.7
    solver = Unconstrained(UnconstrainedConfig(optimizer="sgd", learning_rate=rate, batch=batch))
    states = trace(solver, finite_sum(data, ElasticNet(l1=l1, l2=l2), seed=4), data.start, STEPS)
    generator, problem, x = np.random.default_rng(4), data.numpy(), np.zeros(4)
    zeros = 0
    for state in states[1:]:
        index = slice(None) if batch is None else generator.choice(90, batch, replace=False, shuffle=False)
        v = x - rate * problem.linearize(x, index)[1].mean(axis=0)
        x = np.sign(v) * np.maximum(np.abs(v) - rate * l1, 0.0) / (1.0 + rate * l2)
        np.testing.assert_allclose(state.point.numpy(), x, rtol=0, atol=1e-12)
        zeros += int((x == 0.0).sum())
    assert (zeros > 0) == (l1 > 0)


@pytest.mark.parametrize("optimizer", ["sgd", "adagrad", "adam"])
def test_one_sample_is_enough(single, trace, optimizer):
    solver = Unconstrained(UnconstrainedConfig(optimizer=optimizer, learning_rate=0.2, batch=5))
    oracle = finite_sum(single, ElasticNet(l2=0.1))
    states = trace(solver, oracle, single.start, 2000)
    x_star, _ = single.numpy().optimum(1.0, 0.1)
    np.testing.assert_allclose(states[-1].point.numpy(), x_star, rtol=0, atol=1e-4)
    assert oracle.counters.sample_calls == 2000


@pytest.mark.parametrize(("batch", "per_step"), [(None, 90), (8, 8), (90, 90), (500, 90)])
def test_calls(synthetic, trace, batch, per_step):
    data = synthetic(90, 4, 0)
    oracle = finite_sum(data, Zero())
    trace(Unconstrained(UnconstrainedConfig(batch=batch)), oracle, data.start, 7)
    assert oracle.counters.sample_calls == oracle.counters.loss_gradients == 7 * per_step


@pytest.mark.parametrize("optimizer", ["sgd", "adagrad", "adam"])
def test_the_average_is_the_plain_mean_of_the_iterates(synthetic, trace, optimizer):
    data = synthetic(90, 4, 0)
    solver = Unconstrained(UnconstrainedConfig(optimizer=optimizer, batch=8))
    states = trace(solver, finite_sum(data, Zero()), data.start, 50)
    assert solver.average(states[0]) is None
    for k in (1, 2, 50):
        mean = torch.stack([state.point for state in states[1 : k + 1]]).mean(dim=0)
        torch.testing.assert_close(solver.average(states[k]), mean, rtol=0, atol=1e-13)
    assert solver.solution(states[-1]) is states[-1].point


def test_adagrad_starts_from_its_accumulator_and_the_others_from_zero(synthetic):
    data = synthetic(10, 3, 0)
    for optimizer, expected in (("adagrad", 0.1), ("adam", 0.0), ("sgd", 0.0)):
        solver = Unconstrained(UnconstrainedConfig(optimizer=optimizer, initial_accumulator=0.1))
        state = solver.init(data.start, finite_sum(data, Zero()), SingleProcess())
        assert torch.equal(state.second_moment, torch.full((3,), expected, dtype=torch.float64))


@pytest.mark.parametrize("optimizer", ["adagrad", "adam"])
def test_a_regularizer_without_gradient_is_refused(synthetic, trace, optimizer):
    data = synthetic(10, 3, 0)
    with pytest.raises(NotDifferentiableError, match="Box has no gradient"):
        trace(Unconstrained(UnconstrainedConfig(optimizer=optimizer)), finite_sum(data, Box(-1.0, 1.0)), data.start, 1)


def test_sgd_projects_and_counts_it(synthetic, trace):
    data = synthetic(50, 3, 0)
    oracle = finite_sum(data, Box(-0.1, 0.1))
    solver = Unconstrained(UnconstrainedConfig(optimizer="sgd", learning_rate=1.0))
    states = trace(solver, oracle, data.start, 20)
    assert oracle.counters.projections == 20
    assert states[-1].point.abs().max() == 0.1

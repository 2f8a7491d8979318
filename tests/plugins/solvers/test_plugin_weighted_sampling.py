"""Draws by the worst case in the methods that know them: plain loops with the same draws, optima, counts, processes."""

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
import torch
from composite_samples import half_spaces
from constrained_samples import Threads, assert_totals, same, through_a_file
from scipy.special import softmax

from drobench.errors import SettingError
from drobench.objective.ambiguity_sets import CVaR, KLBall, KLPenalty
from drobench.objective.composite import Composite
from drobench.objective.forms import RobustRisk
from drobench.objective.group_adversary import GroupAdversary
from drobench.objective.oracles.composite import CompositeOracle
from drobench.objective.regularizers import ElasticNet
from drobench.objective.sampling import Shard
from drobench.reformulation.reformulation import ReformulationConfig
from drobench.reformulation.routes import find_route
from drobench.solver import SingleProcess
from drobench.solver.solver import state_from_dict, state_to_dict, state_type
from drobench_plugins.solvers.civr import Civr, CivrConfig
from drobench_plugins.solvers.dist_gcivr import DistGcivrConfig
from drobench_plugins.solvers.gcivr import Gcivr
from drobench_plugins.solvers.pieces.gcivr_config import GcivrConfig
from drobench_plugins.solvers.preconditioned_gcivr import PreconditionedGcivr, PreconditionedGcivrConfig
from drobench_plugins.solvers.vrsc_pg import VrscPg, VrscPgConfig

KNOWN = [0.244617892736, -0.184093745094, 1.289486985032]
KINDS = {"gcivr": (Gcivr, GcivrConfig), "civr": (Civr, CivrConfig), "vrsc_pg": (VrscPg, VrscPgConfig)}
MU, ETA, SIZE, LENGTH = 1e-2, 0.03, 12, 7


def method(name, **settings):
    kind, config = KINDS[name]
    return kind(config(**{"sampling": "weighted", **settings}))


def preconditioned(**settings):
    return PreconditionedGcivr(PreconditionedGcivrConfig(batch=30, first_batch=20, **settings))


def draws_of(state):
    return state.draws if hasattr(state, "draws") else state.snapshot.draws


class Loop:
    """The KL risk in numpy, with the draws that a seed gives."""

    def __init__(self, data, gamma, seed):
        self.problem, self.gamma, self.generator, self.calls = data.numpy(), gamma, np.random.default_rng(seed), 0
        self.m = self.problem.m

    def terms(self, x):
        """Return `g_i` and its gradient for every row."""
        losses, gradients = self.problem.linearize(x)
        powers = np.exp(losses / self.gamma)
        return powers, (powers / self.gamma)[:, None] * gradients

    def look(self, x):
        """Return the means over all rows; from now on draws are by the worst case here."""
        self.calls += self.m
        weights = softmax(self.problem.linearize(x)[0] / self.gamma)
        self.sums = np.cumsum(0.5 / self.m + 0.5 * weights)
        return [part.mean(axis=0) for part in self.terms(x)]

    def draw(self):
        """Return what each row counts for; those that did not come count for nothing."""
        places = (np.arange(SIZE) + self.generator.random(SIZE)) / SIZE * self.sums[-1]
        times = np.bincount(np.searchsorted(self.sums, places, side="right"), minlength=self.m)
        self.calls += 2 * np.count_nonzero(times)
        return times / (SIZE * self.m * np.diff(self.sums, prepend=0.0))


@pytest.mark.parametrize("name", ["gcivr", "civr"])
def test_the_iterates_of_gcivr_are_those_of_a_plain_loop(synthetic, trace, name):
    data, gamma = synthetic(60, 4, 0), 0.2
    oracle, loop = data.oracle(gamma, 5, ElasticNet(l2=MU)), Loop(data, gamma, 5)
    solver = method(name, step_size=ETA, batch=SIZE, epoch_length=LENGTH, monotone=False)
    states = trace(solver, oracle, data.start + 0.5, 4 * LENGTH)
    previous = x = np.full(4, 0.5)
    for step, state in enumerate(states[1:]):
        if step % LENGTH == 0:
            y, z = loop.look(x)
        else:
            weights, (inner, jacobian), before = loop.draw(), loop.terms(x), loop.terms(previous)
            y, z = y + weights @ (inner - before[0]), z + weights @ (jacobian - before[1])
        previous, x = x, (x - ETA * gamma * z / y) / (1.0 + ETA * MU)
        np.testing.assert_allclose(state.point.numpy(), x, rtol=0, atol=1e-11)
    # A row that comes several times is looked at once, at two points.
    assert oracle.counters.sample_calls == loop.calls < 4 * (60 + 2 * SIZE * (LENGTH - 1))


def test_the_iterates_of_vrsc_pg_are_those_of_a_plain_loop(synthetic, trace):
    data, gamma = synthetic(60, 4, 0), 0.2
    oracle, loop = data.oracle(gamma, 5, ElasticNet(l2=MU)), Loop(data, gamma, 5)
    solver = method("vrsc_pg", step_size=ETA, batch=SIZE, epoch_length=LENGTH, monotone=False)
    states, x = trace(solver, oracle, data.start + 0.5, 4 * LENGTH), np.full(4, 0.5)
    for step, state in enumerate(states[1:]):
        if step % LENGTH == 0:
            snapshot, (full, slope) = x, loop.look(x)
            d = gamma * slope / full
        else:
            weights, (inner, jacobian), there = loop.draw(), loop.terms(x), loop.terms(snapshot)
            y = full + weights @ (inner - there[0])
            d = gamma * (slope / full + weights @ jacobian / y - weights @ there[1] / full)
        x = (x - ETA * d) / (1.0 + ETA * MU)
        np.testing.assert_allclose(state.point.numpy(), x, rtol=0, atol=1e-11)
    assert oracle.counters.sample_calls == loop.calls < 4 * (60 + 2 * SIZE * (LENGTH - 1))


@pytest.mark.convergence
@pytest.mark.parametrize("name", KINDS)
def test_they_end_at_the_known_optimum_whatever_the_seed(twenty, name):
    for seed in range(5):
        oracle, solver = twenty.oracle(0.5, seed, ElasticNet(l2=0.1)), method(name)
        state = solver.init(twenty.start, oracle, SingleProcess())
        while oracle.passes < 150:
            state = solver.step(state, oracle, SingleProcess())
        np.testing.assert_allclose(solver.solution(state).numpy(), KNOWN, rtol=0, atol=1e-5)


def passes_to(target, solver, oracle, start, value):
    """Return the passes after which what would be returned is below the target."""
    state, seen, best = solver.init(start, oracle, SingleProcess()), None, np.inf
    while best > target and oracle.passes < 100:
        state = solver.step(state, oracle, SingleProcess())
        if solver.solution(state) is not seen:
            seen = solver.solution(state)
            best = value(seen.numpy())
    return oracle.passes


@pytest.mark.convergence
@pytest.mark.parametrize("name", ["gcivr", "vrsc_pg"])
def test_where_few_rows_matter_the_median_needs_no_more_passes_than_uniform_draws(synthetic, name):
    data, gamma, mu = synthetic(1000, 8, 0), 0.05, 0.1
    problem = data.numpy()
    (_, least), (first, _) = problem.optimum(gamma, mu), problem.robust(np.zeros(8), gamma, mu)

    def passes(way, seed):
        run = method(name, sampling=way), data.oracle(gamma, seed, ElasticNet(l2=mu)), data.start
        return passes_to(least + 1e-3 * (first - least), *run, lambda x: problem.robust(x, gamma, mu)[0])

    weighted, uniform = ([passes(way, seed) for seed in range(5)] for way in ("weighted", "uniform"))
    assert np.median(weighted) <= np.median(uniform) < 100


@pytest.mark.parametrize("name", KINDS)
def test_an_epoch_that_is_undone_goes_on_with_the_draws_of_what_was_accepted(synthetic, trace, name):
    data, gamma = synthetic(200, 4, 0), 0.3
    oracle, problem, undone = data.oracle(gamma, 0, ElasticNet(l2=MU)), data.numpy(), 0
    states = trace(method(name, step_size=50.0, batch=5, epoch_length=4), oracle, data.start, 60)
    for before, state in pairwise(states[1:]):
        weights = softmax(problem.linearize(state.safeguard.accepted.point.numpy())[0] / gamma)
        expected = np.cumsum(0.5 / 200 + 0.5 * weights)
        np.testing.assert_allclose(draws_of(state).cumulative.numpy(), expected, rtol=1e-9)
        if state.safeguard.failures > before.safeguard.failures:
            undone += 1
            assert draws_of(state) is draws_of(before)
    assert undone > 0


def test_an_epoch_of_preconditioned_gcivr_that_is_undone_costs_one_look_and_keeps_metric_and_draws(synthetic):
    # So far away that losses are straight lines, and whole steps go too far.
    data = synthetic(200, 4, 0)
    oracle, solver, undone = data.oracle(0.3, 0, ElasticNet(l2=MU)), preconditioned(), 0
    state = solver.init(data.start + 10.0, oracle, SingleProcess())
    for _ in range(60):
        before, calls, rows = state, oracle.counters.sample_calls, oracle.counters.hessian_rows
        state = solver.step(state, oracle, SingleProcess())
        if state.safeguard.failures > before.safeguard.failures and before.position == 0:
            undone += 1
            assert state.metric is before.metric
            assert state.draws is before.draws
            assert oracle.counters.sample_calls == calls + 200
            assert oracle.counters.hessian_rows == rows
    assert undone > 1


@pytest.mark.parametrize("ambiguity", [KLBall(0.1), CVaR(0.7)], ids=repr)
@pytest.mark.parametrize("name", KINDS)
def test_with_dual_variables_no_output_is_above_the_start(synthetic, trace, name, ambiguity):
    data = synthetic(200, 4, 0)
    form = RobustRisk(data.losses, ambiguity, ElasticNet(l2=MU))
    route, solver = find_route(form, (Composite,), ReformulationConfig()), method(name)
    oracle = CompositeOracle(route.stages[0], 0, data.start)
    states = trace(solver, oracle, route.lift(data.start), 150)
    values = [float(form.value(route.recover(solver.solution(state)))) for state in states]
    assert draws_of(states[-1]) is not None
    assert max(np.diff(values)) <= 1e-9
    assert values[-1] < values[0] - 1e-2


@pytest.mark.parametrize("name", KINDS)
def test_what_has_no_weights_of_rows_is_refused_with_the_remedy(synthetic, name):
    data = synthetic(30, 3, 0)
    groups = RobustRisk(data.losses, GroupAdversary(torch.arange(30) % 3, KLPenalty(0.3)), ElasticNet())
    by_groups = find_route(groups, (Composite,), ReformulationConfig()).form
    for oracle in (half_spaces()[0], CompositeOracle(by_groups, 0, data.start)):
        with pytest.raises(SettingError, match=rf"{name}: solver\.sampling=weighted .*solver\.sampling=uniform"):
            method(name).init(data.start, oracle, SingleProcess())


def test_other_words_and_clients_are_refused_by_name():
    for name in KINDS:
        with pytest.raises(SettingError, match="sampling must be one of uniform, weighted; found 'foo'"):
            method(name, sampling="foo")
    with pytest.raises(SettingError, match=r"DistGcivrConfig\.sampling must be one of local, global; found 'weighted'"):
        DistGcivrConfig(sampling="weighted")


RUNS = {
    **{name: partial(method, name, step_size=0.3, batch=10, epoch_length=5) for name in KINDS},
    "preconditioned_gcivr": preconditioned,
    "preconditioned_gcivr by a sketch": partial(preconditioned, largest_matrix=3, rank=2),
}


@pytest.mark.parametrize("name", RUNS)
def test_two_processes_go_where_one_goes(synthetic, trace, name):
    data, solver = synthetic(300, 4, 0), RUNS[name]()
    board, barrier = [None, None], threading.Barrier(2, timeout=20)

    def part(rank):
        oracle = CompositeOracle(data.kl(0.3), 0, data.start, Shard(rank, 2))
        state = solver.init(data.start, oracle, communicator := Threads(rank, board, barrier))
        for _ in range(12):
            state = solver.step(state, oracle, communicator)
        return state, oracle

    with ThreadPoolExecutor(2) as pool:
        (one, first), (other, second) = pool.map(part, range(2))
    alone = data.oracle(0.3, 0)
    state = trace(solver, alone, data.start, 12)[-1]
    assert same(one, other)
    assert_totals([first, second])
    assert first.totals == alone.counters
    assert first.state_dict()["generator"] == alone.state_dict()["generator"]
    torch.testing.assert_close(one.point, state.point, rtol=0, atol=1e-9)
    torch.testing.assert_close(draws_of(one).cumulative, draws_of(state).cumulative, rtol=1e-7, atol=0)


@pytest.mark.parametrize("steps", [1, 4, 5, 7])
@pytest.mark.parametrize("name", RUNS)
def test_a_run_that_is_read_back_goes_on_bit_for_bit(synthetic, trace, name, steps):
    """Before anything was measured, between looks at some rows, and in the middle of an epoch."""
    data, solver = synthetic(300, 4, 0), RUNS[name]()
    oracle = data.oracle(0.3, 0)
    state = trace(solver, oracle, data.start, steps)[-1]
    kept = through_a_file([state_to_dict(state), oracle.state_dict()])
    again, fresh = state_from_dict(state_type(solver), kept[0]), data.oracle(0.3, 9)
    fresh.load_state_dict(kept[1])
    for _ in range(8):
        state, again = (solver.step(now, of, SingleProcess()) for now, of in ((state, oracle), (again, fresh)))
        assert same(state, again)
    assert oracle.counters == fresh.counters

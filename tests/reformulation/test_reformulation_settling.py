"""Dual variables at their best, and the objective of the problem itself from the same look at the rows."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from drobench.objective.ambiguity_sets import Chi2Ball, Chi2Penalty, CVaR, KLBall
from drobench.objective.composite import Composite
from drobench.objective.forms import RobustRisk
from drobench.objective.losses import LinearMarginLosses, LogisticLoss, Margin
from drobench.objective.oracles.composite import CompositeOracle
from drobench.objective.regularizers import ElasticNet
from drobench.objective.sampling import Shard
from drobench.objective.wasserstein import WassersteinRisk
from drobench.reformulation.reformulation import ReformulationConfig
from drobench.reformulation.routes import find_route
from drobench.solver import SingleProcess
from drobench.solver.estimators import settle

SETS = [KLBall(0.1), KLBall(50.0), Chi2Ball(0.5), Chi2Penalty(0.7), CVaR(0.1), CVaR(0.5), CVaR(1.0)]


@pytest.fixture
def problem(losses):
    def build(ambiguity):
        form = RobustRisk(losses, ambiguity, ElasticNet(l2=0.01))
        route = find_route(form, (Composite,), ReformulationConfig())
        return form, route

    return build


@pytest.fixture
def losses():
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(60, 4, generator=generator, dtype=torch.float64)
    signs = torch.where(rows[:, 0] + 0.5 * torch.randn(60, generator=generator) > 0.0, 1.0, -1.0).double()
    return LinearMarginLosses(rows, signs, LogisticLoss())


@pytest.mark.parametrize("ambiguity", SETS, ids=repr)
def test_the_original_is_the_worst_case(problem, ambiguity):
    form, route = problem(ambiguity)
    for stage in route.stages:
        for scale in (0.0, 1.0):
            point = scale * torch.tensor([0.9, -0.3, 0.2, 0.1], dtype=torch.float64)
            oracle = CompositeOracle(stage, 0, point)
            found = settle(oracle, SingleProcess(), route.lift(point), oracle.draw())
            assert oracle.counters.sample_calls == 60
            assert found.original == pytest.approx(float(form.value(point)), abs=1e-9)
            assert torch.equal(found.point[:4], point)
            value = float(oracle.value(found.point, *means(found)))
            assert -1e-9 <= value - found.original <= stage.smoothing_error + 1e-9


@pytest.mark.parametrize("ambiguity", SETS[:-1], ids=repr)
def test_no_other_dual_is_better(problem, ambiguity):
    _, route = problem(ambiguity)
    point = torch.tensor([0.9, -0.3, 0.2, 0.1], dtype=torch.float64)
    oracle = CompositeOracle(route.form, 0, point)
    found = settle(oracle, SingleProcess(), route.lift(point), oracle.draw())
    best = float(route.form.value(found.point))
    assert best == pytest.approx(float(oracle.value(found.point, *means(found))), abs=1e-12)
    for moved in (-0.1, -1e-3, 1e-3, 0.1):
        other = found.point.clone()
        other[-1] += moved
        assert not float(route.form.value(other)) < best - 1e-12


class Part(SingleProcess):
    """One of two processes, as a thread that meets the other in every exchange."""

    world_size = 2

    def __init__(self, rank, barrier, board):
        super().__init__()
        self.rank, self.barrier, self.board = rank, barrier, board

    def _all(self, tensors):
        self.board[self.rank] = tensors
        self.barrier.wait(10)
        everybody = [list(self.board[0]), list(self.board[1])]
        self.barrier.wait(10)
        return everybody

    def total(self, tensors):
        return [one + other for one, other in zip(*self._all(tensors), strict=True)]

    def maximum(self, tensor):
        (one,), (other,) = self._all([tensor])
        return torch.maximum(one, other)


@pytest.mark.parametrize("ambiguity", SETS[:-1], ids=repr)
def test_two_processes_settle_where_one_does(problem, ambiguity):
    _, route = problem(ambiguity)
    point = route.lift(torch.tensor([0.9, -0.3, 0.2, 0.1], dtype=torch.float64))
    barrier, board = threading.Barrier(2), [None, None]

    def part(rank):
        oracle = CompositeOracle(route.form, 0, point, Shard(rank, 2))
        found = settle(oracle, Part(rank, barrier, board), point, oracle.draw())
        return found, oracle.counters.sample_calls

    with ThreadPoolExecutor(2) as pool:
        (one, calls), (other, more) = pool.map(part, range(2))
    oracle = CompositeOracle(route.form, 0, point)
    alone = settle(oracle, SingleProcess(), point, oracle.draw())
    assert calls + more == 60
    assert torch.equal(one.point, other.point)
    assert one.original == other.original == pytest.approx(alone.original, abs=1e-12)
    torch.testing.assert_close(one.point, alone.point, rtol=0, atol=1e-7)
    torch.testing.assert_close(one.estimates.inner_value, alone.estimates.inner_value, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
def test_wasserstein_keeps_its_bound_and_knows_the_exact_risk(norm):
    generator = torch.Generator().manual_seed(1)
    rows = torch.randn(50, 3, generator=generator, dtype=torch.float64)
    form = WassersteinRisk(
        LinearMarginLosses(rows, torch.ones(50, dtype=torch.float64), Margin()), 0.05, 1.0, norm, ElasticNet(l2=0.01)
    )
    route = find_route(form, (Composite,), ReformulationConfig())
    point = torch.tensor([0.7, -0.2, 0.4], dtype=torch.float64)
    oracle = CompositeOracle(route.form, 0, point, Shard())
    lifted = route.lift(point)
    found = settle(oracle, SingleProcess(), lifted, oracle.draw())
    assert torch.equal(found.point, lifted)
    assert found.original == pytest.approx(float(form.value(point)), abs=1e-12)


def means(found):
    return found.estimates.inner_value, found.estimates.loss_value, found.estimates.shift

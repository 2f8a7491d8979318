"""Saddle problems for the tests of saddle-point solvers, and the same written once more in numpy."""

import threading
from typing import Any

import numpy as np
import torch
from constrained_samples import Threads, assert_totals
from scipy.special import expit

from drobench.objective.ambiguity_sets import AmbiguitySet
from drobench.objective.forms import MinMax, RobustRisk
from drobench.objective.losses import LinearMarginLosses, LogisticLoss, Margin
from drobench.objective.oracles.build import build_oracle
from drobench.objective.oracles.min_max import MinMaxOracle
from drobench.objective.regularizers import ElasticNet
from drobench.objective.sampling import Shard
from drobench.objective.wasserstein import WassersteinRisk
from drobench.reformulation.reformulation import ReformulationConfig
from drobench.reformulation.routes import Route, find_route
from drobench.solver import Solver

RADIUS, FLIP_COST, L2 = 0.1, 1.0, 0.1
TRANSPORT_OPTIMUM = 0.548187135  # of the twenty rows given by formulas, by an interior-point method


def transport(data, l2: float = 0.0) -> WassersteinRisk:
    """Return Wasserstein logistic regression on the rows of a fixture of this folder."""
    margins = LinearMarginLosses(data.rows, data.signs, Margin())
    return WassersteinRisk(margins, RADIUS, FLIP_COST, "l2", ElasticNet(0.0, l2))


def weighted(data, ambiguity: AmbiguitySet) -> RobustRisk:
    return RobustRisk(LinearMarginLosses(data.rows, data.signs, LogisticLoss()), ambiguity, ElasticNet(0.0, L2))


def saddle_oracle(form, data, seed: int, shard: Shard | None = None) -> tuple[Route, MinMaxOracle, torch.Tensor]:
    """Return the way to the saddle form, its oracle and the start there."""
    route = find_route(form, (MinMax,), ReformulationConfig())
    start = route.lift(data.start)
    oracle: Any = build_oracle(route.form, seed, start, shard or Shard())
    return route, oracle, start


class NumpyTransport:
    """Operator and projection of the Wasserstein saddle form, from its definition."""

    def __init__(self, signed: np.ndarray) -> None:
        self.signed = signed
        self.m, self.n = signed.shape

    def operator(self, u: np.ndarray, index: np.ndarray) -> np.ndarray:
        beta, lam, flips = u[: self.n], u[self.n], u[self.n + 1 :]
        rows, count = self.signed[index], len(index)
        t = rows @ beta
        by_beta = rows.T @ (-expit(-t) + 0.5 + 0.5 * flips[index]) / count
        by_lam = RADIUS - 0.5 * FLIP_COST - 0.5 * FLIP_COST * flips[index].mean()
        by_flips = np.zeros(self.m)
        np.add.at(by_flips, index, -(t - lam * FLIP_COST) / (2 * count))
        return np.concatenate([by_beta, [by_lam], by_flips])

    def project(self, u: np.ndarray) -> np.ndarray:
        beta, lam, flips = u[: self.n], u[self.n], u[self.n + 1 :]
        norm = np.linalg.norm(beta)
        if norm > lam:
            size = max((norm + lam) / 2, 0.0)
            beta, lam = beta * size / norm, size
        return np.concatenate([beta, [lam], np.clip(flips, -1, 1)])

    def start(self) -> np.ndarray:
        return np.concatenate([np.zeros(self.n), [1.0], -np.ones(self.m)])


def run_in_parts(solver: Solver[Any], form, data, parts: int, steps: int) -> list[tuple[Any, MinMaxOracle]]:
    """Return the last state and the oracle of each of `parts` threads that play processes."""
    board: list[Any] = [None] * parts
    barrier = threading.Barrier(parts, timeout=60)
    ends: list[Any] = [None] * parts

    def work(rank: int) -> None:
        communicator = Threads(rank, board, barrier)
        _, oracle, start = saddle_oracle(form, data, 3, Shard(rank, parts))
        state = solver.init(start, oracle, communicator)
        for _ in range(steps):
            state = solver.step(state, oracle, communicator)
        ends[rank] = state, oracle

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(parts)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert_totals([oracle for _, oracle in ends])
    return ends

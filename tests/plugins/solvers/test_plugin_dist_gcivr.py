"""DistGCIVR on one process with several clients; on several processes see tests/distributed."""

import numpy as np
import pytest
import torch
from scipy.special import expit

from drobench.errors import SettingError
from drobench.objective.oracles.composite import CompositeOracle
from drobench.objective.regularizers import ElasticNet
from drobench.solver import SingleProcess
from drobench.solver.estimators import direction, refresh
from drobench_plugins.solvers.dist_gcivr import DistGcivr, DistGcivrConfig
from drobench_plugins.solvers.gcivr import Gcivr
from drobench_plugins.solvers.pieces.gcivr_config import GcivrConfig

GAMMA, MU = 0.3, 1e-2
UNEQUAL = [6.0, 1.0, 3.0]


@pytest.fixture
def unlike(synthetic):
    """Rows sorted by how well the first column explains them, so that some clients have easy rows and others hard."""
    data = synthetic(2000, 5, 0)
    order = torch.argsort(data.signs * data.rows[:, 0], stable=True)
    return data._replace(rows=data.rows[order], signs=data.signs[order])


class Crowd(SingleProcess):
    """One process that is told it is one of several."""

    world_size = 4


def run(solver, oracle, start, passes):
    communicator = SingleProcess()
    state = solver.init(start, oracle, communicator)
    while oracle.passes < passes:
        state = solver.step(state, oracle, communicator)
    return solver.solution(state).numpy()


@pytest.mark.convergence
@pytest.mark.parametrize(
    "settings",
    [
        {"clients": 4},
        {"shards": UNEQUAL},
        {"shards": UNEQUAL, "sampling": "global"},
        {"shards": UNEQUAL, "local_batch": "paper"},
        {"shards": UNEQUAL, "replacement": True},
    ],
    ids=lambda settings: "-".join(map(str, settings)),
)
def test_unlike_clients_reach_the_certified_optimum_of_all_rows(unlike, settings):
    problem = unlike.numpy()
    _, optimum = problem.optimum(GAMMA, MU)
    at_start, _ = problem.robust(np.zeros(5), GAMMA, MU)
    oracle = unlike.oracle(GAMMA, 1, ElasticNet(l2=MU))
    point = run(DistGcivr(DistGcivrConfig(**settings)), oracle, unlike.start, 60)
    value, _ = problem.robust(point, GAMMA, MU)
    assert (value - optimum) / (at_start - optimum) < 1e-6


def test_the_outer_gradient_is_that_of_the_pooled_value(unlike):
    """Weighted by size, and with `f'` after averaging; either mistake is seen on clients like these."""
    problem, point = unlike.numpy(), np.full(5, 0.3)
    exact = problem.robust(point, GAMMA, 0.0)[1]
    solver = DistGcivr(DistGcivrConfig(shards=UNEQUAL))
    oracle = CompositeOracle(unlike.kl(GAMMA), 0, unlike.start)
    rows = solver.draw(oracle, SingleProcess(), None, None)
    found = direction(refresh(oracle, SingleProcess(), torch.from_numpy(point), rows), oracle).numpy()
    np.testing.assert_allclose(found, exact, rtol=0, atol=1e-12)

    margins = problem.signed @ point
    powers = np.exp(np.logaddexp(0.0, -margins) / GAMMA)
    slopes = powers[:, None] * -expit(-margins)[:, None] * problem.signed
    blocks = np.split(np.arange(2000), [1200, 1400])
    locally = sum(len(block) / 2000 * slopes[block].mean(axis=0) / powers[block].mean() for block in blocks)
    unweighted = np.mean([slopes[block].mean(axis=0) for block in blocks], axis=0)
    unweighted /= np.mean([powers[block].mean() for block in blocks])
    size = np.linalg.norm(exact)
    assert np.linalg.norm(locally - exact) > 0.01 * size
    assert np.linalg.norm(unweighted - exact) > 0.01 * size


def test_one_client_with_the_common_stream_is_gcivr(unlike):
    points = [
        run(solver, unlike.oracle(GAMMA, 2), unlike.start, 8)
        for solver in (Gcivr(GcivrConfig()), DistGcivr(DistGcivrConfig(sampling="global")))
    ]
    np.testing.assert_array_equal(*points)


def test_as_printed_a_step_costs_every_client_a_whole_batch(unlike):
    calls = {}
    for local_batch in ("split", "paper"):
        solver = DistGcivr(DistGcivrConfig(clients=4, local_batch=local_batch, step_size=0.1, batch=20))
        oracle, communicator = unlike.oracle(GAMMA, 0), SingleProcess()
        state = solver.step(solver.init(unlike.start, oracle, communicator), oracle, communicator)
        assert oracle.counters.sample_calls == 2000
        solver.step(state, oracle, communicator)
        calls[local_batch] = oracle.counters.sample_calls - 2000
    assert calls == {"split": 2 * 20, "paper": 2 * 20 * 4}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"clients": 0}, "clients must be a finite number above 0"),
        ({"shards": []}, "one number above 0 for each client"),
        ({"shards": [1.0, 0.0]}, "one number above 0 for each client"),
        ({"shards": [1.0, 2.0], "clients": 3}, "each of the 3 clients; found 2"),
        ({"sampling": "stratified"}, "sampling"),
        ({"local_batch": "half"}, "local_batch"),
        ({"constraint_sums": "mean"}, "constraint_sums"),
    ],
)
def test_impossible_settings_are_refused(settings, message):
    with pytest.raises(SettingError, match=message):
        DistGcivrConfig(**settings)


def test_a_process_without_a_client_is_refused(unlike):
    with pytest.raises(SettingError, match=r"2 clients for 4 processes.*solver\.clients=4.*trainer\.devices=2"):
        DistGcivr(DistGcivrConfig(clients=2)).init(unlike.start, unlike.oracle(GAMMA, 0), Crowd())


def test_sums_of_groups_are_refused_where_there_are_none(unlike):
    with pytest.raises(SettingError, match="constraint_sums=replicated"):
        DistGcivr(DistGcivrConfig(constraint_sums="pooled")).init(
            unlike.start, unlike.oracle(GAMMA, 0), SingleProcess()
        )


def test_more_clients_than_rows_are_refused(unlike):
    oracle, communicator = unlike.oracle(GAMMA, 0), SingleProcess()
    solver = DistGcivr(DistGcivrConfig(clients=2001, step_size=0.1))
    with pytest.raises(SettingError, match="client 0 of 2001 would have none of the 2000"):
        solver.step(solver.init(unlike.start, oracle, communicator), oracle, communicator)

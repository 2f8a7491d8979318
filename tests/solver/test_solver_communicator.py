"""The communicator of a single process."""

import torch

from drobench.objective.oracles.composite import CompositeOracle
from drobench.solver import Communicator, SingleProcess
from drobench.solver.curvature import largest_curvature
from drobench.solver.estimators import advance, refresh


def test_a_single_process_hands_back_what_it_is_given():
    communicator = SingleProcess()
    first, second = torch.tensor([1.0, 2.0]), torch.tensor(3.0)
    total = communicator.total((first, second))
    assert isinstance(total, list)
    assert total[0] is first
    assert total[1] is second
    assert communicator.maximum(first) is first


def test_a_single_process_is_rank_zero_of_one():
    communicator = SingleProcess()
    assert isinstance(communicator, Communicator)
    assert (communicator.rank, communicator.world_size) == (0, 1)


def test_a_single_process_exchanges_nothing(communicator, signed_rows, logistic):
    start = torch.zeros(3, dtype=torch.float64)
    oracle = CompositeOracle(logistic(signed_rows(30, 3, 0), 0.5), 0, start)
    estimates = refresh(oracle, communicator, start, oracle.draw())
    advance(estimates, oracle, communicator, start + 0.1, start, oracle.draw(5))
    largest_curvature(oracle, communicator, start)
    communicator.total([start])
    communicator.maximum(start)
    assert (communicator.rounds, communicator.bytes) == (0, 0)

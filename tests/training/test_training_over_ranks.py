"""What the ranks of a run tell each other, and what they find out by it."""

import pytest
import torch
from torch.distributed import ReduceOp

from drobench.errors import DrobenchError
from drobench.objective.oracle import Counters, Oracle
from drobench.objective.sampling import Shard
from drobench.training.over_ranks import check_totals, longest, settle, summed

CPU = torch.device("cpu")


@pytest.fixture
def other(monkeypatch):
    """Be one of two ranks, of which the other has sent the numbers in this list."""
    sent = []

    def all_reduce(tensor, op=ReduceOp.SUM):
        theirs = torch.tensor(sent.pop(0), dtype=tensor.dtype)
        assert theirs.shape == tensor.shape
        tensor.copy_({ReduceOp.SUM: torch.add, ReduceOp.MAX: torch.maximum}[op](tensor, theirs))

    monkeypatch.setattr(torch.distributed, "all_reduce", all_reduce)
    return sent


def oracle_of(counted, taken=None):
    """Return the oracle of the first of two ranks that has counted so much, and takes the run to have."""
    oracle = Oracle(None, 0, torch.zeros(1), Shard(0, 2))
    state = {**oracle.state_dict(), "counters": counted.as_dict()}
    del state["totals"]
    oracle.load_state_dict(state if taken is None else {**state, "totals": taken.as_dict()})
    return oracle


def test_the_longest_time_is_that_of_the_slowest(other):
    other.extend([[0.25], [0.75]])
    assert [longest(0.5, CPU), longest(0.5, CPU)] == [0.5, 0.75]


def test_sums_are_exact_beyond_what_a_float_holds(other):
    other.append([1, 2**53])
    assert summed([3, 1], CPU) == [4, 2**53 + 1]


def test_totals_that_nobody_knows_are_the_sums_of_all_counters(other):
    oracle = oracle_of(Counters(1, 2, 3, 4, 5, 6, 7, 8))
    assert not oracle.settled
    other.append([10, 20, 30, 40, 50, 60, 70, 80])
    settle(oracle)
    assert oracle.settled
    assert oracle.totals == Counters(11, 22, 33, 44, 55, 66, 77, 88)
    assert oracle.counters == Counters(1, 2, 3, 4, 5, 6, 7, 8)


def test_totals_that_agree_with_the_sums_pass():
    oracle = oracle_of(Counters(sample_calls=3), Counters(sample_calls=7, projections=1))
    check_totals(Counters(sample_calls=7, projections=1).as_dict(), oracle)


def test_each_total_that_does_not_is_named():
    oracle = oracle_of(Counters(sample_calls=3), Counters(sample_calls=7, projections=1, inner_values=4))
    with pytest.raises(DrobenchError, match=r"counters of 2 processes do not add up") as raised:
        check_totals(Counters(sample_calls=6, projections=1, inner_values=5).as_dict(), oracle)
    assert "sample_calls 6, but 7 were expected; inner_values 5, but 4 were expected" in str(raised.value)
    assert "projections" not in str(raised.value)
    assert "`drawn_samples`" in str(raised.value)

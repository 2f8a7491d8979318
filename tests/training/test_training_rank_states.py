"""Continuing a run with another number of processes: what is summed, what is common, and what is refused."""

import copy
import math

import pytest
import torch

from drobench.errors import DrobenchError
from drobench.training.rank_states import redistribute

PASSES = 14


def by_a_smaller_budget(bench, solver, folder):
    bench.train(bench.task(solver, passes=6), folder, checkpoint_steps=1)


def forge_two_ranks(file, change=lambda rank: None):
    """Make a checkpoint look as if two processes had written it; `change` what the second has saved."""
    forged = torch.load(file, weights_only=True)
    forged["drobench"]["ranks"] *= 2
    forged["drobench"]["ranks"][1] = copy.deepcopy(forged["drobench"]["ranks"][1])
    change(forged["drobench"]["ranks"][1])
    torch.save(forged, file)
    return forged["drobench"]


def test_a_checkpoint_of_several_processes_with_one_state_is_continued_by_one(bench, tmp_path):
    straight = bench.train(bench.task(bench.solver("scgd"), steps=300), tmp_path / "straight")
    bench.train(bench.task(bench.solver("scgd"), steps=100), tmp_path, checkpoint_steps=1)

    def change(rank):
        rank["communication"] = (5, 70)
        rank["seconds"] = {"solver": 1000.0, "evaluation": 2000.0}

    saved = forge_two_ranks(tmp_path / "last.ckpt", change)
    begun = saved["ranks"][0]["oracle"]["counters"]
    found = bench.train(bench.task(bench.solver("scgd"), steps=300), tmp_path)
    assert torch.equal(found.final["last"][1], straight.final["last"][1])
    # Both have counted the same calls; the time is that of the slower one.
    for name, total in straight.oracle.counters.as_dict().items():
        assert found.oracle.counters.as_dict()[name] == total + begun[name]
    assert found.communicator.bytes == saved["ranks"][0]["communication"][1] + 70
    assert found.clock.seconds["solver"] > 1000.0
    assert found.clock.seconds["evaluation"] > 2000.0


def other_point(rank):
    rank["state"]["point"][0] += 1e-12


def other_draws(rank):
    words = rank["oracle"]["generator"]["state"]
    words["state"] = str(int(words["state"]) ^ 1)


@pytest.mark.parametrize("change", [other_point, other_draws])
def test_a_checkpoint_of_processes_with_states_of_their_own_is_refused_by_another_number(bench, tmp_path, change):
    by_a_smaller_budget(bench, bench.solver("scgd"), tmp_path)
    forge_two_ranks(tmp_path / "last.ckpt", change)
    with pytest.raises(DrobenchError, match=r"written by 2 processes.* continued by 1.*trainer\.devices=2.*delete"):
        bench.train(bench.task(bench.solver("scgd"), passes=PASSES), tmp_path)


def test_counts_go_to_the_first_of_more_processes_and_times_to_all():
    def rank(calls):
        return {
            "state": {"point": torch.tensor([1.0, math.nan]), "deep": {"step": 3, "rate": math.nan}},
            "oracle": {"counters": {"sample_calls": calls, "projections": 1}, "generator": {"state": "7"}},
            "communication": (5, 10 * calls),
            "seconds": {"solver": 2.0 * calls, "evaluation": 1.0},
        }

    found = redistribute([rank(3), rank(4)], 3)
    assert [part["oracle"]["counters"]["sample_calls"] for part in found] == [7, 0, 0]
    assert [part["oracle"]["counters"]["projections"] for part in found] == [2, 0, 0]
    assert [part["communication"] for part in found] == [(5, 70), (5, 0), (5, 0)]
    assert [part["seconds"] for part in found] == [{"solver": 8.0, "evaluation": 1.0}] * 3
    for part in found:
        torch.testing.assert_close(part["state"], rank(3)["state"], rtol=0, atol=0, equal_nan=True)
        assert part["oracle"]["generator"] == {"state": "7"}

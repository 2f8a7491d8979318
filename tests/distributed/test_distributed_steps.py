"""A budget of calls or passes ends a run in the same step on any number of processes, and all looks on the way too."""

import pytest
import steps_program
import torch

pytestmark = pytest.mark.process

EVERYWHERE = ("clients", "gcivr")
# Compared with one process.
SAME = (
    *EVERYWHERE,
    "clients_saved",
    "clients_continued",
    "gcivr_calls",
    "groups_pooled",
    "multiplier_model",
    "stages",
    "own_rows",
)
EXCHANGED = ("communication_rounds", "communication_bytes")


def from_before(file, target):
    """Write a checkpoint as it was before oracles counted for the whole run."""
    saved = torch.load(file, weights_only=True)
    for rank in saved["drobench"]["ranks"]:
        del rank["oracle"]["totals"]
    target.parent.mkdir(parents=True)
    torch.save(saved, target)


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """What one process ends with, and the folder it worked in."""
    folder = tmp_path_factory.mktemp("one")
    found = {name: steps_program.compute(name, folder / name, 1) for name in SAME if name != "clients_continued"}
    return {**found, "clients_continued": found["clients"]}, folder


@pytest.fixture(scope="module")
def by_two(start_steps, alone, tmp_path_factory):
    """What two ranks end with, and the folder they worked in."""
    folder = tmp_path_factory.mktemp("two")
    from_before(alone[1] / "clients_saved" / "last.ckpt", folder / "clients_continued" / "last.ckpt")
    return start_steps(2, folder, *SAME, "wrong_rows", "slow"), folder


def assert_same_steps(ranks, alone, name):
    expected = alone[name]
    for rank in ranks:
        found = rank[name]
        assert found["curve"] == ranks[0][name]["curve"]
        for key in ("steps", "reason", "entered"):
            assert found[key] == expected[key]
        assert len(found["curve"]) == len(expected["curve"])
        counted = ("step", "passes", "oracle_calls", *(key for key in expected["counts"] if key not in EXCHANGED))
        for row, other in zip(found["curve"], expected["curve"], strict=True):
            assert {key: row[key] for key in counted} == {key: other[key] for key in counted}
            assert row["objective"] == pytest.approx(other["objective"], rel=0, abs=1e-9)
        for key in expected["counts"]:
            assert key in EXCHANGED or found["counts"][key] == expected["counts"][key]
        torch.testing.assert_close(found["point"], expected["point"], rtol=0, atol=1e-8)


@pytest.mark.parametrize("name", SAME)
def test_two_processes_end_and_look_in_the_steps_of_one(by_two, alone, name):
    assert_same_steps(by_two[0], alone[0], name)


@pytest.mark.parametrize("processes", [3, 4])
def test_more_processes_do_too(start_steps, alone, tmp_path, processes):
    ranks = start_steps(processes, tmp_path, *EVERYWHERE)
    for name in EVERYWHERE:
        assert_same_steps(ranks, alone[0], name)


def test_the_runs_are_such_that_a_guess_would_be_found_out(alone):
    """None ends in a step that a round number would hit, and those with looks have many."""
    assert all(alone[0][name]["steps"] % 100 for name in SAME)
    assert len(alone[0]["clients"]["curve"]) >= 8
    assert len(set(alone[0]["stages"]["entered"])) == 2


def test_checkpoints_are_of_the_same_step_with_the_same_contents(by_two, alone):
    one, two = (
        torch.load(folder / "clients_saved" / "last.ckpt", weights_only=True)["drobench"]
        for folder in (alone[1], by_two[1])
    )
    assert one["steps"] == two["steps"] == 37 * ((alone[0]["clients_saved"]["steps"] - 1) // 37)
    for key in ("stage", "evaluations_due", "lost_in_a_row", "quiet_steps"):
        assert one[key] == two[key]
    assert [row["step"] for row in one["curve"]] == [row["step"] for row in two["curve"]]
    (mine,) = one["ranks"]
    for rank in two["ranks"]:
        assert rank["oracle"]["generator"] == mine["oracle"]["generator"]
        assert rank["oracle"]["totals"] == mine["oracle"]["counters"]


def test_what_began_before_there_were_totals_is_continued(by_two):
    saved = torch.load(by_two[1] / "clients_continued" / "last.ckpt", weights_only=True)["drobench"]
    assert "totals" not in saved["ranks"][0]["oracle"]
    kept = len(saved["curve"])
    assert kept > 3
    assert by_two[0][0]["clients_continued"]["curve"][:kept] == saved["curve"]


def test_ranks_that_take_their_rows_for_more_than_they_are_are_told_so(by_two):
    for rank in by_two[0]:
        assert "counters of 2 processes do not add up" in rank["wrong_rows"]["error"]
        assert "`drawn_samples`" in rank["wrong_rows"]["error"]


def test_a_limit_of_time_is_met_by_all_ranks_together_and_in_time(by_two):
    """Twelve steps of 0.05 s on rank 1, and of nothing on rank 0."""
    first, second = (rank["slow"] for rank in by_two[0])
    assert first["steps"] == second["steps"]
    assert first["reason"] == second["reason"]
    assert first["reason"].startswith("seconds")
    assert first["seconds"] < 0.6 <= second["seconds"]
    # A chunk is at most a quarter of a second at the pace before it.
    assert second["steps"] <= 18

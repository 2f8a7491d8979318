"""Lightning on two processes: counts, decisions and checkpoints."""

import itertools

import pytest
import rank_program
import torch

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def trained(folder_of_two):
    """What each of two ranks ended with, and the folder they worked in."""
    return [torch.load(folder_of_two / f"lightning{rank}.pt", weights_only=True) for rank in range(2)], folder_of_two


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    return rank_program.train(tmp_path_factory.mktemp("alone"), processes=1, steps=300)


def untimed(curve):
    return [{key: row[key] for key in row if key != "solver_seconds"} for row in curve]


@pytest.mark.parametrize("name", ["straight", "interrupted", "resumed", "passes"])
def test_both_ranks_tell_the_same_story(trained, name):
    first, second = (rank[name] for rank in trained[0])
    assert first["curve"] == second["curve"]
    assert first["counts"] == second["counts"]
    for key in ("steps", "reason", "global_step"):
        assert first[key] == second[key]
    assert first["points"].keys() == second["points"].keys() == {"last", "average", "best_feasible"}
    for iterate, point in first["points"].items():
        assert torch.equal(point, second["points"][iterate])


def test_two_processes_end_where_one_does_and_count_the_same_calls(trained, alone):
    first, second = (rank["straight"] for rank in trained[0])
    assert first["steps"] == alone["steps"] == 300
    assert first["reason"] == "steps 300 of 300"
    for iterate in ("last", "average"):
        # The step size is derived from differences of gradients, which turn rounding errors into 1e-10.
        torch.testing.assert_close(first["points"][iterate], alone["points"][iterate], rtol=0, atol=1e-8)
    assert first["local_calls"] + second["local_calls"] == alone["counts"]["sample_calls"]
    for name in ("sample_calls", "inner_values", "inner_jacobians", "loss_gradients", "constraint_checks"):
        assert first["counts"][name] == alone["counts"][name]


def test_the_last_recovery_counts_as_one_projection_on_any_number_of_processes(trained, alone):
    assert alone["counts"]["projections"] == 1
    assert trained[0][0]["straight"]["counts"]["projections"] == 1


def test_a_projection_that_every_rank_makes_for_itself_is_still_one(trained, tmp_path):
    alone = rank_program.train(tmp_path, processes=1, case="wasserstein", steps=20)
    assert alone["counts"]["projections"] == 20 + 1
    assert trained[0][0]["projecting"]["counts"]["projections"] == 20 + 1


def test_rounds_are_common_and_bytes_are_the_sum_over_ranks(trained, alone):
    """Rounds as in the plain runs: two for each gradient of the measured curvature and each refresh, one for a step."""
    counts = trained[0][0]["straight"]["counts"]
    assert counts["communication_rounds"] > 300
    # A refresh carries 7 numbers in two rounds, any other step 7 in one.
    exchanges, rest = divmod(counts["communication_bytes"], 2 * 8 * 7)
    assert rest == 0
    assert 300 <= exchanges < counts["communication_rounds"]
    assert alone["counts"]["communication_rounds"] == alone["counts"]["communication_bytes"] == 0


def test_a_run_of_two_processes_resumes_bit_for_bit(trained):
    ranks, folder = trained
    saved = torch.load(folder / "resumed" / "last.ckpt", weights_only=True)["drobench"]
    assert len(saved["ranks"]) == 2
    assert 0 < saved["steps"] < 140
    for rank, found in enumerate(ranks):
        straight, resumed = found["straight"], found["resumed"]
        for iterate, point in straight["points"].items():
            assert torch.equal(resumed["points"][iterate], point)
        for key in ("counts", "oracle", "local_calls", "steps"):
            assert resumed[key] == straight[key]
        assert untimed(resumed["curve"]) == untimed(straight["curve"])
        # The first part was taken over from the file and not computed again: its times are those of the file.
        assert resumed["curve"][: len(saved["curve"])] == saved["curve"]
        assert len(saved["curve"]) > 3
        mine = saved["ranks"][rank]["oracle"]
        assert 0 < mine["counters"]["sample_calls"] < found["straight"]["local_calls"]


def test_each_rank_has_its_own_part_in_the_checkpoint(trained):
    first, second = torch.load(trained[1] / "resumed" / "last.ckpt", weights_only=True)["drobench"]["ranks"]
    assert first["oracle"]["generator"] == second["oracle"]["generator"]
    assert first["seconds"] != second["seconds"]
    assert torch.equal(first["state"]["point"], second["state"]["point"])


def agree(found, straight):
    """Rounding differs with the number of processes, and the derived step size lets 1e-16 grow to 1e-10."""
    assert found["steps"] == straight["steps"] == 300
    for iterate in ("last", "average"):
        torch.testing.assert_close(found["points"][iterate], straight["points"][iterate], rtol=0, atol=1e-8)
    names = ("sample_calls", "inner_values", "inner_jacobians", "loss_gradients", "constraint_checks", "projections")
    assert {name: found["counts"][name] for name in names} == {name: straight["counts"][name] for name in names}
    for name in ("step", "passes", "oracle_calls", "sample_calls"):
        assert [row[name] for row in found["curve"]] == [row[name] for row in straight["curve"]]


def test_what_two_processes_have_begun_one_can_end(trained, tmp_path):
    ranks, folder = trained
    (tmp_path / "last.ckpt").write_bytes((folder / "resumed" / "last.ckpt").read_bytes())
    saved = torch.load(tmp_path / "last.ckpt", weights_only=True)["drobench"]
    found = rank_program.train(tmp_path, processes=1, steps=300)
    agree(found, ranks[0]["straight"])
    # Taken over from the file: the rows of the curve with their times, and what was exchanged until then.
    assert found["curve"][: len(saved["curve"])] == saved["curve"]
    assert found["counts"]["communication_rounds"] == saved["ranks"][0]["communication"][0]
    assert found["counts"]["communication_bytes"] == sum(rank["communication"][1] for rank in saved["ranks"])


def test_what_one_process_has_begun_two_can_end(trained, alone):
    ranks, folder = trained
    saved = torch.load(folder / "grown" / "last.ckpt", weights_only=True)["drobench"]
    assert len(saved["ranks"]) == 1
    for rank in ranks:
        agree(rank["grown"], alone)
        assert rank["grown"]["curve"][: len(saved["curve"])] == saved["curve"]
    begun = saved["ranks"][0]["oracle"]["counters"]["sample_calls"]
    first, second = (rank["grown"]["local_calls"] for rank in ranks)
    # The second rank counts its share of the rest alone.
    assert first > begun
    assert second == pytest.approx(first - begun, rel=0.1)


def test_the_time_of_a_run_is_that_of_its_slowest_rank(trained):
    """Five steps of 0.1 s on rank 1, and of nothing on rank 0, none of which waits for the other."""
    first, second = (rank["resting"] for rank in trained[0])
    assert second["rank"] >= 0.5
    assert first["rank"] < second["rank"]
    assert first["run"] == second["run"] >= 0.5


def test_passes_end_a_run_of_two_processes_and_are_looked_at_on_the_way(trained):
    found = trained[0][0]["passes"]
    assert found["reason"].startswith("passes")
    passes = [row["passes"] for row in found["curve"]]
    assert passes == sorted(set(passes))
    # One mark after the other, each passed by less than a refresh and a step.
    assert len(passes) >= 5
    assert 6.0 <= passes[-1] < 7.1
    assert all(later - sooner < 2.1 for sooner, later in itertools.pairwise(passes))
    assert passes[-1] == found["counts"]["sample_calls"] / rank_program.ROWS

"""Joining folders of results."""

import dataclasses

import polars
import pytest
from result_samples import CONFIG, SOLUTION, make_curve, make_record

from drobench.results.merge import merge, summary
from drobench.results.record import Iterate, Status
from drobench.results.store import ResultStore


def finished(seed=0, objective=1.0):
    return make_record(seed=seed, iterate=Iterate(objective=objective, feasible=True, step=3))


def filled(root, *records):
    store = ResultStore(root)
    store.prepare()
    for record in records:
        store.write(record, make_curve([2.0, 1.0]), SOLUTION, CONFIG)
    return store


@pytest.fixture
def here(tmp_path):
    return filled(tmp_path / "here", finished(0))


def test_new_runs_are_added_with_everything_they_have(here, tmp_path):
    there = filled(tmp_path / "there", finished(0), finished(1))
    outcome = merge(there, here)
    added = finished(1).run_id
    assert (outcome.added, outcome.known) == ([added], [finished(0).run_id])
    assert here.read(added) == there.read(added)
    assert here.curve(added).equals(there.curve(added))
    assert here.config(added) == CONFIG
    assert set(here.solution(added)) == set(SOLUTION)
    assert summary([outcome]) == "1 runs added, 0 failed ones replaced, 1 there already"


def test_merging_again_changes_nothing(here, tmp_path):
    there = filled(tmp_path / "there", finished(0), finished(1))
    merge(there, here)
    outcome = merge(there, here)
    assert not outcome.added
    assert not outcome.conflicts
    assert len(outcome.known) == 2


def test_a_failure_is_replaced_by_a_result_and_never_the_other_way(tmp_path):
    good = finished()
    bad = dataclasses.replace(good, status=Status.FAILED, reason="no memory", iterates=type(good.iterates)())
    failed, worked = filled(tmp_path / "failed", bad), filled(tmp_path / "worked", good)
    assert merge(failed, worked).known == [good.run_id]
    assert worked.read(good.run_id).status is Status.BUDGET_SPENT
    assert merge(worked, failed).replaced == [good.run_id]
    assert failed.read(good.run_id).status is Status.BUDGET_SPENT


def test_results_that_differ_are_reported_and_the_one_here_is_kept(here, tmp_path):
    other = dataclasses.replace(finished(0), iterates=finished(0, objective=7.0).iterates)
    (conflict,) = merge(filled(tmp_path / "there", other), here).conflicts
    assert "the objective is 1.0 here and 7.0 there; the one here was kept" in conflict
    assert here.read(finished(0).run_id).iterates.last.objective == 1.0


def test_rounding_is_no_difference(here, tmp_path):
    other = dataclasses.replace(finished(0), iterates=finished(0, objective=1.0 + 1e-9).iterates)
    assert not merge(filled(tmp_path / "there", other), here).conflicts


def test_what_cannot_be_read_is_reported_and_the_rest_joined(here, tmp_path):
    there = filled(tmp_path / "there", finished(1), finished(2))
    (there.root / finished(1).run_id / "record.json").write_text("{")
    outcome = merge(there, here)
    assert outcome.added == [finished(2).run_id]
    assert len(outcome.troubles) == 1


def test_an_empty_source_adds_nothing(here, tmp_path):
    outcome = merge(ResultStore(tmp_path / "nothing"), here)
    assert (outcome.added, outcome.known, outcome.troubles) == ([], [], [])
    assert isinstance(here.curve(finished(0).run_id), polars.DataFrame)


def test_a_run_that_somebody_else_holds_is_one_trouble_and_the_others_are_merged(here, tmp_path):
    there = filled(tmp_path / "there", finished(1), finished(2), finished(3))
    with ResultStore(here.root).lock(finished(2).run_id):
        outcome = merge(there, here)
    assert set(outcome.added) == {finished(1).run_id, finished(3).run_id}
    (trouble,) = outcome.troubles
    assert finished(2).short_id in trouble
    assert "another process" in trouble


@pytest.mark.parametrize("file", ["curve.parquet", "solution.safetensors", "config.yaml"])
def test_a_run_whose_files_turn_out_damaged_is_one_trouble(here, tmp_path, file):
    there = filled(tmp_path / "there", finished(1), finished(2))
    broken = there.root / finished(1).run_id / file
    if file == "curve.parquet":
        polars.DataFrame({"objective": ["text"]}).write_parquet(broken)
    elif file == "solution.safetensors":
        head = b'{"last":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}}'
        broken.write_bytes(len(head).to_bytes(8, "little") + head + bytes(4))
    else:
        broken.write_bytes(b"\xff")
    outcome = merge(there, here)
    assert outcome.added == [finished(2).run_id]
    (trouble,) = outcome.troubles
    assert file in trouble
    assert not (here.root / finished(1).run_id).exists()


def test_a_run_that_a_later_version_has_stored_here_stays_and_the_others_are_merged(here, tmp_path):
    there = filled(tmp_path / "there", finished(0), finished(1))
    newer = here.root / finished(0).run_id / "record.json"
    newer.write_text('{"schema": 99}')
    outcome = merge(there, here)
    assert outcome.added == [finished(1).run_id]
    assert len(outcome.troubles) == 1
    assert newer.read_text() == '{"schema": 99}'

"""The numbers of a row, against values found by hand."""

import dataclasses
import math

import polars
import pytest
from comparison_samples import order

from drobench.results.comparison.targets import Target
from drobench.results.record import Iterate, Iterates, Status


def test_known_answers_for_one_solver(runs):
    # Starts two above the optimum; ends .002, .004 and .2 above it. The target of 1% is a gap of .02.
    runs.add("fast", 0, [3.0, 1.5, 1.002], seconds=4.0)
    runs.add("fast", 1, [3.0, 1.004, 1.004], seconds=6.0)
    runs.add("fast", 2, [3.0, 2.0, 1.2], seconds=5.0)
    (row,) = runs.board(target_gap=0.01).rows
    assert (row.rank, row.solver, row.runs, row.failed, row.seeds) == (1, "fast", 3, 0, (0, 1, 2))
    assert row.run_ids == tuple(record.run_id for record in runs.records)
    assert row.median("objective") == 1.004
    assert (row.metrics["objective"].low, row.metrics["objective"].high) == (1.002, 1.2)
    assert row.median("gap") == pytest.approx(0.004)
    assert row.median("relative_gap") == pytest.approx(0.002)
    assert row.median("train_error") == 0.25
    assert row.median("test_error") == 1.004
    assert row.metrics["train_max_violation"] is None
    # Reached after 2 passes, after 1, and never.
    assert row.median("passes_to_target") == 2.0
    assert row.median("seconds_to_target") == pytest.approx(0.2)
    assert row.metrics["passes_to_target"].low == 1.0
    assert row.metrics["passes_to_target"].high == math.inf
    assert row.median("seconds_total") == 5.0
    assert row.feasible_share == 1.0


@pytest.mark.parametrize("status", [Status.FAILED, Status.DIVERGED, Status.NON_FINITE])
def test_failed_runs_never_disappear(runs, status):
    runs.add("fragile", 0, [2.0, 1.0])
    runs.add("fragile", 1, [], status=status, curve=polars.DataFrame(), optimum=None)
    runs.add("solid", 0, [2.0, 1.2])
    runs.add("solid", 1, [2.0, 1.2])
    board = runs.board()
    fragile = next(row for row in board.rows if row.solver == "fragile")
    assert (fragile.runs, fragile.failed, fragile.feasible_share) == (2, 1, 0.5)
    assert fragile.median("objective") == math.inf
    assert fragile.median("passes_to_target") == math.inf
    assert fragile.mean_place == 1.5


def test_a_diverged_run_has_not_reached_the_target_on_its_way(runs):
    runs.add("wild", 0, [2.0, 1.0, 50.0], status=Status.DIVERGED)
    row = runs.board().rows[0]
    assert row.median("passes_to_target") == math.inf
    assert row.median("relative_gap") == math.inf


def test_several_targets_are_reported_and_the_first_decides(runs):
    runs.add("a", 0, [3.0, 1.5, 1.02, 1.0])
    runs.add("b", 0, [3.0, 1.01, 1.01])
    targets = [Target.of(gap=0.001), Target.of(gap=0.1), Target.of(train_error=0.3)]
    board = runs.board(targets=targets)
    a, b = board.rows
    assert (a.solver, b.solver) == ("a", "b")
    assert [found.costs["passes"].median for found in a.reached[:2]] == [3.0, 2.0]
    assert [found.costs["passes"].median for found in b.reached[:2]] == [math.inf, 1.0]
    assert [found.share for found in b.reached] == [0.0, 1.0, 0.0]
    assert a.reached[2].costs["passes"] is None, "no curve here has a training error"
    assert order(runs.board(targets=targets[1:])) == ["b", "a"]


def test_iterates_are_compared_apart(runs):
    record = runs.add("a", 0, [2.0, 1.5])
    runs.add("b", 0, [2.0, 1.0])
    average = Iterate(objective=1.25, gap=0.25, feasible=True, step=10)
    runs.records[0] = dataclasses.replace(record, iterates=Iterates(last=record.iterates.last, average=average))
    board = runs.board(iterate="average")
    assert order(board) == ["a", "b"]
    assert board.rows[0].median("objective") == 1.25
    assert board.rows[0].median("relative_gap") == 0.25
    assert board.rows[0].metrics["passes_to_target"] is None
    assert board.rows[1].metrics["objective"] is None
    assert any("b: 1 of 1 complete runs have no `average` iterate" in note for note in board.notes)
    assert any("last iterate only" in note for note in board.notes)
    assert order(runs.board()) == ["b", "a"]

"""Comparing by what only the problem measures: by name, the right way round, and read from the curve."""

import csv
import dataclasses
import io
import math

import pytest
from comparison_samples import order, ranks
from result_samples import make_curve

from drobench.errors import SettingError
from drobench.results.comparison.targets import Target, is_met
from drobench.results.metric import Metric, stored_metrics
from drobench.results.record import Iterate, Status
from drobench.results.report.formats import format_csv, format_markdown

SEEDS = range(8)
DESCRIBED = stored_metrics([Metric("r2", better="more"), Metric("tail_loss_95", unit="loss")])


def add(runs, solver, r2, tail, **settings):
    """Runs of one solver whose metrics differ a little from seed to seed, and whose objective does not."""
    settings = {"metrics": DESCRIBED} | settings
    for seed in SEEDS:
        extra = {"test_r2": r2 + 1e-3 * seed, "test_tail_loss_95": tail + 1e-3 * seed, "train_r2": 0.5}
        curve = make_curve(
            [3.0, 2.0, 2.0],
            1.0,
            test_r2=[0.0, extra["test_r2"] / 2, extra["test_r2"]],
            test_tail_loss_95=[9.0, tail, tail],
        )
        point = Iterate(objective=2.0, gap=1.0, feasible=True, step=20, extra=extra)
        runs.add(solver, seed, [3.0, 2.0], curve=curve, iterate=point, **settings)


@pytest.fixture
def compared(runs):
    add(runs, "exact", 0.9, 2.0)
    add(runs, "rough", 0.4, 1.0)
    return runs


def test_by_follows_the_direction_of_the_metric(compared):
    assert order(compared.board(by="test_r2")) == ["exact", "rough"]
    assert ranks(compared.board(by="test_r2")) == {"exact": 1, "rough": 2}
    assert order(compared.board(by="test_tail_loss_95")) == ["rough", "exact"]


def test_without_a_description_less_is_better(runs):
    add(runs, "exact", 0.9, 2.0, metrics={})
    add(runs, "rough", 0.4, 1.0, metrics={})
    assert order(runs.board(by="test_r2")) == ["rough", "exact"]


def test_some_runs_that_describe_speak_for_those_of_older_versions(runs):
    add(runs, "exact", 0.9, 2.0, metrics={})
    add(runs, "rough", 0.4, 1.0)
    assert order(runs.board(by="test_r2")) == ["exact", "rough"]


def test_runs_that_contradict_each_other_are_refused_only_where_it_matters(runs):
    add(runs, "exact", 0.9, 2.0)
    add(runs, "rough", 0.4, 1.0, metrics=stored_metrics([Metric("r2")]))
    with pytest.raises(SettingError, match="do not agree whether less or more of 'test_r2'"):
        runs.board(by="test_r2")
    assert order(runs.board(by="objective")) == ["exact", "rough"]


def test_the_difference_and_the_failures_have_the_right_sign(compared):
    for seed in SEEDS:
        compared.add("failing", seed, [3.0], status=Status.FAILED, reason="boom", metrics=DESCRIBED, iterate=None)
    board = compared.board(by="test_r2")
    assert order(board) == ["exact", "rough", "failing"]
    found = {comparison.worse: comparison for comparison in board.comparisons if comparison.better == "exact"}
    assert found["rough"].effect.median == pytest.approx(-0.5)
    assert found["rough"].quantity == "test_r2"
    assert found["failing"].effect.median == -math.inf
    assert board.rows[2].metrics["test_r2"].median == -math.inf
    cells = dict(zip(board.to_table().header, board.to_table().rows[1], strict=True))
    assert cells["vs exact"] == "-0.5 test r2"
    assert "the larger test r2 if feasible" in format_markdown(compared.compare(by="test_r2"))


def test_a_target_is_read_from_the_curve_in_the_right_direction(compared):
    board = compared.board(targets=[Target.parse("test_r2=0.42")])
    costs = {row.solver: row.reached[0].costs["passes"].median for row in board.rows}
    # exact passes half of 0.9 at the first evaluation; rough is at most at 0.407.
    assert costs == {"exact": 1.0, "rough": math.inf}
    assert board.ranked_by == "gap"
    below = compared.board(targets=[Target.parse("test_tail_loss_95=1.5")])
    assert {row.solver: row.reached[0].share for row in below.rows} == {"exact": 0.0, "rough": 1.0}
    assert compared.compare(targets=[Target.parse("test_r2=0.42")]).targets[0].label == "test r2 at least 0.42"


def test_the_beginning_of_a_name_is_enough_where_it_is_the_only_one(compared):
    assert order(compared.board(by="test_tail_loss")) == ["rough", "exact"]
    assert compared.board(by="test_tail_loss").ranked_by == "test_tail_loss_95"
    found = compared.compare(targets=[Target.of(test_tail_loss=1.5)]).targets[0]
    assert found.limits == (("test_tail_loss_95", 1.5),)


@pytest.mark.parametrize("settings", [{"by": "test_r3"}, {"columns": ["test_r3"]}, {"targets": [Target.of(test_r3=1)]}])
def test_an_unknown_name_gets_a_hint_and_the_list(compared, settings):
    with pytest.raises(SettingError, match=r"Did you mean 'test_r2'\? These runs have: objective.*test_tail_loss_95"):
        compared.board(**settings)


def test_columns_are_shown_in_tables_and_files(compared):
    board = compared.board(columns=["test_r2", "test_error", "train_r2"])
    table = board.to_table()
    assert [name for name in table.header if "r2" in name] == ["test r2", "train r2"]
    assert table.rows[0][table.header.index("train r2")] == "0.5"
    found = compared.compare(columns=["test_r2"])
    (first, _) = csv.DictReader(io.StringIO(format_csv(found)))
    assert float(first["test_r2"]) == pytest.approx(found.boards[0].rows[0].metrics["test_r2"].median)


def test_what_is_no_number_counts_as_missing(runs):
    for seed in SEEDS:
        point = Iterate(objective=2.0, feasible=True, step=1, extra={"test_note": "fine", "test_flag": True})
        runs.add("alpha", seed, [2.0], iterate=point, optimum=None)
    assert runs.board(columns=["test_note", "test_flag"]).rows[0].metrics["test_note"] is None


def test_a_point_without_a_curve_meets_such_a_target_too():
    asked = Target.of(test_r2=0.5)
    point = Iterate(extra={"test_r2": 0.6})
    assert not is_met(asked, point, None)
    assert is_met(dataclasses.replace(asked, at_least=frozenset({"test_r2"})), point, None)

"""Stored runs as rows of one table."""

import dataclasses
import json

import polars
import pytest

from drobench.errors import SettingError
from drobench.results.record import Component, DatasetComponent, Iterate, Iterates, Record, Status, content_id
from drobench.results.run_table import COLUMNS, run_frame, sorted_runs


def run_of(number, gap=None, extra=None, **settings):
    last = None if gap is None else Iterate(objective=1.0, gap=gap, feasible=True, extra=extra or {})
    return Record(
        run_id=content_id({"number": number}),
        status=Status.BUDGET_SPENT,
        seed=number,
        started_at=f"2026-05-0{number + 1}T12:00:00+02:00",
        solver=Component(name="alpha", config=settings),
        problem=Component(name="robust", config={"gamma": 1.0}),
        dataset=DatasetComponent(name="tiny", config={}, sha256="a" * 64),
        model={"name": "linear"},
        budget={"passes": 1},
        trainer={},
        iterates=Iterates(last=last),
    )


def test_every_run_is_a_row_with_the_columns_that_all_tables_have():
    frame = run_frame([run_of(0, gap=0.25), run_of(1)])
    assert frame.schema == {**COLUMNS}
    assert frame["seed"].to_list() == [0, 1]
    assert frame["gap"].to_list() == [0.25, None]
    assert frame["feasible"].to_list() == [True, None]
    # In UTC, whatever zone the record was written in.
    assert str(frame["started"][0]) == "2026-05-01 10:00:00+00:00"


def test_a_table_of_nothing_has_the_same_columns():
    assert run_frame([]).schema == {**COLUMNS}


def test_settings_in_which_runs_differ_are_columns_and_others_are_none():
    runs = [
        run_of(0, step_size=1, rule="a", decay=None, batch=8, hidden=[1, 2]),
        run_of(1, step_size=0.5, rule="b", decay=0.5, batch=8, hidden=[3]),
        run_of(2, step_size=None, rule="b", decay="slow", batch=8, hidden=None),
    ]
    frame = run_frame(runs)
    assert set(frame.columns) - set(COLUMNS) == {"solver.step_size", "solver.rule", "solver.decay", "solver.hidden"}
    assert frame["solver.step_size"].to_list() == [1.0, 0.5, None]
    assert frame["solver.rule"].dtype == polars.String
    # Of several kinds: as JSON, from which each comes back as it was.
    assert [value and json.loads(value) for value in frame["solver.decay"]] == [None, 0.5, "slow"]
    assert [value and json.loads(value) for value in frame["solver.hidden"]] == [[1, 2], [3], None]


@pytest.mark.parametrize(("descending", "order"), [(False, [2, 0, 3, 1]), (True, [0, 2, 3, 1])])
def test_runs_are_sorted_by_a_column_and_those_without_it_are_last(descending, order):
    runs = [run_of(0, gap=0.5), run_of(3), run_of(2, gap=0.1), run_of(1)]
    found = sorted_runs(runs, "gap", descending=descending)
    assert [record.seed for record in found] == order


def test_metrics_of_single_problems_are_columns_too():
    runs = [run_of(0, 0.1, {"test_rmse": 2.0}), run_of(1, 0.2, {"test_r2": 0.5, "test_rmse": 1.0}), run_of(2)]
    frame = run_frame(runs)
    assert frame["test_rmse"].to_list() == [2.0, 1.0, None]
    assert frame["test_r2"].to_list() == [None, 0.5, None]
    assert [record.seed for record in sorted_runs(runs, "test_rmse")] == [1, 0, 2]
    with pytest.raises(SettingError, match="Did you mean 'test_rmse'"):
        sorted_runs(runs, "test_rsme")


def test_an_unknown_column_is_refused_with_those_there_are():
    with pytest.raises(SettingError, match=r"solver, problem.*found 'speed'"):
        sorted_runs([run_of(0)], "speed")


def test_a_sorted_run_stays_the_record_it_is():
    record = run_of(0, gap=0.5)
    assert sorted_runs([record], "started") == [dataclasses.replace(record)]

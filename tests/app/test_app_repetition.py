"""Two computations of one run, compared along the whole way."""

from dataclasses import replace

import polars
import pytest

from drobench.app.repetition import differences, refuse_more_than_there_is, why_not_repeatable
from drobench.errors import DrobenchError
from drobench.results.record import Seconds, Status
from drobench.results.store import ResultStore


@pytest.fixture
def run(finished):
    folder, runs = finished
    store, run_id = ResultStore(folder), runs["scgd"].run_id
    return store.read(run_id), store.curve(run_id)


def test_the_same_run_differs_in_nothing_but_time(run):
    record, curve = run
    slower = replace(record, seconds=Seconds(solver=99.0))
    assert differences(record, curve, slower, curve.with_columns(polars.col("solver_seconds") + 1.0)) == []


def test_every_column_of_the_curve_is_compared(run):
    record, curve = run
    for name in curve.columns:
        if name == "solver_seconds" or curve[name].null_count() == curve.height:
            continue
        change = ~polars.col(name) if curve[name].dtype == polars.Boolean else polars.col(name) + 1
        (found,) = differences(record, curve, record, curve.with_columns(change.alias(name)))
        assert found.what.startswith(f"curve: {name} at step")


def test_rounding_is_no_difference(run):
    record, curve = run
    nearly = curve.with_columns(polars.col("objective") * (1 + 1e-9))
    assert differences(record, curve, record, nearly) == []


def test_counts_status_iterates_and_data_are_compared(run):
    record, curve = run
    assert record.iterates.last is not None
    last = replace(record.iterates.last, extra=dict.fromkeys(record.iterates.last.extra, -1.0))
    other = replace(
        record,
        status=Status.CONVERGED,
        oracle=replace(record.oracle, inner_values=1),
        dataset=replace(record.dataset, sha256="0" * 64),
        iterates=replace(record.iterates, last=last, best_feasible=None),
    )
    found = {mismatch.what for mismatch in differences(record, curve, other, curve)}
    assert found >= {"status", "oracle.inner_values", "dataset.sha256", "best_feasible", "last.train_average_risk"}


def test_a_shorter_way_is_a_difference(run):
    record, curve = run
    (found,) = differences(record, curve, record, curve.head(2))
    assert (found.what, found.recomputed) == ("curve: evaluations", 2)


def test_a_failure_says_all(run):
    record, curve = run
    broken = replace(record, status=Status.FAILED, reason="it broke")
    (found,) = differences(record, curve, broken, curve.clear())
    assert str(found).endswith("'failed (it broke)'")


def test_what_depends_on_the_clock_need_not_repeat(run):
    record, _ = run
    values = {"evaluation": {"every_seconds": None}}
    assert why_not_repeatable(record, values) is None
    assert "by the clock" in why_not_repeatable(record, {"evaluation": {"every_seconds": 1.0}})
    assert "in seconds" in why_not_repeatable(replace(record, budget={"seconds": 1.0}), values)
    assert "skipped" in why_not_repeatable(replace(record, status=Status.SKIPPED), values)


def test_strangers_do_not_decide_how_many_processes_are_started():
    refuse_more_than_there_is({"trainer": {"devices": 2, "nodes": 1, "threads": 1}})
    with pytest.raises(DrobenchError, match="asks for 4000 processes or threads"):
        refuse_more_than_there_is({"trainer": {"devices": 1000, "nodes": 2, "threads": 2}})

"""Stored runs as rows of one table."""

from collections.abc import Mapping, Sequence
from datetime import UTC
from typing import Any

import polars

from drobench.errors import SettingError
from drobench.hints import did_you_mean
from drobench.results.comparison.filters import settings
from drobench.results.comparison.labels import content_key
from drobench.results.record import Record

METRICS = ("objective", "gap", "train_error", "validation_error", "test_error", "train_max_violation", "feasible")
"""Of the last iterate."""
_TOLD_ELSEWHERE = {"seed", "status", "solver.name", "problem.name", "dataset.name"}


def run_row(record: Record) -> dict[str, Any]:
    """Return a run by the names of columns."""
    last = record.iterates.last
    return {
        "run_id": record.run_id,
        "solver": record.solver.name,
        "problem": record.problem.name,
        "dataset": record.dataset.name,
        "seed": record.seed,
        "status": str(record.status),
        "outcome": None if record.outcome is None else str(record.outcome),
        **{name: None if last is None else getattr(last, name) for name in METRICS},
        "passes": record.oracle.passes,
        "seconds": record.seconds.solver,
        "started": record.started.astimezone(UTC),
    }


COLUMNS: dict[str, Any] = {
    **dict.fromkeys(("run_id", "solver", "problem", "dataset"), polars.String),
    "seed": polars.Int64,
    **dict.fromkeys(("status", "outcome"), polars.String),
    **dict.fromkeys(METRICS, polars.Float64),
    "feasible": polars.Boolean,
    **dict.fromkeys(("passes", "seconds"), polars.Float64),
    "started": polars.Datetime("us", "UTC"),
}
"""The columns that every table has, and their types."""


def sorted_runs(records: Sequence[Record], column: str, *, descending: bool = False) -> list[Record]:
    """Return the runs by a column, or by a metric that only their problem has; those without it come last either way.

    Raises:
        SettingError: If there is no such column.
    """
    known = (*COLUMNS, *_own_metrics(records))
    if column not in known:
        near = did_you_mean(column, known)
        raise SettingError(f"Runs are sorted by one of {', '.join(known)}; found {column!r}.{near}")
    keyed: list[tuple[Any, Record]] = [
        ({**run_row(record), **_extra(record)}.get(column), record) for record in records
    ]
    there = sorted((pair for pair in keyed if pair[0] is not None), key=lambda pair: pair[0], reverse=descending)
    return [record for _, record in there] + [record for value, record in keyed if value is None]


def run_frame(records: Sequence[Record]) -> polars.DataFrame:
    """Return the runs as a data frame, with the metrics of their problems alone, and the settings in which they differ.

    Args:
        records: The runs, which become rows in this order.
    """
    frame = polars.DataFrame([run_row(record) for record in records], schema=COLUMNS)
    for name in _own_metrics(records):
        frame = frame.with_columns(_column(name, [_extra(record).get(name) for record in records]))
    found = [settings(record) for record in records]
    names = dict.fromkeys(name for values in found for name in values if name not in _TOLD_ELSEWHERE)
    for name in names:
        values = [values.get(name) for values in found]
        if len({content_key(value) for value in values}) > 1:
            frame = frame.with_columns(_column(name, values))
    return frame


def _own_metrics(records: Sequence[Record]) -> list[str]:
    return sorted({name for record in records for name in _extra(record)} - set(COLUMNS))


def _extra(record: Record) -> Mapping[str, Any]:
    last = record.iterates.last
    return {} if last is None else last.extra


def _column(name: str, values: list[Any]) -> polars.Series:
    """Return a column of numbers or texts where they are all of a kind, else of texts of JSON."""
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {int, float}:
        return polars.Series(name, [None if value is None else float(value) for value in values], polars.Float64)
    if kinds in ({bool}, {str}):
        return polars.Series(name, values)
    return polars.Series(name, [None if value is None else content_key(value) for value in values], polars.String)

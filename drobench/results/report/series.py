"""The quantities a curve can be drawn with, and one run's curve as arrays."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
import polars

from drobench.results.comparison.metrics import MEASURES as EVERY_RUNS
from drobench.results.comparison.metrics import Known
from drobench.results.metric import titled
from drobench.results.parts import certified_within
from drobench.results.record import FAILURES, Record

Array = numpy.ndarray[tuple[int], numpy.dtype[numpy.float64]]


@dataclass(frozen=True)
class Quantity:
    """Something that goes on an axis.

    Attributes:
        key: The column of the curve, or `relative_gap`.
        label: The axis title.
        scale: How it is shown at first: `log` or `linear`.
        more: Whether more of it is better.
        own: Whether only the problem has it, and not every record.
    """

    key: str
    label: str
    scale: str
    more: bool = False
    own: bool = False


COSTS = (
    Quantity("oracle_calls", "oracle calls", "linear"),
    Quantity("passes", "passes over the data", "linear"),
    Quantity("solver_seconds", "solver seconds", "linear"),
    Quantity("communication_bytes", "bytes exchanged", "linear"),
)
"""What a run pays, for the horizontal axis."""

COST_LABELS = {
    "passes": "passes",
    "oracle_calls": "oracle calls",
    "seconds": "solver seconds",
    "bytes": "bytes exchanged",
}
"""The costs of a leaderboard, in words."""

MEASURES = (
    Quantity("relative_gap", "relative gap", "log"),
    Quantity("gap", "gap", "log"),
    Quantity("objective", "objective", "linear"),
    Quantity("train_max_violation", "largest violation, training data", "linear"),
    Quantity("test_max_violation", "largest violation, test data", "linear"),
    Quantity("test_error", "test error", "linear"),
    Quantity("stationarity", "stationarity", "log"),
)
"""What every run may have achieved, for the vertical axis; smaller is better for all of them."""

_NULL_WHERE_INFEASIBLE = ("gap", "relative_gap")


@dataclass(frozen=True)
class RunSeries:
    """One run's curve.

    Attributes:
        failed: Whether the run ended in a failure.
        costs: What was paid until each evaluation, by the key of the cost; never decreasing.
        measures: Position of the evaluations that have a value, and the values, by the key of the measure. A point
            that is infeasible, or a value that is not finite, counts as infinite: it has not reached anything. Where
            more is better the values are negated.
    """

    failed: bool
    costs: Mapping[str, Array]
    measures: Mapping[str, tuple[numpy.ndarray[Any, Any], Array]]


def own_measures(records: Sequence[Record], asked: Sequence[str]) -> tuple[Quantity, ...]:
    """What only the problems of these runs measure: all of it on test rows, and what was asked for."""
    known = Known.of(records)
    fixed = {measure.key for measure in MEASURES}
    shown = [name for name in known.names if name in asked or (name not in EVERY_RUNS and name.startswith("test_"))]
    return tuple(
        Quantity(
            name,
            titled(name, known.units.get(name), more=name in known.more),
            "linear",
            more=name in known.more,
            own=True,
        )
        for name in shown
        if name not in fixed and name not in known.disputed
    )


def run_series(record: Record, curve: polars.DataFrame, measured: Sequence[Quantity] = MEASURES) -> RunSeries:
    """Read what can be drawn from the curve of a run."""
    wanted = ("step", "feasible", *(quantity.key for quantity in (*COSTS, *measured)))
    # One query for all columns: a report may read a thousand curves.
    frame = curve.select(polars.col(name).cast(polars.Float64) for name in wanted if name in curve.columns)
    if "step" in frame.columns:
        frame = frame.sort("step")
    if not frame.height:
        return RunSeries(record.status in FAILURES, {}, {})
    columns = {name: frame[name].to_numpy() for name in frame.columns}  # null becomes NaN
    costs = {
        cost.key: numpy.nan_to_num(numpy.fmax.accumulate(columns[cost.key])) for cost in COSTS if cost.key in columns
    }
    known = {name: _known(frame[name]) for name in frame.columns}
    start_gap = _start_gap(record, columns)
    if start_gap is not None and "gap" in columns:
        columns["relative_gap"], known["relative_gap"] = columns["gap"] / start_gap, known["gap"]
    infeasible = columns["feasible"] == 0 if "feasible" in columns else numpy.zeros(frame.height, dtype=bool)
    measures = {}
    for measure in measured:
        key = measure.key
        if key not in columns or not known[key].any():
            continue
        evaluated = known[key] | infeasible if key in _NULL_WHERE_INFEASIBLE else known[key]
        values = -columns[key][evaluated] if measure.more else columns[key][evaluated]
        measures[key] = (numpy.flatnonzero(evaluated), numpy.where(numpy.isfinite(values), values, numpy.inf))
    return RunSeries(record.status in FAILURES, costs, measures)


def _known(column: polars.Series) -> numpy.ndarray[Any, Any]:
    """Where there is a value, if only one that is not finite."""
    if not column.null_count():
        return numpy.ones(len(column), dtype=bool)
    return column.is_not_null().to_numpy()


def _start_gap(record: Record, columns: Mapping[str, Array]) -> float | None:
    """Objective at step 0 minus the optimum, if both are known and the certificate can tell them apart."""
    if record.optimum is None or not {"step", "objective"} <= set(columns):
        return None
    start = columns["objective"][columns["step"] == 0]
    gap = float(start[0]) - record.optimum.value if start.size else 0.0
    return gap if gap > certified_within(record.optimum.value) else None

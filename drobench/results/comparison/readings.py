"""What the curves of all runs say about the targets, read at once: what reaching each of them cost."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars

from drobench.results.comparison.targets import COSTS, Target
from drobench.results.curves import RUN, Curves, ManyCurves, read_many
from drobench.results.outcome import Ending, ending_of
from drobench.results.parts import certified_within
from drobench.results.record import FAILURES, Iterate, Record

USED = ("passes", "oracle_calls", "seconds", "steps")
"""What a budget may limit."""

_VIOLATION = "train_max_violation"


@dataclass(frozen=True)
class CurveReading:
    """What was read off the curve of one run.

    Attributes:
        start_gap: Objective at step 0 minus the optimum; `None` unless both are known and it is more than the
            certificate of the optimum leaves open.
        costs: For each target, the cost of reaching it by the names in `COSTS`, infinite if it was not reached; `None`
            if the run has not what the target asks about.
        used: What the run had spent at its last evaluation, by the names in `USED`.
        ending: What the run came to; of records that do not say, as the curve has it.
    """

    start_gap: float | None = None
    costs: tuple[dict[str, float] | None, ...] = ()
    used: Mapping[str, float] = field(default_factory=dict)
    ending: Ending = field(default_factory=Ending)


def read_curves(
    records: Sequence[Record], curves: Curves | ManyCurves, targets: Sequence[Target]
) -> dict[str, CurveReading]:
    """Read the curves and find where each run first met each target.

    A run that failed has reached no target, whatever it passed on its way. A run without a certified optimum, without a
    row for step 0, or whose start cannot be told from the optimum has no relative gap.
    """
    asked = {name for target in targets for name, _ in target.limits}
    columns = list(dict.fromkeys(["step", "objective", "gap", _VIOLATION, *COSTS.values(), *sorted(asked)]))
    rows = read_many(curves, [record.run_id for record in records], columns)
    # For polars NaN is the largest number, so a start that is NaN would lie above any optimum.
    known = rows.with_columns(polars.col(columns).fill_nan(None))
    starts = _starts(known, records)
    frame = known.join(starts.select(RUN, "optimum", "start_gap"), on=RUN, how="left")
    found = frame.group_by(RUN).agg(
        polars.col("start_gap").first(),
        *(polars.col(column).max().alias(f"used {name}") for name, column in COSTS.items()),
        polars.col("step").max().alias("used steps"),
        *(expression for number, target in enumerate(targets) for expression in _reaching(number, target)),
    )
    by_run = {row[RUN]: row for row in found.iter_rows(named=True)}
    begun = {row[RUN]: row for row in starts.iter_rows(named=True)}
    return {
        record.run_id: _reading(record, by_run.get(record.run_id), begun[record.run_id], targets) for record in records
    }


def _starts(rows: polars.DataFrame, records: Sequence[Record]) -> polars.DataFrame:
    """For each run its optimum, how far above that it started, and where it started if its curve says so."""
    values = [None if record.optimum is None else record.optimum.value for record in records]
    optima = polars.DataFrame(
        {
            RUN: [record.run_id for record in records],
            "optimum": values,
            "open": [None if value is None else certified_within(value) for value in values],
        },
        schema={RUN: polars.String(), "optimum": polars.Float64(), "open": polars.Float64()},
    )
    first = (
        rows.filter(polars.col("step") == 0)
        .group_by(RUN)
        .agg(
            polars.col("objective").first().alias("start"),
            polars.col("gap").first().alias("first_gap"),
            polars.col(_VIOLATION).first().alias("first_violation"),
        )
    )
    above = polars.col("start") - polars.col("optimum")
    return optima.join(first, on=RUN, how="left").with_columns(
        polars.when(above > polars.col("open")).then(above).alias("start_gap")
    )


def _reaching(number: int, target: Target) -> list[polars.Expr]:
    """For the rows of one run: what each cost was when the target was first met, and whether it can be asked at all."""
    met, askable = polars.lit(True), polars.lit(True)
    for name, limit in target.limits:
        value = polars.col(name)
        if name == "gap":
            if target.violation is not None:
                # A point that the target allows has a gap, even where the problem's own tolerance calls it infeasible.
                value = value.fill_null(polars.col("objective") - polars.col("optimum"))
            met = met & (value <= limit * polars.col("start_gap"))
            askable = askable & polars.col("start_gap").is_not_null().any()
        else:
            met = met & (value >= limit if name in target.at_least else value <= limit)
            askable = askable & value.is_not_null().any()
    # Costs only grow on the way, so the least over all rows that meet the target is the cost of the first.
    return [
        askable.alias(f"askable {number}"),
        *(polars.col(column).filter(met).min().alias(f"{name} {number}") for name, column in COSTS.items()),
    ]


def _reading(
    record: Record, row: Mapping[str, Any] | None, begun: Mapping[str, Any], targets: Sequence[Target]
) -> CurveReading:
    ending = ending_of(record, _start(begun))
    if row is None:
        return CurveReading(costs=(None,) * len(targets), ending=ending)
    costs = tuple(
        {name: _or_never(row[f"{name} {number}"], record) for name in COSTS} if row[f"askable {number}"] else None
        for number in range(len(targets))
    )
    used = {name: value for name in USED if (value := row[f"used {name}"]) is not None}
    return CurveReading(row["start_gap"], costs, used, ending)


def _start(begun: Mapping[str, Any]) -> Iterate | None:
    """The start of a run, as far as an outcome depends on it; `None` where its curve does not have it.

    Whether it is feasible is a column of truths, which cannot be read at once with the numbers; but a gap is known of
    feasible points only, and matters only where there is an optimum.
    """
    if begun["start"] is None:
        return None
    violation = begun["first_violation"]
    feasible = violation is None or violation <= 0 or begun["first_gap"] is not None
    unknown = not feasible and begun["optimum"] is None
    return Iterate(
        objective=begun["start"], train_max_violation=violation, feasible=None if unknown else feasible, step=0
    )


def _or_never(cost: float | None, record: Record) -> float:
    return math.inf if cost is None or record.status in FAILURES else cost

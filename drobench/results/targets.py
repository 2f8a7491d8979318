"""When each run reached the target, from all curves at once.

The relative gap of a value is `(value - optimum) / (value at the start - optimum)`: 1 at the start, 0 at the optimum.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import polars

from drobench.results.record import FAILURES, Record

_COLUMNS = ("step", "passes", "solver_seconds", "objective", "gap")


@dataclass(frozen=True)
class Progress:
    """What the curve of one run says about its way to the target.

    Attributes:
        start_gap: Objective at step 0 minus the optimum; positive.
        passes: Passes over the data until the target was reached, `None` if it was not.
        seconds: Solver seconds until then.
    """

    start_gap: float
    passes: float | None
    seconds: float | None


def progress(
    records: Sequence[Record], curves: Callable[[str], polars.DataFrame], target_gap: float
) -> dict[str, Progress]:
    """Read the curves and find where each run first had a relative gap of at most `target_gap`.

    A run that failed has not reached the target, whatever it passed on its way. Runs without a certified optimum,
    without a row for step 0, or whose start is not above the optimum have no relative gap and are not in the answer.
    """
    known = {record.run_id: record for record in records if record.optimum is not None}
    frames = [_aligned(curves(run_id), record) for run_id, record in known.items()]
    if not frames:
        return {}
    rows = polars.concat(frames)
    start_gaps = (
        rows.filter(polars.col("step") == 0)
        .group_by("run_id")
        .agg((polars.col("objective") - polars.col("optimum")).first().alias("start_gap"))
        .filter(polars.col("start_gap") > 0)
    )
    reached = (
        rows.join(start_gaps, on="run_id")
        .filter(~polars.col("failure") & (polars.col("gap") / polars.col("start_gap") <= target_gap))
        .sort("run_id", "step")
        .group_by("run_id")
        .agg(polars.col("passes").first(), polars.col("solver_seconds").first())
    )
    answer = start_gaps.join(reached, on="run_id", how="left")
    return {
        row["run_id"]: Progress(row["start_gap"], row["passes"], row["solver_seconds"])
        for row in answer.iter_rows(named=True)
    }


def _aligned(curve: polars.DataFrame, record: Record) -> polars.DataFrame:
    """The needed columns of one curve, the same for every run: a run that failed early may have none of them."""
    assert record.optimum is not None
    present = [polars.col(name) if name in curve.columns else polars.lit(None).alias(name) for name in _COLUMNS]
    numbers = [column.cast(polars.Float64).fill_nan(None) for column in present]
    return curve.select(
        *numbers,
        polars.lit(record.run_id).alias("run_id"),
        polars.lit(record.optimum.value, dtype=polars.Float64).alias("optimum"),
        polars.lit(record.status in FAILURES).alias("failure"),
    )

"""How fast the gap falls: the slope of its logarithm against the logarithm of the oracle calls.

A slope of -1 means that ten times the calls give a tenth of the gap. Only the last decade of calls is fitted, because a
rate is a statement about the end of a run, and only gaps above the certificate of the optimum, because what lies below
cannot be told from zero.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from drobench.results.comparison.statistics import bootstrap_interval, median
from drobench.results.record import Record
from drobench.results.report.series import RunSeries

_SMALLEST_NUMBER_OF_POINTS = 5
_SEEDS_FOR_A_BOOTSTRAP = 3
_DECADE = 10.0


@dataclass(frozen=True)
class Rate:
    """The measured rate of one solver on one board.

    Attributes:
        slope: Median over the runs that could be fitted.
        low: Lower end of the 95% interval.
        high: Upper end.
        interval: Where the interval comes from: `seeds` (bootstrap) or `regression` (too few runs for that; too narrow
            where neighbouring points of a curve depend on each other).
        fit: Median share of variance that the straight line explains; far below 1, there is no single rate.
        runs: How many runs could be fitted.
        claimed: What the solver declares, as it stands in the record; `None` if it declares nothing.
    """

    slope: float
    low: float
    high: float
    interval: str
    fit: float
    runs: int
    claimed: str | None


def measured_rate(records: Sequence[Record], runs: Sequence[RunSeries]) -> Rate | None:
    """Fit every run of one solver; `None` where none has enough points with a gap.

    Args:
        records: The records of the runs.
        runs: Their series, in the same order.
    """
    fits = [fit for record, run in zip(records, runs, strict=True) if (fit := _fit(record, run)) is not None]
    if not fits:
        return None
    slopes = [fit.slope for fit in fits]
    if len(slopes) >= _SEEDS_FOR_A_BOOTSTRAP:
        low, high = bootstrap_interval(slopes)
        interval = "seeds"
    else:
        ends = [_regression_interval(fit) for fit in fits]
        low, high = min(end[0] for end in ends), max(end[1] for end in ends)
        interval = "regression"
    explained = median([fit.explained for fit in fits])
    return Rate(median(slopes), low, high, interval, explained, len(fits), _claimed(records[0]))


def resolution(record: Record) -> float:
    """The gap below which a run cannot be told from the optimum: what the optimum's own certificate leaves open."""
    certificate = None if record.optimum is None else record.optimum.certificate
    found = certificate.get("gap") if isinstance(certificate, dict) else certificate
    known = isinstance(found, int | float) and not isinstance(found, bool) and math.isfinite(found)
    return max(float(found), 0.0) if known else 0.0  # type: ignore[arg-type]  # `known` says that it is a number


@dataclass(frozen=True)
class _Fit:
    slope: float
    explained: float
    error: float
    freedom: int


def _fit(record: Record, run: RunSeries) -> _Fit | None:
    if "gap" not in run.measures or "oracle_calls" not in run.costs:
        return None
    evaluated, gaps = run.measures["gap"]
    calls = run.costs["oracle_calls"][evaluated]
    usable = (calls >= calls[-1] / _DECADE) & (calls > 0) & numpy.isfinite(gaps) & (gaps > resolution(record))
    if numpy.unique(calls[usable]).size < _SMALLEST_NUMBER_OF_POINTS:
        return None
    from scipy import stats  # noqa: PLC0415  # slow to load, and no leaderboard needs it

    line: Any = stats.linregress(numpy.log10(calls[usable]), numpy.log10(gaps[usable]))
    # Where the gap never moves there is no variance, and a flat line leaves nothing unexplained.
    explained = 1.0 if numpy.ptp(gaps[usable]) == 0 else float(line.rvalue) ** 2
    return _Fit(float(line.slope), explained, float(line.stderr), int(usable.sum()) - 2)


def _regression_interval(fit: _Fit) -> tuple[float, float]:
    from scipy import stats  # noqa: PLC0415  # as above

    reach = float(stats.t.ppf(0.975, fit.freedom)) * fit.error
    return fit.slope - reach, fit.slope + reach


def _claimed(record: Record) -> str | None:
    declared = record.solver.others.get("rate")
    return None if declared is None else str(declared)

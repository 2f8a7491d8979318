"""Targets, and when each run reached them, from all curves at once.

A target is joint: every limit of it must hold at the same evaluation. The relative gap of a value is
`(value - optimum) / (value at the start - optimum)`: 1 at the start, 0 at the optimum.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import polars

from drobench.errors import SettingError
from drobench.results.curves import RUN, Curves, ManyCurves, read_many
from drobench.results.record import FAILURES, Iterate, Record

COSTS = {
    "passes": "passes",
    "oracle_calls": "oracle_calls",
    "seconds": "solver_seconds",
    "bytes": "communication_bytes",
}
"""What reaching a target may cost, and the column of a curve that counts it."""

USED = ("passes", "oracle_calls", "seconds", "steps")
"""What a budget may limit."""

_SHORT_NAMES = {"violation": "train_max_violation", "error": "train_error"}
_METRICS = (
    "gap",
    "objective",
    "train_error",
    "validation_error",
    "test_error",
    "train_max_violation",
    "validation_max_violation",
    "test_max_violation",
    "stationarity",
)
_VIOLATION = "train_max_violation"


@dataclass(frozen=True)
class Target:
    """What counts as solved: the largest value of each named metric. `gap` is relative.

    Attributes:
        limits: By the name of a metric of the curve.
    """

    limits: tuple[tuple[str, float], ...]

    @classmethod
    def of(cls, **limits: float) -> "Target":
        """Make a target: `Target.of(gap=1e-4, violation=0.01)`.

        Raises:
            SettingError: If a metric is unknown or a limit impossible.
        """
        if not limits:
            raise SettingError("A target needs a limit, such as gap=1e-4; found none.")
        checked = {_SHORT_NAMES.get(name, name): _limit(name, value) for name, value in limits.items()}
        return cls(tuple(checked.items()))

    @classmethod
    def parse(cls, text: str) -> "Target":
        """Read a target as it is written on the command line: `gap=1e-4,violation=0.01`."""
        limits = {}
        for part in text.split(","):
            name, equals, value = part.partition("=")
            try:
                limits[name.strip()] = float(value)
            except ValueError:
                equals = ""
            if not equals:
                raise SettingError(
                    f"A target is written METRIC=NUMBER,..., such as gap=1e-4,violation=0.01; found {text!r}."
                )
        return cls.of(**limits)

    @property
    def gap(self) -> float | None:
        """The relative gap to reach, if it is part of the target."""
        return dict(self.limits).get("gap")

    @property
    def violation(self) -> float | None:
        """The violation of the training constraints that is allowed, if the target says so."""
        return dict(self.limits).get(_VIOLATION)

    @property
    def label(self) -> str:
        """The target for people."""
        long_names = {long: short for short, long in _SHORT_NAMES.items()} | {"gap": "relative gap"}
        return ", ".join(f"{long_names.get(name, name).replace('_', ' ')} {limit:g}" for name, limit in self.limits)


DEFAULT_TARGETS = tuple(Target((("gap", gap),)) for gap in (1e-4, 1e-2, 1e-6))
"""The first decides the ranks; the others tell how a solver does with easier and harder ones."""


@dataclass(frozen=True)
class Progress:
    """What the curve of one run says about its way.

    Attributes:
        start_gap: Objective at step 0 minus the optimum; `None` unless both are known and it is positive.
        costs: For each target, the cost of reaching it by the names in `COSTS`, infinite if it was not reached; `None`
            if the run has not what the target asks about.
        used: What the run had spent at its last evaluation, by the names in `USED`.
    """

    start_gap: float | None = None
    costs: tuple[dict[str, float] | None, ...] = ()
    used: Mapping[str, float] = field(default_factory=dict)


def progress(records: Sequence[Record], curves: Curves | ManyCurves, targets: Sequence[Target]) -> dict[str, Progress]:
    """Read the curves and find where each run first met each target.

    A run that failed has reached no target, whatever it passed on its way. A run without a certified optimum, without a
    row for step 0, or whose start is not above the optimum has no relative gap.
    """
    asked = {name for target in targets for name, _ in target.limits}
    columns = list(dict.fromkeys(["step", "objective", "gap", _VIOLATION, *COSTS.values(), *sorted(asked)]))
    rows = read_many(curves, [record.run_id for record in records], columns)
    # For polars NaN is the largest number, so a start that is NaN would lie above any optimum.
    known = rows.with_columns(polars.col(columns).fill_nan(None))
    frame = known.join(_starts(known, records), on=RUN, how="left")
    found = frame.group_by(RUN).agg(
        polars.col("start_gap").first(),
        *(polars.col(column).max().alias(f"used {name}") for name, column in COSTS.items()),
        polars.col("step").max().alias("used steps"),
        *(expression for number, target in enumerate(targets) for expression in _reaching(number, target)),
    )
    by_run = {row[RUN]: row for row in found.iter_rows(named=True)}
    return {record.run_id: _progress(record, by_run.get(record.run_id), targets) for record in records}


def is_met(target: Target, point: Iterate, start_gap: float | None) -> bool:
    """Whether a scored point meets a target."""
    for name, limit in target.limits:
        value = getattr(point, name)
        if name == "gap":
            value = None if value is None or start_gap is None else value / start_gap
        if value is None or not value <= limit:
            return False
    return True


def _limit(name: str, value: float) -> float:
    metric = _SHORT_NAMES.get(name, name)
    if metric not in _METRICS:
        known = ", ".join([*_SHORT_NAMES, *(known for known in _METRICS if known not in _SHORT_NAMES.values())])
        raise SettingError(f"A target knows the metrics {known}; found {name!r}.")
    if not math.isfinite(value) or (metric == "gap" and value <= 0):
        expected = "a finite number above 0" if metric == "gap" else "a finite number"
        raise SettingError(f"The limit of `{name}` in a target must be {expected}; found {value!r}.")
    return float(value)


def _starts(rows: polars.DataFrame, records: Sequence[Record]) -> polars.DataFrame:
    """The optimum of each run, and how far above it the run started."""
    optima = polars.DataFrame(
        {
            RUN: [record.run_id for record in records],
            "optimum": [None if record.optimum is None else record.optimum.value for record in records],
        },
        schema={RUN: polars.String(), "optimum": polars.Float64()},
    )
    first = rows.filter(polars.col("step") == 0).group_by(RUN).agg(polars.col("objective").first().alias("start"))
    above = polars.col("start") - polars.col("optimum")
    return optima.join(first, on=RUN, how="left").select(
        RUN, "optimum", polars.when(above > 0).then(above).alias("start_gap")
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
            met = met & (value <= limit)
            askable = askable & value.is_not_null().any()
    # Costs only grow on the way, so the least over all rows that meet the target is the cost of the first.
    return [
        askable.alias(f"askable {number}"),
        *(polars.col(column).filter(met).min().alias(f"{name} {number}") for name, column in COSTS.items()),
    ]


def _progress(record: Record, row: Mapping[str, float | None] | None, targets: Sequence[Target]) -> Progress:
    if row is None:
        return Progress(costs=(None,) * len(targets))
    costs = tuple(
        {name: _or_never(row[f"{name} {number}"], record) for name in COSTS} if row[f"askable {number}"] else None
        for number in range(len(targets))
    )
    used = {name: value for name in USED if (value := row[f"used {name}"]) is not None}
    return Progress(row["start_gap"], costs, used)


def _or_never(cost: float | None, record: Record) -> float:
    return math.inf if cost is None or record.status in FAILURES else cost

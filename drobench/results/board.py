"""The finished tables of a comparison, as values; `formats` turns them into text."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from drobench.results.statistics import bootstrap_interval, median

METRICS = (
    "objective",
    "gap",
    "relative_gap",
    "train_error",
    "test_error",
    "train_max_violation",
    "passes_to_target",
    "seconds_to_target",
    "seconds_total",
)
"""The columns that summarise one number per run."""

HEADER = ("rank", "solver", "runs", "failed", *(name.replace("_", " ") for name in METRICS), "feasible")
MISSING = "-"


@dataclass(frozen=True)
class Summary:
    """Median over seeds with its 95% bootstrap interval; infinite where the target was not reached."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Summary":
        """Summarise one value per run."""
        low, high = bootstrap_interval(values)
        return cls(median(values), low, high)


@dataclass(frozen=True)
class Table:
    """Plain text cells."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Row:
    """One solver with one configuration on one board.

    Attributes:
        rank: 1 is best; equal rows share a rank, and the ranks after them are left out.
        solver: The label: the name of the solver, and what tells it from namesakes on the same board.
        name: The name of the solver alone.
        config: Its resolved config.
        seeds: The seeds compared, in order.
        run_ids: The runs compared, in the order of the seeds.
        failed: How many of them diverged, met a number that is not finite, or failed.
        feasible_share: Share of all runs whose iterate is feasible; a run without one is not.
        metrics: Summary by the names in `METRICS`, `None` where no run has a value.
    """

    rank: int
    solver: str
    name: str
    config: dict[str, Any]
    seeds: tuple[int, ...]
    run_ids: tuple[str, ...]
    failed: int
    feasible_share: float
    metrics: dict[str, Summary | None]

    @property
    def runs(self) -> int:
        """Number of runs compared."""
        return len(self.run_ids)

    def median(self, metric: str) -> float | None:
        """The median of a metric, `None` where no run has a value."""
        summary = self.metrics[metric]
        return None if summary is None else summary.median


@dataclass(frozen=True)
class Board:
    """The solvers that were run on the same problem, data, model and budget.

    Attributes:
        title: Problem and dataset, and what tells this board from namesakes.
        problem: Name and config.
        dataset: Name, config and sha256.
        model: Resolved config.
        budget: Resolved config.
        rows: Best first.
        ranked_by: The metric that decided between equally feasible, equally fast solvers; `None` if no run has any.
        notes: What a reader must know before trusting the table.
    """

    title: str
    problem: dict[str, Any]
    dataset: dict[str, Any]
    model: dict[str, Any]
    budget: dict[str, Any]
    rows: tuple[Row, ...]
    ranked_by: str | None
    notes: tuple[str, ...]

    def to_table(self) -> Table:
        """The board as text cells."""
        return Table(HEADER, tuple(_cells(row) for row in self.rows))


@dataclass(frozen=True)
class Leaderboard:
    """All boards of a comparison.

    Attributes:
        target_gap: The relative gap that counts as the target.
        iterate: Which iterate is compared.
    """

    boards: tuple[Board, ...]
    target_gap: float
    iterate: str

    def to_table(self) -> Table:
        """All boards in one table, with the title of the board in front."""
        rows = [(board.title, *cells) for board in self.boards for cells in board.to_table().rows]
        return Table(("board", *HEADER), tuple(rows))


def number(value: float | None) -> str:
    """A number with four digits; a dash for what is missing or was never reached."""
    return MISSING if value is None or not math.isfinite(value) else f"{value:.4g}"


def _cells(row: Row) -> tuple[str, ...]:
    medians = [number(row.median(metric)) for metric in METRICS]
    medians[METRICS.index("objective")] = _with_interval(row.metrics["objective"])
    return (str(row.rank), row.solver, str(row.runs), str(row.failed), *medians, f"{row.feasible_share:.0%}")


def _with_interval(summary: Summary | None) -> str:
    if summary is None:
        return MISSING
    if summary.low == summary.high:
        return number(summary.median)
    return f"{number(summary.median)} [{number(summary.low)}, {number(summary.high)}]"

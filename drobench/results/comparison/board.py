"""The finished tables of a comparison, as values; `formats` turns them into text."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy

from drobench.results.comparison.profiles import Profiles
from drobench.results.comparison.statistics import bootstrap_intervals, medians_of
from drobench.results.comparison.targets import COSTS, Target
from drobench.results.comparison.tuning import Tuning

QUALITIES = (
    "objective",
    "gap",
    "relative_gap",
    "train_error",
    "validation_error",
    "test_error",
    "train_max_violation",
    "test_max_violation",
)
"""The metrics of an iterate that are shown; in all of them less is better."""

METRICS = (*QUALITIES, *(f"{cost}_to_target" for cost in COSTS), "seconds_total")
"""The columns that summarise one number per run."""

MISSING = "-"
NEVER = "never"
FAILED = "failed"
_UNITS = {"gap": "gap", "objective": "objective", "train_max_violation": "viol."}
_INTERVAL = re.compile(r" \[[^]]*\]")
_EXPONENT = re.compile(r"e(-?)\+?0*")


@dataclass(frozen=True)
class Summary:
    """Median over runs with its 95% bootstrap interval; infinite where the target was not reached or a run failed."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Summary":
        """Summarise one value per run."""
        return cls.of_many([values])[0]

    @classmethod
    def of_many(cls, samples: Sequence[Sequence[float]]) -> list["Summary"]:
        """Summarise many samples at once, which is much quicker where they have the same size."""
        found: dict[int, Summary] = {}
        for size in {len(sample) for sample in samples}:
            places = [place for place, sample in enumerate(samples) if len(sample) == size]
            values = numpy.array([samples[place] for place in places], dtype=numpy.float64)
            medians = medians_of(values).tolist()
            for place, middle, (low, high) in zip(places, medians, bootstrap_intervals(values).tolist(), strict=True):
                found[place] = cls(middle, low, high)
        return [found[place] for place in range(len(samples))]


@dataclass(frozen=True)
class Table:
    """Plain text cells.

    Attributes:
        header: Names of the columns.
        rows: One cell per column.
        dispensable: Columns that may be left out where there is no room for all, the first first.
    """

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    dispensable: tuple[str, ...] = ()

    def without(self, name: str) -> "Table":
        """The table without one column."""
        kept = [position for position, column in enumerate(self.header) if column != name]
        return Table(
            tuple(self.header[position] for position in kept),
            tuple(tuple(row[position] for position in kept) for row in self.rows),
            tuple(column for column in self.dispensable if column != name),
        )

    def without_intervals(self) -> "Table":
        """The table with medians only."""
        rows = tuple(tuple(_INTERVAL.sub("", cell) for cell in row) for row in self.rows)
        return Table(self.header, rows, self.dispensable)


@dataclass(frozen=True)
class Comparison:
    """Two solvers of one board, run by run with the same seeds.

    Attributes:
        better: Label of the one that stands higher in the order of the board.
        worse: Label of the other.
        pairs: How many seeds they share.
        wins: On how many of them the better one did better.
        losses: On how many the other did.
        p_value: Two-sided, of the signed-rank test.
        p_adjusted: The same after Holm's adjustment for all pairs of solvers of the board.
        significant: Whether that is at most 5%.
        quantity: What `effect` is about: a cost, `train_max_violation`, or the metric the board is ranked by.
        effect: Over the pairs: for a cost the worse one's over the better one's, else the worse one's minus the better
            one's; `None` where no pair has both.
        detectable: The least effect that as many pairs would show with a power of 80%, from the spread of this one;
            infinite where nothing can be significant, `None` where it cannot be said.
    """

    better: str
    worse: str
    pairs: int
    wins: int
    losses: int
    p_value: float
    p_adjusted: float
    significant: bool
    quantity: str
    effect: Summary | None
    detectable: float | None

    @property
    def is_ratio(self) -> bool:
        """Whether the effect is a ratio of costs rather than a difference."""
        return self.quantity in COSTS


@dataclass(frozen=True)
class Reached:
    """How one solver did with one target.

    Attributes:
        share: Of its runs, those that reached the target.
        costs: Summary by the names in `COSTS`; `None` if the target cannot be asked of any run of the board.
    """

    target: Target
    share: float
    costs: dict[str, Summary | None]


@dataclass(frozen=True)
class Row:
    """One solver with one configuration on one board.

    Attributes:
        rank: 1 is best; shared with the first of the group unless significantly worse than that one.
        solver: The label: the name of the solver, and what tells it from namesakes on the same board.
        name: The name of the solver alone.
        config: Its resolved config.
        seeds: The seeds compared, in order.
        run_ids: The runs compared, in the order of the seeds.
        failed: How many of them diverged, met a number that is not finite, or failed.
        feasible_share: Share of all runs whose iterate is feasible; a run without one is not.
        metrics: Summary by the names in `METRICS`, `None` where no run has a value. A failed run counts as infinite.
        mean_place: Mean over the seeds of the place among the solvers of the board; `None` if no seed is shared.
        rank_interval: Positions between which the solver stays when the seeds are drawn again; `None` with few seeds.
        reached: One entry per target of the leaderboard.
        comparison: With the baseline, or else with the first of the board; `None` for that one itself.
        tuning: What the choice of the configuration cost; `None` unless one was chosen.
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
    mean_place: float | None = None
    rank_interval: tuple[int, int] | None = None
    reached: tuple[Reached, ...] = ()
    comparison: Comparison | None = None
    tuning: Tuning | None = None

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
        ranked_by: The metric that decides between feasible runs that did not reach the target; `None` if none has any.
        notes: What a reader must know before trusting the table.
        comparisons: Every two solvers, in the order of the rows.
        reference: Label of the solver that the rows are compared with; `None` if there is nothing to compare.
        cost: What reaching a target is counted in.
    """

    title: str
    problem: dict[str, Any]
    dataset: dict[str, Any]
    model: dict[str, Any]
    budget: dict[str, Any]
    rows: tuple[Row, ...]
    ranked_by: str | None
    notes: tuple[str, ...]
    comparisons: tuple[Comparison, ...] = ()
    reference: str | None = None
    cost: str = "passes"

    def to_table(self) -> Table:
        """The board as text cells, without columns that say nothing here."""
        targets = self._target_columns()
        further = [name for name in targets if name != "seconds" and name != self._cost_column(0)]
        return _without_silent_columns(self._columns(targets), len(self.rows), [*further, "on test", "seconds"])

    def _columns(self, targets: dict[str, list[str]]) -> dict[str, list[str]]:
        shared = Counter(row.rank for row in self.rows)
        measure = self.ranked_by or "objective"
        columns = {
            "rank": [f"{row.rank}=" if shared[row.rank] > 1 else str(row.rank) for row in self.rows],
            "place": [_positions(row.rank_interval) for row in self.rows],
            "solver": [row.solver for row in self.rows],
            "runs": [str(row.runs) for row in self.rows],
            "failed": [str(row.failed) for row in self.rows],
            "feasible": [f"{row.feasible_share:.0%}" for row in self.rows],
            _words(measure): [with_interval(row.metrics[measure], FAILED) for row in self.rows],
            "test error": [quality(row.median("test_error")) for row in self.rows],
            "violation": [quality(row.median("train_max_violation")) for row in self.rows],
            "on test": [quality(row.median("test_max_violation")) for row in self.rows],
            **targets,
            "tried": [tried(row.tuning) for row in self.rows],
        }
        if self.reference is not None:
            columns[f"vs {self._short_reference()}"] = [effect(row.comparison, row.solver) for row in self.rows]
            columns["p"] = [_p(row.comparison) for row in self.rows]
        return columns

    def _target_columns(self) -> dict[str, list[str]]:
        """What the targets cost, the easier first; of the further ones only those that some solver reached."""
        columns = {}
        numbers = range(len(self.rows[0].reached))
        for number in sorted(numbers, key=lambda number: -(self.rows[0].reached[number].target.gap or 0.0)):
            reached = [row.reached[number] for row in self.rows]
            if number > 0 and not any(found.share for found in reached):
                continue
            columns[self._cost_column(number)] = [
                _cost(found, row, self.cost, number == 0) for found, row in zip(reached, self.rows, strict=True)
            ]
            if number == 0 and self.cost != "seconds":
                columns["seconds"] = [_never_or(found.costs["seconds"]) for found in reached]
        return columns

    def _short_reference(self) -> str:
        """Its name alone where that is enough."""
        named = [row.name for row in self.rows if row.solver == self.reference]
        return named[0] if sum(row.name == named[0] for row in self.rows) == 1 else str(self.reference)

    def _cost_column(self, number: int) -> str:
        unit = {"oracle_calls": "calls"}.get(self.cost, self.cost)
        return f"{unit} to {_short(self.rows[0].reached[number].target)}"


@dataclass(frozen=True)
class Leaderboard:
    """All boards of a comparison.

    Attributes:
        boards: One for each problem, dataset, model and budget.
        iterate: Which iterate is compared.
        targets: What counts as solved; the first decides the ranks.
        cost: What reaching a target is counted in, by a name in `COSTS`.
        profiles: The solvers across all boards; `None` where fewer than two boards have the same solvers.
        notes: What concerns more than one board.
        baseline: What the user wants everything compared with.
        selection: How one configuration per solver was chosen; `None`: all are shown.
    """

    boards: tuple[Board, ...]
    iterate: str
    targets: tuple[Target, ...]
    cost: str = "passes"
    profiles: Profiles | None = None
    notes: tuple[str, ...] = field(default=())
    baseline: str | None = None
    selection: str | None = None

    @property
    def target_gap(self) -> float | None:
        """The relative gap that decides the ranks, if the target has one."""
        return self.targets[0].gap

    def to_table(self) -> Table:
        """All boards in one table, the title of each in front; a cell is empty where a board has no such column."""
        tables = [(board.title, board.to_table()) for board in self.boards]
        header = tuple(dict.fromkeys(name for _, table in tables for name in table.header))
        rows = [
            (title, *(dict(zip(table.header, cells, strict=True)).get(name, "") for name in header))
            for title, table in tables
            for cells in table.rows
        ]
        return Table(("board", *header), tuple(rows))


def profiles_table(found: Profiles) -> Table:
    """The solvers across boards as text cells."""
    rows = [
        (
            row.solver,
            f"{row.score:.3f} [{row.low:.3f}, {row.high:.3f}]",
            f"{row.reached:.0%}",
            MISSING if row.speedup is None else f"{row.speedup:.3g}x",
        )
        for row in found.rows
    ]
    return Table(("solver", "score", "reached", f"speed vs {found.reference}"), tuple(rows))


def number(value: float | None) -> str:
    """A number with four digits; a dash for what is missing or was never reached."""
    return MISSING if value is None or not math.isfinite(value) else f"{value:.4g}"


def quality(value: float | None) -> str:
    """A number with three digits; a word where the run failed, a dash where there is none."""
    return _number(value, FAILED)


def with_interval(summary: Summary | None, infinite: str) -> str:
    """A median and, unless all runs agree, its interval."""
    if summary is None:
        return MISSING
    middle = _number(summary.median, infinite)
    if summary.low == summary.high or middle == infinite:
        return middle
    return f"{middle} [{_number(summary.low, infinite)}, {_number(summary.high, infinite)}]"


def effect(comparison: Comparison | None, solver: str) -> str:
    """How much worse (or better) a solver is than the one it is compared with."""
    if comparison is None or comparison.effect is None:
        return MISSING
    size = comparison.effect.median
    forward = comparison.worse == solver
    if comparison.is_ratio:
        size = size if forward else (1 / size if size else math.inf)
        return NEVER if math.isinf(size) else f"{_number(size, NEVER)}x"
    size = size if forward else -size
    return (
        FAILED
        if math.isinf(size)
        else f"{'+' if size > 0 else ''}{_number(size, FAILED)} {_UNITS.get(comparison.quantity, 'error')}"
    )


def tried(tuning: Tuning | None) -> str:
    """How many configurations a solver was chosen from, at what cost."""
    if tuning is None:
        return MISSING
    return (
        f"{tuning.configurations} ({_number(tuning.oracle_calls, MISSING)} calls, {_number(tuning.seconds, MISSING)} s)"
    )


def _without_silent_columns(columns: dict[str, list[str]], rows: int, dispensable: Sequence[str]) -> Table:
    """Keep rank, solver and runs, and of the rest what differs from its uneventful value."""
    uneventful = {"failed": "0", "feasible": "100%"}
    if columns["place"] == columns["rank"]:
        del columns["place"]
    kept = {
        name: cells
        for name, cells in columns.items()
        if name in ("rank", "solver", "runs") or any(cell not in (MISSING, uneventful.get(name)) for cell in cells)
    }
    cells = tuple(tuple(column[row] for column in kept.values()) for row in range(rows))
    return Table(tuple(kept), cells, tuple(name for name in dispensable if name in kept))


def _cost(found: Reached, row: Row, cost: str, with_ends: bool) -> str:
    summary = found.costs[cost]
    text = with_interval(summary, NEVER) if with_ends else _never_or(summary)
    times = round(found.share * row.runs)
    return f"{text} ({times}/{row.runs})" if 0 < times < row.runs else text


def _never_or(summary: Summary | None) -> str:
    return _number(None if summary is None else summary.median, NEVER)


def _short(target: Target) -> str:
    """A gap alone as a number, any other target by a word; the text below the table has it in full."""
    if target.gap is None or len(target.limits) > 1:
        return "target"
    return _tidy(f"{target.gap:.0e}" if f"{target.gap:e}".startswith("1.000000") else f"{target.gap:g}")


def _positions(interval: tuple[int, int] | None) -> str:
    if interval is None:
        return MISSING
    low, high = interval
    return str(low) if low == high else f"{low}-{high}"


def _p(comparison: Comparison | None) -> str:
    return MISSING if comparison is None else f"{comparison.p_adjusted:.2g}"


def _words(name: str) -> str:
    return name.replace("_", " ")


def _number(value: float | None, infinite: str) -> str:
    if value is None:
        return MISSING
    # Three digits are more than a few seeds can tell, and a terminal is narrow: 1e-6, not 1e-06.
    return _tidy(f"{value:.3g}") if math.isfinite(value) else infinite


def _tidy(text: str) -> str:
    return _EXPONENT.sub(r"e\1", text)

"""Everything a report shows, computed once: what the page and the plots have in common."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy
import polars

from drobench.results.comparison.board import Board, Leaderboard
from drobench.results.comparison.rows import Row
from drobench.results.comparison.tables import Table
from drobench.results.fields import storable
from drobench.results.outcome import Ending
from drobench.results.record import Record, content_id
from drobench.results.report.axes import channel
from drobench.results.report.bands import SolverCurves, solver_curves
from drobench.results.report.looks import Spec
from drobench.results.report.rates import Rate, measured_rate, resolution
from drobench.results.report.series import COSTS, MEASURES, Array, Quantity, RunSeries, own_measures, run_series
from drobench.results.report.styles import Style, styles
from drobench.results.report.tradeoff import SolverPoints, trade_offs

# So many numbers of curves keep the page of a thousand runs below five megabytes; more solvers get coarser curves.
_NUMBERS = 400_000
_NUMBERS_PER_POINT = 5
_FEWEST_POINTS, _MOST_POINTS = 24, 90
_LONGEST_SLUG = 80


@dataclass(frozen=True)
class BoardView:
    """One board with all that is drawn of it.

    Attributes:
        board: The table.
        slug: A name for links and files, unique in the report.
        records: The runs of each row, by the label of the solver.
        curves: The curves of each row, by the label of the solver; without those of solvers that have none.
        rates: The measured rates, by the label of the solver.
        trade_offs: Points by iterate and split.
        costs: The costs that can be shown.
        measures: The measures that can be shown, the most telling first.
        allowed: The largest violation that counts as feasible.
    """

    board: Board
    slug: str
    records: Mapping[str, tuple[Record, ...]]
    curves: Mapping[str, SolverCurves]
    rates: Mapping[str, Rate]
    trade_offs: Mapping[tuple[str, str], Sequence[SolverPoints]]
    costs: tuple[Quantity, ...]
    measures: tuple[Quantity, ...]
    allowed: float

    def styles(self, of_all: Mapping[str, Style]) -> list[Style]:
        """The styles of the solvers of this board, best first."""
        return [of_all[row.solver] for row in self.board.rows]

    def cost_channels(self) -> dict[str, dict[str, Spec]]:
        """How each cost is shown, by its key and scale."""
        return {
            cost.key: _channels(
                cost, [found.grids[cost.key] for found in self.curves.values() if cost.key in found.grids]
            )
            for cost in self.costs
        }

    def measure_channels(self) -> dict[str, dict[str, Spec]]:
        """How each measure is shown, by its key and scale."""
        return {
            measure.key: _channels(
                measure,
                [
                    values
                    for found in self.curves.values()
                    for (_, key), band in found.bands.items()
                    if key == measure.key
                    for values in (band.median, band.high)
                ],
                self._resolution if measure.key == "gap" else 0.0,
            )
            for measure in self.measures
        }

    @property
    def _resolution(self) -> float:
        """What the certificates of the optima can tell from zero."""
        known = [resolution(record) for runs in self.records.values() for record in runs if record.optimum is not None]
        return max(known, default=0.0)


@dataclass(frozen=True)
class RunTables:
    """Tables about one run alone.

    Attributes:
        tables: Title, cells and remarks of each.
        missing: Why there are none.
    """

    tables: tuple[tuple[str, Table, tuple[str, ...]], ...] = ()
    missing: str = ""


@dataclass(frozen=True)
class Content:
    """A report before it is drawn.

    Attributes:
        leaderboard: All tables.
        boards: The boards, in the order of the leaderboard.
        styles: The look of each solver, by its label.
        records: All runs, skipped ones too, oldest first.
        groups: Tables by group of the iterate that is compared, by the id of the run; empty unless they were asked for.
    """

    leaderboard: Leaderboard
    boards: tuple[BoardView, ...]
    styles: Mapping[str, Style]
    records: tuple[Record, ...]
    groups: Mapping[str, RunTables] = field(default_factory=dict)

    def ending(self, record: Record) -> Ending:
        """What a run came to."""
        return self.leaderboard.endings.get(record.run_id, Ending(record.outcome))


def gather(tables: Leaderboard, records: Iterable[Record], curves: Callable[[str], polars.DataFrame]) -> Content:
    """Compute what a report shows beside the tables.

    Args:
        tables: The comparison that the report is about.
        records: The runs it was made of; skipped ones are listed.
        curves: Gives the curve of a run by its id.
    """
    runs = tuple(sorted(records, key=lambda record: (record.started, record.run_id)))
    by_id = {record.run_id: record for record in runs}
    measured = (*MEASURES, *own_measures(runs, tables.further))
    points = _points_per_curve(sum(len(board.rows) for board in tables.boards), len(measured))
    slugs = _slugs(tables.boards)
    boards = tuple(
        _board_view(board, slug, by_id, curves, points, tables.targets[0].violation, measured)
        for board, slug in zip(tables.boards, slugs, strict=True)
    )
    labels = [row.solver for board in tables.boards for row in board.rows]
    labels += [row.solver for row in tables.profiles.rows] if tables.profiles else []
    return Content(tables, boards, styles(labels), runs)


def _points_per_curve(rows: int, measures: int) -> int:
    per_point = max(rows, 1) * len(COSTS) * measures * _NUMBERS_PER_POINT
    return max(_FEWEST_POINTS, min(_MOST_POINTS, _NUMBERS // per_point))


def _board_view(
    board: Board,
    slug: str,
    by_id: Mapping[str, Record],
    read: Callable[[str], polars.DataFrame],
    points: int,
    allowed: float | None,
    measured: Sequence[Quantity],
) -> BoardView:
    records = {row.solver: _runs(row, by_id) for row in board.rows}
    series = {label: [run_series(run, read(run.run_id), measured) for run in runs] for label, runs in records.items()}
    curves = {label: found for label, runs in series.items() if (found := solver_curves(runs, points, measured)).bands}
    shown = {pair for found in curves.values() for pair in found.bands}
    return BoardView(
        board=board,
        slug=slug,
        records=records,
        curves=curves,
        rates=_rates(records, series),
        trade_offs=trade_offs(list(records.items())),
        costs=tuple(cost for cost in COSTS if any(cost.key == key for key, _ in shown)),
        measures=tuple(measure for measure in measured if any(measure.key == key for _, key in shown)),
        allowed=_tolerance(board) if allowed is None else allowed,
    )


def _tolerance(board: Board) -> float:
    """The violation that the problem itself allows."""
    tolerance = board.problem["config"].get("tolerance")
    return float(tolerance) if isinstance(tolerance, int | float) else 0.0


def _runs(row: Row, by_id: Mapping[str, Record]) -> tuple[Record, ...]:
    return tuple(by_id[run_id] for run_id in row.run_ids)


def _rates(records: Mapping[str, Sequence[Record]], series: Mapping[str, Sequence[RunSeries]]) -> dict[str, Rate]:
    return {label: rate for label, runs in records.items() if (rate := measured_rate(runs, series[label])) is not None}


def _channels(quantity: Quantity, shown: Sequence[Array], floor: float = 0.0) -> dict[str, Spec]:
    """Both scales of a quantity, fitted to what is shown of it; a log axis does not go below the floor."""
    values = numpy.concatenate(shown)
    values = values[(values > 0) & numpy.isfinite(values)]
    ends = (max(float(values.min()), floor), max(float(values.max()), floor)) if values.size else None
    return {scale: channel(quantity, scale, ends) for scale in ("linear", "log")}


def _slugs(boards: Sequence[Board]) -> list[str]:
    """Names for links and files: problem and dataset, and where boards share them, a digest of their settings.

    The digest does not depend on what else is in the report. Only letters, digits, dashes and underscores occur: names
    may come from anybody.
    """
    names = [_plain_name(f"{board.problem['name']} on {board.dataset['name']}") for board in boards]
    shared = Counter(names)
    return [
        name if shared[name] == 1 else f"{name}-{_digest(board)}" for name, board in zip(names, boards, strict=True)
    ]


def _plain_name(text: str) -> str:
    return re.sub(r"[^a-z0-9_]+", "-", text.lower())[:_LONGEST_SLUG].strip("-")


def _digest(board: Board) -> str:
    return content_id({"of": storable([board.problem, board.dataset, board.model, board.budget])})[:8]

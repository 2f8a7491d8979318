"""The tables and sentences of the page, as plain values for its template."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from drobench.results.comparison.board import Board, Leaderboard
from drobench.results.comparison.cells import MISSING
from drobench.results.comparison.rows import Row
from drobench.results.comparison.tables import Table
from drobench.results.record import Outcome
from drobench.results.report.series import COST_LABELS
from drobench.results.report.styles import Style

_TEXT_COLUMNS = ("solver",)
_DASH = "\N{EN DASH}"
# A median with its interval, as the tables of a leaderboard write it.
_WITH_INTERVAL = re.compile(r"(?P<median>\S+) \[(?P<low>[^,\]]+), (?P<high>[^,\]]+)\](?P<rest>.*)")

_LEADING_ZERO = re.compile(r"(e[+-])0+")


@dataclass(frozen=True)
class Cell:
    """One cell: its text, a second line in small print, and for the name of a solver its style."""

    text: str
    detail: str = ""
    numeric: bool = True
    style: Style | None = None


@dataclass(frozen=True)
class TableRow:
    """One line of a table; `first` if nobody ranks above it."""

    cells: tuple[Cell, ...]
    first: bool


@dataclass(frozen=True)
class PageTable:
    """A table as cells."""

    header: tuple[Cell, ...]
    rows: tuple[TableRow, ...]


def page_table(table: Table, styles: Mapping[str, Style], leaders: Sequence[bool]) -> PageTable:
    """A text table for the page: intervals in small print, the name of a solver with its style.

    Args:
        table: The text.
        styles: By the label of the solver.
        leaders: For each row, whether nobody ranks above it.
    """
    header = tuple(Cell(name, numeric=name not in _TEXT_COLUMNS) for name in table.header)
    rows = tuple(
        TableRow(tuple(_cell(name, text, styles) for name, text in zip(table.header, cells, strict=True)), first)
        for cells, first in zip(table.rows, leaders, strict=True)
    )
    return PageTable(header, rows)


def verdict(board: Board, tables: Leaderboard) -> str:
    """Who did best, by what, and whether that is more than chance."""
    first = board.rows[0]
    if all(row.failed == row.runs for row in board.rows):
        return "Every run failed, so nobody wins. The reasons are listed under Failures."
    runs = [tables.endings.get(run_id) for row in board.rows for run_id in row.run_ids]
    if all(found is not None and found.outcome is Outcome.START_IS_OPTIMAL for found in runs):
        return "There is nothing to solve here, so nobody wins: the certified optimum is the start."
    if len(board.rows) == 1:
        return f"Only {first.solver} was run here: {_result(first, board, tables)}."
    best = f"{first.solver} did best of {len(board.rows)} solvers: {_result(first, board, tables)}."
    sharing = [row.solver for row in board.rows[1:] if row.rank == first.rank]
    if not sharing:
        return f"{best} {board.rows[1].solver}, the next, is significantly worse."
    pairs = next((found.pairs for found in board.comparisons if first.solver in (found.better, found.worse)), 0)
    with_pairs = f" with {pairs} paired seed{'' if pairs == 1 else 's'}" if pairs else ", since no seeds are shared"
    shares = "shares" if len(sharing) == 1 else "share"
    return f"{best} {_listed(sharing)} {shares} its rank: no significant difference{with_pairs}."


def compact(value: float) -> str:
    """A number as a sentence has it: 65,210 or 0.0123 or 1.18e-6."""
    if 1000 <= abs(value) < 10_000_000:
        return f"{value:,.0f}"
    return _LEADING_ZERO.sub(r"\1", f"{value:.4g}")


def _cell(name: str, text: str, styles: Mapping[str, Style]) -> Cell:
    if name == "solver":
        return Cell(text, numeric=False, style=styles[text])
    found = _WITH_INTERVAL.fullmatch(text)
    if found is None:
        return Cell(_DASH if text == MISSING else text)
    return Cell(found["median"] + found["rest"], f"{found['low']} to {found['high']}")


def _result(row: Row, board: Board, tables: Leaderboard) -> str:
    parts = []
    if row.feasible_share < 1:
        parts.append(f"{row.feasible_share:.0%} of its runs are feasible")
    cost = row.reached[0].costs[board.cost] if row.reached else None
    if cost is not None and math.isfinite(cost.median):
        parts.append(f"{tables.targets[0].label} after {compact(cost.median)} {COST_LABELS[board.cost]}")
    decided = row.median(board.ranked_by) if board.ranked_by else None
    if board.ranked_by and decided is not None and math.isfinite(decided):
        parts.append(f"median {board.ranked_by.replace('_', ' ')} {compact(decided)}")
    if row.failed:
        parts.append(f"{row.failed} of {row.runs} runs failed")
    if row.worse_than_start:
        parts.append(f"{row.worse_than_start} of {row.runs} runs ended worse than they began")
    return ", ".join(parts) or f"{row.runs} runs"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"

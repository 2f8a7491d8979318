"""Boards as tables of text cells."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from drobench.results.comparison import cells
from drobench.results.comparison.profiles import Profiles
from drobench.results.comparison.rows import Row

_INTERVAL = re.compile(r" \[[^]]*\]")
_ALWAYS_SHOWN = ("rank", "solver", "runs")
_UNEVENTFUL = {"failed": "0", "worse": "0", "feasible": "100%"}
_SHORT_UNITS = {"oracle_calls": "calls"}

Columns = dict[str, list[str]]
"""The cells of each column, by its name."""


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


def board_table(
    rows: Sequence[Row], measure: str, reference: str | None, cost: str, further: Sequence[str] = ()
) -> Table:
    """One board, without columns that say nothing here.

    Args:
        rows: Best first.
        measure: The metric that decides between feasible runs that did not reach the target.
        reference: Label of the solver that the rows are compared with; `None` if there is nothing to compare.
        cost: What reaching a target is counted in.
        further: Metrics that were asked for.
    """
    targets = _target_columns(rows, cost)
    asked = {
        name.replace("_", " "): [cells.with_interval(row.metrics[name], cells.FAILED) for row in rows]
        for name in (measure, *further)
    }
    columns = {
        **_standing_columns(rows),
        **asked,
        "test error": [cells.quality(row.median("test_error")) for row in rows],
        "violation": [cells.quality(row.median("train_max_violation")) for row in rows],
        "on test": [cells.quality(row.median("test_max_violation")) for row in rows],
        **targets,
        "tried": [cells.tried(row.tuning) for row in rows],
        **_comparison_columns(rows, reference),
    }
    first = _cost_column(rows, cost, 0) if rows[0].reached else None
    further = [name for name in targets if name not in ("seconds", first)]
    return _without_silent_columns(columns, len(rows), [*further, "on test", "seconds"])


def joined_table(tables: Mapping[str, Table]) -> Table:
    """Several tables in one, the title of each in front; a cell is empty where a table has no such column."""
    header = tuple(dict.fromkeys(name for table in tables.values() for name in table.header))
    rows = [
        (title, *(dict(zip(table.header, line, strict=True)).get(name, "") for name in header))
        for title, table in tables.items()
        for line in table.rows
    ]
    return Table(("board", *header), tuple(rows))


def profiles_table(found: Profiles) -> Table:
    """The solvers across boards."""
    rows = [
        (
            row.solver,
            f"{row.score:.3f} [{row.low:.3f}, {row.high:.3f}]",
            f"{row.reached:.0%}",
            cells.MISSING if row.speedup is None else f"{row.speedup:.3g}x",
        )
        for row in found.rows
    ]
    return Table(("solver", "score", "reached", f"speed vs {found.reference}"), tuple(rows))


def _standing_columns(rows: Sequence[Row]) -> Columns:
    sharing = Counter(row.rank for row in rows)
    return {
        "rank": [f"{row.rank}=" if sharing[row.rank] > 1 else str(row.rank) for row in rows],
        "place": [cells.positions(row.rank_interval) for row in rows],
        "solver": [row.solver for row in rows],
        "runs": [str(row.runs) for row in rows],
        "failed": [str(row.failed) for row in rows],
        "worse": [str(row.worse_than_start) for row in rows],
        "feasible": [f"{row.feasible_share:.0%}" for row in rows],
    }


def _target_columns(rows: Sequence[Row], cost: str) -> Columns:
    """What the targets cost, the easier first; of the further ones only those that some solver reached."""
    columns = {}
    numbers = range(len(rows[0].reached))
    for number in sorted(numbers, key=lambda number: -(rows[0].reached[number].target.gap or 0.0)):
        reached = [row.reached[number] for row in rows]
        if number > 0 and not any(found.share for found in reached):
            continue
        columns[_cost_column(rows, cost, number)] = [
            cells.cost(found, row, cost, with_ends=number == 0) for found, row in zip(reached, rows, strict=True)
        ]
        if number == 0 and cost != "seconds":
            columns["seconds"] = [cells.never_or(found.costs["seconds"]) for found in reached]
    return columns


def _comparison_columns(rows: Sequence[Row], reference: str | None) -> Columns:
    if reference is None:
        return {}
    return {
        f"vs {_short_reference(rows, reference)}": [cells.effect(row.comparison, row.solver) for row in rows],
        "p": [cells.p_value(row.comparison) for row in rows],
    }


def _short_reference(rows: Sequence[Row], reference: str) -> str:
    """Its name alone where that is enough."""
    name = next(row.name for row in rows if row.solver == reference)
    return name if sum(row.name == name for row in rows) == 1 else reference


def _cost_column(rows: Sequence[Row], cost: str, number: int) -> str:
    return f"{_SHORT_UNITS.get(cost, cost)} to {cells.short_target(rows[0].reached[number].target)}"


def _without_silent_columns(columns: Columns, rows: int, dispensable: Sequence[str]) -> Table:
    """Keep rank, solver and runs, and of the rest what differs from its uneventful value."""
    if columns["place"] == columns["rank"]:
        del columns["place"]
    kept = {
        name: column
        for name, column in columns.items()
        if name in _ALWAYS_SHOWN or any(cell not in (cells.MISSING, _UNEVENTFUL.get(name)) for cell in column)
    }
    lines = tuple(tuple(column[row] for column in kept.values()) for row in range(rows))
    return Table(tuple(kept), lines, tuple(name for name in dispensable if name in kept))

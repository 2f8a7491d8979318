"""Tables by group as people see them; of very many groups the worst, the largest and a summary."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import fields, replace
from itertools import groupby

from drobench.app.run_groups import ALL, RunGroups, SplitGroups
from drobench.problem.group_table import GroupRow
from drobench.reasons import reason_of
from drobench.registry import load_catalogue
from drobench.results.comparison.cells import MISSING
from drobench.results.comparison.tables import Table
from drobench.results.record import Record
from drobench.results.report.content import Content, RunTables
from drobench.results.store import ResultStore

MOST_GROUPS = 24
"""So many groups are shown whole; of more, the worst and the largest, half as many each."""

_COLUMNS = tuple(field.name for field in fields(GroupRow) if field.name not in ("group", "count", "share"))
_BAD = ("error", "rmse", "mean_loss")
"""What groups are called worst by: the first that there is."""

Named = tuple[str, GroupRow]


def group_tables(found: Sequence[SplitGroups]) -> list[tuple[str, Table, tuple[str, ...]]]:
    """Return title, table and remarks for each way to cut the rows."""
    return [_table(name, list(parts)) for name, parts in groupby(found, key=lambda part: part.grouping)]


def with_groups(content: Content, store: ResultStore) -> Content:
    """Return the content of a report with tables by group of every run it compares, or with the reason why not."""
    groups = RunGroups(store, load_catalogue())
    iterate = content.leaderboard.iterate
    runs = [record for view in content.boards for records in view.records.values() for record in records]
    return replace(content, groups={record.run_id: _tables_of(groups, record, iterate) for record in runs})


def _tables_of(groups: RunGroups, record: Record, iterate: str) -> RunTables:
    try:
        return RunTables(tables=tuple(group_tables(groups.of(record, iterate))))
    except Exception as error:  # plugins not here, other data: one run must not hide the others
        return RunTables(missing=f"No table by group: {reason_of(error)}")


def _table(name: str, parts: Sequence[SplitGroups]) -> tuple[str, Table, tuple[str, ...]]:
    columns = [column for column in _COLUMNS if any(getattr(part.whole, column) is not None for part in parts)]
    lines, remarks = [], []
    for part in parts:
        shown = _chosen(part.rows)
        lines += [_line(part.split, label, row, columns) for label, row in shown]
        if name != ALL:
            lines.append(_line(part.split, ALL, part.whole, columns))
        if len(shown) < len(part.rows):
            remarks.append(_summary(part, len(shown)))
    header = ("split", name, "count", "share", *(column.replace("_", " ") for column in columns))
    return f"By {name}" if name != ALL else "All rows", Table(header, tuple(lines)), tuple(remarks)


def _chosen(rows: Sequence[Named]) -> list[Named]:
    """The rows that are shown: all, or of many the worst first and then the largest of the others."""
    if len(rows) <= MOST_GROUPS:
        return list(rows)
    half = MOST_GROUPS // 2
    worst = sorted(rows, key=lambda named: -badness(named[1]))[:half]
    kept = {row.group for _, row in worst}
    others = [named for named in rows if named[1].group not in kept]
    return [*worst, *sorted(others, key=lambda named: -named[1].count)[:half]]


def badness(row: GroupRow) -> float:
    """How badly a group is served: its error, or else the root of its mean squared residual, or its loss."""
    return next((value for name in _BAD if (value := getattr(row, name)) is not None), -math.inf)


def _summary(part: SplitGroups, shown: int) -> str:
    name = next((name for name in _BAD if getattr(part.whole, name) is not None), None)
    worst = MOST_GROUPS // 2
    counted = f"{part.split}: {len(part.rows):,} groups"
    text = f"{counted}; shown: the {worst} worst and the {shown - worst} largest of the others"
    if name is None:
        return f"{text}."
    values = sorted(value for _, row in part.rows if (value := getattr(row, name)) is not None)
    ends = f"{name.replace('_', ' ')} from {values[0]:.4g} to {values[-1]:.4g}, median {statistics.median(values):.4g}"
    sizes = [row.count for _, row in part.rows]
    return f"{text}; of all of them {ends}; sizes from {min(sizes)} to {max(sizes):,}."


def _line(split: str, label: str, row: GroupRow, columns: Sequence[str]) -> tuple[str, ...]:
    numbers = (getattr(row, column) for column in columns)
    cells = (MISSING if number is None else f"{number:.4g}" for number in numbers)
    return (split, label, str(row.count), f"{row.share:.1%}", *cells)

"""A leaderboard as an object that people look at: in a terminal, as a data frame, in a notebook."""

import dataclasses
import html
from collections.abc import Sequence

import polars

from drobench.harmless import harmless
from drobench.results.comparison.board import Leaderboard
from drobench.results.comparison.tables import Table
from drobench.results.report.formats import TEXT_COLUMNS, csv_columns, csv_rows, reading, sections


@dataclasses.dataclass(frozen=True, repr=False)
class ShownLeaderboard(Leaderboard):
    """A leaderboard that can be printed."""

    @classmethod
    def of(cls, found: Leaderboard) -> "ShownLeaderboard":
        """Return a leaderboard with the same content."""
        return cls(**{item.name: getattr(found, item.name) for item in dataclasses.fields(found)})

    def __str__(self) -> str:
        parts = [
            "\n".join([title, "", *_aligned(table), "", *notes]).rstrip() for title, table, notes in sections(self)
        ]
        return harmless("\n\n".join([*parts, "\n".join(reading(self))]))

    def __repr__(self) -> str:
        runs = sum(row.runs for board in self.boards for row in board.rows)
        return f"<leaderboard: {len(self.boards)} boards, {runs} runs; print() and to_frame() show it>"

    def _repr_html_(self) -> str:
        # Without styles of its own, which would be those of the whole notebook; `format_html` is a page for itself.
        parts = [
            f"<h4>{_escaped(title)}</h4>{_html(table)}{_paragraphs(notes)}" for title, table, notes in sections(self)
        ]
        return "".join([*parts, _paragraphs(reading(self))])

    def to_frame(self) -> polars.DataFrame:
        """Return one row for each solver of every board, numbers with all their digits, null where there is none."""
        return polars.DataFrame(csv_rows(self), schema=csv_columns(), orient="row", infer_schema_length=None)


def _aligned(table: Table) -> list[str]:
    lines = [table.header, *table.rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [_line(table.header, cells, widths) for cells in lines]


def _line(header: Sequence[str], cells: Sequence[str], widths: Sequence[int]) -> str:
    aligned = (
        cell.ljust(width) if name in TEXT_COLUMNS else cell.rjust(width)
        for name, cell, width in zip(header, cells, widths, strict=True)
    )
    return "  ".join(aligned).rstrip()


def _html(table: Table) -> str:
    head = "".join(f"<th>{_escaped(name)}</th>" for name in table.header)
    rows = ("".join(f"<td>{_escaped(cell)}</td>" for cell in row) for row in table.rows)
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _paragraphs(lines: Sequence[str]) -> str:
    return "".join(f"<p><small>{_escaped(line)}</small></p>" for line in lines)


def _escaped(text: str) -> str:
    return html.escape(harmless(text))

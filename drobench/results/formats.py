"""A leaderboard as text: for people (plain, Markdown) and for programs (CSV, JSON)."""

import csv
import io
import json
from collections.abc import Sequence
from typing import Any

from drobench.results.board import METRICS, Board, Leaderboard, Row, Summary
from drobench.results.fields import storable

_SEPARATOR = "  "
_TEXT_COLUMNS = ("solver",)


def format_plain(leaderboard: Leaderboard) -> str:
    """Aligned columns for a terminal or a text file."""
    parts = []
    for board in leaderboard.boards:
        table = board.to_table()
        widths = [max(len(line[column]) for line in (table.header, *table.rows)) for column in range(len(table.header))]
        lines = [_aligned(cells, table.header, widths) for cells in (table.header, *table.rows)]
        lines.insert(1, _SEPARATOR.join("-" * width for width in widths))
        parts.append("\n".join([board.title, "", *lines, "", *_remarks(leaderboard, board)]))
    return "\n\n".join(parts) + "\n"


def format_markdown(leaderboard: Leaderboard) -> str:
    """One section with a table per board."""
    parts = []
    for board in leaderboard.boards:
        table = board.to_table()
        rule = ["---" if name in _TEXT_COLUMNS else "---:" for name in table.header]
        lines = [_markdown_row(cells) for cells in (table.header, rule, *table.rows)]
        remarks = [f"- {_escaped(remark)}" for remark in _remarks(leaderboard, board)]
        parts.append("\n".join([f"## {_escaped(board.title)}", "", *lines, "", *remarks]))
    return "\n\n".join(parts) + "\n"


def format_csv(leaderboard: Leaderboard) -> str:
    """One line per solver of every board, numbers with all their digits, empty where there is none."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    intervals = [column for metric in METRICS for column in (metric, f"{metric}_low", f"{metric}_high")]
    writer.writerow(["board", "problem", "dataset", "rank", "solver", "runs", "failed", *intervals, "feasible_share"])
    for board in leaderboard.boards:
        for row in board.rows:
            numbers = [end for metric in METRICS for end in _ends(row.metrics[metric])]
            place = [board.title, board.problem["name"], board.dataset["name"]]
            writer.writerow([*place, row.rank, row.solver, row.runs, row.failed, *numbers, row.feasible_share])
    return text.getvalue()


def format_json(leaderboard: Leaderboard) -> str:
    """Strict JSON with everything the leaderboard knows; null for what is missing or was never reached."""
    content = {
        "target_gap": leaderboard.target_gap,
        "iterate": leaderboard.iterate,
        "boards": [_board_content(board) for board in leaderboard.boards],
    }
    return json.dumps(storable(content), indent=2, allow_nan=False) + "\n"


def _board_content(board: Board) -> dict[str, Any]:
    return {
        "title": board.title,
        "problem": board.problem,
        "dataset": board.dataset,
        "model": board.model,
        "budget": board.budget,
        "ranked_by": board.ranked_by,
        "notes": board.notes,
        "rows": [_row_content(row) for row in board.rows],
    }


def _row_content(row: Row) -> dict[str, Any]:
    return {
        "rank": row.rank,
        "solver": row.solver,
        "name": row.name,
        "config": row.config,
        "runs": row.runs,
        "failed": row.failed,
        "seeds": row.seeds,
        "run_ids": row.run_ids,
        "feasible_share": row.feasible_share,
        **{metric: _summary_content(row.metrics[metric]) for metric in METRICS},
    }


def _summary_content(summary: Summary | None) -> dict[str, float] | None:
    return None if summary is None else {"median": summary.median, "low": summary.low, "high": summary.high}


def _ends(summary: Summary | None) -> list[Any]:
    """Median, low and high with all digits; `csv` writes None as an empty cell."""
    return [None] * 3 if summary is None else storable([summary.median, summary.low, summary.high])


def _remarks(leaderboard: Leaderboard, board: Board) -> list[str]:
    """How to read the table, then what to beware of."""
    decided = f", then median {board.ranked_by.replace('_', ' ')}" if board.ranked_by else ""
    reading = (
        f"Medians over seeds of the `{leaderboard.iterate}` iterate; in brackets the 95% bootstrap interval. "
        f"Target: relative gap of at most {leaderboard.target_gap:g}. "
        f"Rank: feasible share, failed share, passes to target{decided}."
    )
    return [reading, *board.notes]


def _aligned(cells: Sequence[str], header: Sequence[str], widths: Sequence[int]) -> str:
    """Text to the left, numbers to the right."""
    padded = [
        cell.ljust(width) if name in _TEXT_COLUMNS else cell.rjust(width)
        for cell, name, width in zip(cells, header, widths, strict=True)
    ]
    return _SEPARATOR.join(padded).rstrip()


def _markdown_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(_escaped(cell) for cell in cells) + " |"


def _escaped(text: str) -> str:
    """Text that cannot break the table: a bar would end the cell, a line break the row."""
    return text.replace("|", "\\|").replace("\n", " ")

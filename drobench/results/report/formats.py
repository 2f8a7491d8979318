"""A leaderboard as text: for people (Markdown) and for programs (CSV, JSON)."""

import csv
import dataclasses
import io
import json
import re
from collections.abc import Sequence
from typing import Any

from drobench.results.comparison.board import Board, Leaderboard
from drobench.results.comparison.metrics import METRICS
from drobench.results.comparison.profiles import LARGEST_RATIO, Profiles
from drobench.results.comparison.rows import Comparison, Row, Summary
from drobench.results.comparison.tables import Table, profiles_table
from drobench.results.fields import storable

TEXT_COLUMNS = ("solver", "board")
"""The columns that are not numbers."""

PROFILES_TITLE = "Across boards"
# What Markdown takes for the beginning of code, emphasis, links or an escape. Within a word, _ is just a letter.
_MARKS = re.compile(r"[\\`*~\[\]]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
# What HTML takes for the beginning of a tag or a character, and Markdown for the address of a link.
_TAG, _ENTITY, _LINK = (
    re.compile(r"<(?=[A-Za-z/!?])"),
    re.compile(r"&(?=#|[A-Za-z])"),
    re.compile(r"(?<!\\)\](?=[(\[])"),
)
# With these a cell of a spreadsheet begins that is computed.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_CSV_BEGIN = (
    *("board", "problem", "dataset", "iterate", "target"),
    *("rank", "rank_low", "rank_high", "mean_place", "solver"),
    *("runs", "failed", "worse_than_start", "feasible_share", "reached_share"),
)
_CSV_END = (
    *("compared_with", "pairs", "p_value", "p_adjusted", "quantity", "effect", "effect_low", "effect_high"),
    *("configurations_tried", "tuning_oracle_calls", "tuning_seconds"),
)


def format_markdown(leaderboard: Leaderboard) -> str:
    """One section with a table per board."""
    parts = []
    for title, table, remarks in sections(leaderboard):
        rule = ["---" if name in TEXT_COLUMNS else "---:" for name in table.header]
        rows = [_markdown_row(table.header, cells) for cells in table.rows]
        lines = [_joined(table.header), _joined(rule), *rows]
        parts.append("\n".join([f"## {_label(title)}", "", *lines, "", *_listed(remarks)]).rstrip())
    return "\n\n".join([*parts, "\n".join(_listed(reading(leaderboard)))]) + "\n"


def format_csv(leaderboard: Leaderboard) -> str:
    """One line per solver of every board, numbers with all their digits, empty where there is none."""
    text = io.StringIO()
    rows = [[_csv_cell(value) for value in row] for row in csv_rows(leaderboard)]
    # `csv` writes None as an empty cell.
    csv.writer(text, lineterminator="\n").writerows([csv_columns(leaderboard.further), *rows])
    return text.getvalue()


def csv_columns(further: Sequence[str] = ()) -> list[str]:
    """The names of the columns of `csv_rows`, the first of which is the title of the board.

    Args:
        further: Metrics that are summarised because they were asked for.
    """
    shown = (*METRICS, *further)
    intervals = [column for metric in shown for column in (metric, f"{metric}_low", f"{metric}_high")]
    return [*_CSV_BEGIN, *intervals, *_CSV_END]


def csv_rows(leaderboard: Leaderboard) -> list[list[Any]]:
    """One row of texts and numbers per solver of every board, `None` where there is none."""
    return [_csv_row(leaderboard, board, row) for board in leaderboard.boards for row in board.rows]


def _csv_row(leaderboard: Leaderboard, board: Board, row: Row) -> list[Any]:
    low, high = row.rank_interval or (None, None)
    target = leaderboard.targets[0].label
    return [
        *(board.title, board.problem["name"], board.dataset["name"], leaderboard.iterate, target),
        *(row.rank, low, high, row.mean_place, row.solver),
        *(row.runs, row.failed, row.worse_than_start, row.feasible_share, row.reached[0].share),
        *(end for metric in (*METRICS, *leaderboard.further) for end in _ends(row.metrics[metric])),
        *_comparison_cells(row, board.reference),
        *_tuning_cells(row),
    ]


def format_json(leaderboard: Leaderboard) -> str:
    """Strict JSON with everything the leaderboard knows; null for what is missing or was never reached."""
    content = {
        "iterate": leaderboard.iterate,
        "target_gap": leaderboard.target_gap,
        "targets": [dict(target.limits) for target in leaderboard.targets],
        "cost": leaderboard.cost,
        "baseline": leaderboard.baseline,
        "selection": leaderboard.selection,
        "notes": leaderboard.notes,
        "profiles": None if leaderboard.profiles is None else dataclasses.asdict(leaderboard.profiles),
        "boards": [_board_content(board) for board in leaderboard.boards],
    }
    return json.dumps(storable(content), indent=2, allow_nan=False) + "\n"


def sections(leaderboard: Leaderboard) -> list[tuple[str, Table, tuple[str, ...]]]:
    """Title, table and notes of each board, then of the profiles across boards."""
    found = [(board.title, board.to_table(), board.notes) for board in leaderboard.boards]
    if leaderboard.profiles is not None:
        across = leaderboard.profiles
        found.append((PROFILES_TITLE, profiles_table(across), profile_notes(across)))
    return found


def reading(leaderboard: Leaderboard) -> list[str]:
    """How to read the tables, then what concerns more than one of them."""
    first = f"fewer {leaderboard.cost.replace('_', ' ')} to the target; without it "
    lines = [
        f"Medians over seeds of the `{leaderboard.iterate}` iterate; in brackets the 95% bootstrap interval. "
        f"Target: {leaderboard.targets[0].label}.",
        f"Seed by seed: {first if leaderboard.iterate == 'last' else ''}{_measures(leaderboard)} if feasible, "
        "else the smaller violation; failed last. A rank is shared (=) unless the signed-rank test, adjusted for all "
        "pairs of solvers (Holm), says at 5% that a solver is worse than the first of its group.",
    ]
    if any(row.worse_than_start for board in leaderboard.boards for row in board.rows):
        lines.append(
            "`worse` counts runs whose last iterate the start dominates: a higher objective without less violation, or "
            "more violation without a lower objective. Of runs that reached the target, and of infeasible ones, they "
            "come last."
        )
    if leaderboard.selection is not None:
        lines.append(
            f"One configuration per solver, chosen on {leaderboard.selection} data; `tried` is how many there were and "
            "what all of them cost."
        )
    return [*lines, *leaderboard.notes]


def profile_notes(found: Profiles) -> tuple[str, ...]:
    """What the score across boards means, and what it leaves out."""
    notes = [
        f"Over {found.instances} targets on {len(found.boards)} boards: score is the mean share of targets reached "
        f"with 1 to {LARGEST_RATIO:g} times the least {found.cost.replace('_', ' ')} (1 = always first; in brackets "
        "the 95% interval over seeds); speed is a geometric mean."
    ]
    if found.unsolved:
        notes.append(f"Left out: {_counted(found.unsolved, 'target')} that no solver reached.")
    if found.left_out:
        notes.append(f"Left out: {_counted(len(found.left_out), 'board')} without runs of all these solvers.")
    return tuple(notes)


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _measures(leaderboard: Leaderboard) -> str:
    names = dict.fromkeys(board.ranked_by or "objective" for board in leaderboard.boards)
    larger = [name for name in names if name in leaderboard.more_is_better]
    smaller = [name for name in names if name not in larger]
    kinds = [
        f"the {which} " + " or ".join(name.replace("_", " ") for name in found)
        for which, found in (("smaller", smaller), ("larger", larger))
        if found
    ]
    return ", or ".join(kinds)


def _board_content(board: Board) -> dict[str, Any]:
    return {
        "title": board.title,
        "problem": board.problem,
        "dataset": board.dataset,
        "model": board.model,
        "budget": board.budget,
        "ranked_by": board.ranked_by,
        "reference": board.reference,
        "notes": board.notes,
        "rows": [_row_content(row) for row in board.rows],
        "comparisons": [dataclasses.asdict(comparison) for comparison in board.comparisons],
    }


def _row_content(row: Row) -> dict[str, Any]:
    return {
        "rank": row.rank,
        "rank_interval": row.rank_interval,
        "mean_place": row.mean_place,
        "solver": row.solver,
        "name": row.name,
        "config": row.config,
        "runs": row.runs,
        "failed": row.failed,
        "worse_than_start": row.worse_than_start,
        "seeds": row.seeds,
        "run_ids": row.run_ids,
        "feasible_share": row.feasible_share,
        **{metric: _summary_content(summary) for metric, summary in row.metrics.items()},
        "reached": [
            {
                "target": dict(reached.target.limits),
                "share": reached.share,
                "costs": {cost: _summary_content(summary) for cost, summary in reached.costs.items()},
            }
            for reached in row.reached
        ],
        "tuning": None if row.tuning is None else dataclasses.asdict(row.tuning),
    }


def _summary_content(summary: Summary | None) -> dict[str, float] | None:
    return None if summary is None else {"median": summary.median, "low": summary.low, "high": summary.high}


def _comparison_cells(row: Row, reference: str | None) -> list[Any]:
    """The comparison with the reference, as seen from this row: positive, or above 1, where it is worse."""
    found = row.comparison
    if found is None:
        return [None] * 8
    return [reference, found.pairs, found.p_value, found.p_adjusted, found.quantity, *_seen_from(row, found)]


def _seen_from(row: Row, found: Comparison) -> list[Any]:
    if found.effect is None:
        return [None] * 3
    ends = [found.effect.median, found.effect.low, found.effect.high]
    if found.worse != row.solver:
        ends = [1 / end if end else float("inf") for end in ends] if found.is_ratio else [-end for end in ends]
        ends = [ends[0], ends[2], ends[1]]
    return [storable(end) for end in ends]


def _tuning_cells(row: Row) -> list[Any]:
    if row.tuning is None:
        return [None] * 3
    return [row.tuning.configurations, row.tuning.oracle_calls, row.tuning.seconds]


def _ends(summary: Summary | None) -> list[Any]:
    """Median, low and high with all digits."""
    return [None] * 3 if summary is None else storable([summary.median, summary.low, summary.high])


def _markdown_row(header: Sequence[str], cells: Sequence[str]) -> str:
    """A row of the table; the brackets of intervals are ours, those of names may be anybody's."""
    pairs = zip(header, cells, strict=True)
    return _joined([_label(cell) if name in TEXT_COLUMNS else _sentence(cell) for name, cell in pairs])


def _joined(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _listed(remarks: Sequence[str]) -> list[str]:
    return [f"- {_sentence(remark)}" for remark in remarks]


def _label(text: str) -> str:
    """A name with settings, none of which is taken for Markdown."""
    return _sentence(_MARKS.sub(r"\\\g<0>", text))


def _sentence(text: str) -> str:
    """Text that cannot break a table or become HTML or a link; marks of our own sentences, such as ``, stay marks."""
    plain = text.replace("|", "\\|").replace("\r", " ").replace("\n", " ")
    return _LINK.sub(r"\\]", _TAG.sub("&lt;", _ENTITY.sub("&amp;", plain)))


def _csv_cell(value: Any) -> Any:
    """The value; a text that a spreadsheet would take for a formula begins with an apostrophe."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value

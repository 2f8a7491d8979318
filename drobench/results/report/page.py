"""The report: one HTML file that needs nothing else.

Names, reasons and settings come from strangers. As text they are escaped by the template; as data they travel
deflated and in base64, and the script of the page writes them with `textContent` only. A content security policy allows
exactly the two scripts and the one style sheet of the page, by their checksums, and no connection at all.
"""

import base64
import hashlib
import zlib
from collections.abc import Sequence
from functools import cache
from typing import Any

import vl_convert

from drobench import __version__
from drobench.results.comparison.board import Board
from drobench.results.comparison.labels import flattened
from drobench.results.comparison.tables import profiles_table
from drobench.results.outcome import Ending, in_words, matter
from drobench.results.record import FAILURES, ITERATES, Outcome, Record, Status
from drobench.results.report import page_texts as texts
from drobench.results.report.content import BoardView, Content
from drobench.results.report.formats import profile_notes
from drobench.results.report.page_data import payload
from drobench.results.report.plots import VEGA_LITE
from drobench.results.report.styles import DARK, LIGHT, Style
from drobench.results.report.tables import page_table, verdict
from drobench.results.report.templates import asset, rendered
from drobench.results.report.tradeoff import SPLITS

# The markers of `styles` as they are drawn beside a name, in a square of ten by ten around the origin.
_MARKER_PATHS = {
    "circle": "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0Z",
    "square": "M-3.6 -3.6h7.2v7.2h-7.2Z",
    "triangle-up": "M0 -4.4L4.6 3.6H-4.6Z",
    "diamond": "M0 -5L4 0L0 5L-4 0Z",
    "cross": "M-1.5 -4.5h3v3h3v3h-3v3h-3v-3h-3v-3h3Z",
    "triangle-down": "M0 4.4L4.6 -3.6H-4.6Z",
    "triangle-right": "M4.4 0L-3.6 4.6V-4.6Z",
    "triangle-left": "M-4.4 0L3.6 4.6V-4.6Z",
}


def report_page(content: Content) -> str:
    """Draw the report; the same content gives the same text.

    Args:
        content: What `gather` found.
    """
    css = _series_colours() + asset("page.css")
    script = asset("page.js")
    library = _library()
    boards = [_board_context(content, view) for view in content.boards]
    runs = [_run_line(record, content.ending(record)) for record in content.records]
    troubles = [line for line in runs if line["listed"]]
    return rendered(
        "page.html.jinja",
        policy=_policy([script, library], [css]),
        version=__version__,
        css=css,
        script=script,
        library=_packed(library),
        data=_packed(payload(content)),
        markers=_MARKER_PATHS,
        page={"title": texts.title(content), "summary": texts.summary(content)},
        boards=boards,
        profiles=_profiles_context(content),
        notes=content.leaderboard.notes,
        runs=runs,
        failures=troubles,
        failure_summary=texts.failure_summary(content),
        terms=texts.TERMS,
    )


@cache
def _library() -> str:
    """Vega, Vega-Lite and Vega-Embed in one script; bundling takes seconds, so it is done once per process."""
    return str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=VEGA_LITE))


def _series_colours() -> str:
    pairs = enumerate(zip(LIGHT, DARK, strict=True))
    return ":root{" + "".join(f"--series-{place}:light-dark({light},{dark});" for place, (light, dark) in pairs) + "}\n"


def _policy(scripts: Sequence[str], sheets: Sequence[str]) -> str:
    allowed = {"script-src": scripts, "style-src": sheets}
    rules = [f"{name} {' '.join(_checksum(text) for text in texts)}" for name, texts in allowed.items()]
    closed = ("default-src", "connect-src", "base-uri", "form-action")
    return "; ".join([*(f"{name} 'none'" for name in closed), *rules])


def _checksum(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _packed(text: str) -> str:
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def _board_context(content: Content, view: BoardView) -> dict[str, Any]:
    board = view.board
    iterates = [name for name in ITERATES if any(name == iterate for iterate, _ in view.trade_offs)]
    splits = [name for name in SPLITS if any(name == split for _, split in view.trade_offs)]
    rates = [_rate_line(content.styles[row.solver], view) for row in board.rows if row.solver in view.rates]
    settings = {"problem": board.problem["config"], "dataset": board.dataset["config"]}
    settings |= {"model": board.model, "budget": board.budget}
    return {
        "anchor": f"board-{view.slug}",
        "title": board.title,
        "facts": texts.facts(view),
        "verdict": verdict(board, content.leaderboard),
        "table": page_table(board.to_table(), content.styles, _leaders(board)),
        "reading": texts.reading(content),
        "notes": board.notes,
        "measures": view.measures,
        "costs": view.costs,
        "styles": view.styles(content.styles),
        "curve_note": texts.curve_note(view),
        "iterates": [{"key": name, "label": texts.ITERATE_LABELS[name]} for name in iterates],
        "splits": [{"key": name, "label": texts.SPLIT_LABELS[name]} for name in splits],
        "no_trade_off": texts.no_trade_off(view),
        "groups": _group_lines(content, view),
        "iterate": texts.ITERATE_LABELS[content.leaderboard.iterate],
        "rates": rates,
        "claims": any(rate["claimed"] for rate in rates),
        "settings": [(name, texts.setting(value)) for name, value in flattened(settings).items()],
    }


def _group_lines(content: Content, view: BoardView) -> list[dict[str, Any]]:
    """The tables by group of each run of a board, in the order of its rows."""
    return [
        {"id": record.short_id, "solver": row.solver, "seed": record.seed, "found": found}
        for row in view.board.rows
        for record in view.records[row.solver]
        if (found := content.groups.get(record.run_id)) is not None
    ]


def _leaders(board: Board) -> list[bool]:
    """Which rows stand out; none where all share the first rank."""
    return [row.rank == 1 < board.rows[-1].rank for row in board.rows]


def _profiles_context(content: Content) -> dict[str, Any] | None:
    found = content.leaderboard.profiles
    if found is None:
        return None
    best = max(row.score for row in found.rows)
    return {
        "table": page_table(profiles_table(found), content.styles, [row.score == best for row in found.rows]),
        "styles": [content.styles[row.solver] for row in found.rows],
        "notes": profile_notes(found),
    }


def _rate_line(style: Style, view: BoardView) -> dict[str, Any]:
    rate = view.rates[style.label]
    return {
        "style": style,
        "label": style.label,
        "slope": texts.signed(rate.slope),
        "interval": f"{texts.signed(rate.low)} to {texts.signed(rate.high)}",
        "source": rate.interval,
        "fit": f"{rate.fit:.2f}",
        "runs": rate.runs,
        "claimed": rate.claimed or "",
    }


def _run_line(record: Record, ending: Ending) -> dict[str, Any]:
    failed, skipped = record.status in FAILURES, record.status is Status.SKIPPED
    told = None if failed else matter(record, ending)
    return {
        "id": record.short_id,
        "kind": "bad" if failed else "warn" if skipped or told else "good",
        "listed": failed or skipped or ending.outcome is Outcome.WORSE_THAN_START,
        "status": record.status.replace("_", " "),
        "outcome": in_words(ending.outcome) if told and ending.outcome is not None else "",
        "solver": record.solver.name,
        "problem": record.problem.name,
        "dataset": record.dataset.name,
        "seed": record.seed,
        "reason": "; ".join(text for text in (told, record.reason) if text) or "no reason given",
        "result": texts.run_result(record),
    }

"""A leaderboard as one HTML page without scripts or anything to load."""

from drobench.results.comparison.board import Leaderboard
from drobench.results.report.formats import TEXT_COLUMNS, reading, sections
from drobench.results.report.templates import rendered


def format_html(leaderboard: Leaderboard) -> str:
    """The boards as tables, and how to read them."""
    return rendered(
        "leaderboard.html.jinja",
        sections=sections(leaderboard),
        reading=reading(leaderboard),
        text_columns=TEXT_COLUMNS,
    )

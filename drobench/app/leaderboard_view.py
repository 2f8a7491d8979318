"""The leaderboard as a person sees it in the terminal."""

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from drobench.app.console import table
from drobench.results.comparison.board import Leaderboard
from drobench.results.comparison.tables import Table as TextTable
from drobench.results.report.formats import TEXT_COLUMNS, reading, sections

_UNLIMITED = 10_000


def show_leaderboard(console: Console, found: Leaderboard) -> None:
    """Print every board and what holds across boards; CSV and JSON have all there is."""
    for title, content, notes in sections(found):
        console.print(_fitting(console, title, content))
        for note in notes:
            console.print(f"[dim]{escape(note)}[/dim]")
        console.print()
    for line in reading(found):
        console.print(f"[dim]{escape(line)}[/dim]")


def _fitting(console: Console, title: str, content: TextTable) -> Table:
    """Return the table without columns that can be spared, and then without intervals, if there is no room for them."""
    right = [position for position, name in enumerate(content.header) if name not in TEXT_COLUMNS]
    shown = table(title, content.header, content.rows, right)
    shown.collapse_padding, shown.pad_edge = True, False
    # Measured as if there were room for anything: with the console's own width nothing would ever seem too wide.
    if console.measure(shown, options=console.options.update(max_width=_UNLIMITED)).maximum <= console.width:
        return shown
    if content.dispensable:
        return _fitting(console, title, content.without(content.dispensable[0]))
    shorter = content.without_intervals()
    return shown if shorter == content else _fitting(console, title, shorter)

"""What all commands share of the terminal: the console, tables, colours, and the line that follows a run."""

import os
from collections.abc import Iterable, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from drobench.harmless import harmless
from drobench.results.record import FAILURES, Outcome, Status


class HarmlessConsole(Console):
    """A console that shows what a text contains instead of obeying it; its own colours are markup, and stay."""

    def print(self, *objects: Any, **options: Any) -> None:
        """Print texts made harmless, and everything else as it is."""
        super().print(*(harmless(item) if isinstance(item, str) else item for item in objects), **options)


def open_console(width: int = 200) -> Console:
    """Return the console that commands print to.

    Args:
        width: Where there is no terminal that has one.
    """
    console = HarmlessConsole(highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        # A file or a pipe has no width: cutting columns there would only lose content.
        console = HarmlessConsole(highlight=False, width=width)
    return console


def table(title: str | None, header: Sequence[str], rows: Iterable[Sequence[str]], right: Iterable[int] = ()) -> Table:
    """Return a table; all text is taken literally, since names come from strangers' plugins."""
    shown = None if title is None else _literally(title)
    result = Table(title=shown, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    numeric = set(right)
    for position, name in enumerate(header):
        result.add_column(
            _literally(name),
            justify="right" if position in numeric else "left",
            overflow="fold",
            no_wrap=name == "solver",
        )
    for row in rows:
        result.add_row(*(_literally(cell) for cell in row))
    return result


def _literally(text: str) -> str:
    return escape(harmless(text))


def status_style(status: Status, outcome: Outcome | None = None) -> str:
    """Return the colour of a status: green only where nothing is the matter with the outcome either."""
    if status in FAILURES:
        return "red"
    return "green" if status is not Status.SKIPPED and outcome in (Outcome.OK, None) else "yellow"


class LiveLine:
    """A line that follows a run in a terminal, and stays away from files and pipes."""

    def __init__(self, console: Console) -> None:
        self.status = console.status("starting") if console.is_terminal else None
        self.rows = 0

    def __enter__(self) -> "LiveLine":
        if self.status is not None:
            self.status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.status is not None:
            self.status.stop()

    def __call__(self, row: dict[str, Any]) -> None:
        """Show the newest evaluation."""
        self.rows += 1
        if self.status is not None:
            gap = "" if row["gap"] is None else f"  gap {row['gap']:.3e}"
            self.status.update(f"step {row['step']}  passes {row['passes']:.1f}  objective {row['objective']:.8g}{gap}")

"""What all commands share of the terminal: the console, tables, colours, and the line that follows a run."""

import os
from collections.abc import Iterable, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from drobench.results.record import FAILURES, Outcome, Status


def open_console() -> Console:
    """Return the console that commands print to."""
    console = Console(highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        # A file or a pipe has no width: cutting columns there would only lose content.
        console = Console(highlight=False, width=200)
    return console


def table(title: str | None, header: Sequence[str], rows: Iterable[Sequence[str]], right: Iterable[int] = ()) -> Table:
    """Return a table; all text is taken literally, since names come from strangers' plugins."""
    shown = None if title is None else escape(title)
    result = Table(title=shown, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    numeric = set(right)
    for position, name in enumerate(header):
        result.add_column(
            escape(name), justify="right" if position in numeric else "left", overflow="fold", no_wrap=name == "solver"
        )
    for row in rows:
        result.add_row(*(escape(cell) for cell in row))
    return result


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

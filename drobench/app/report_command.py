"""The commands `report` and `plot`: what the leaderboard compares, drawn."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from drobench.errors import DrobenchError
from drobench.files import write_atomically
from drobench.results.comparison.board import Leaderboard
from drobench.results.record import Record
from drobench.results.report.content import gather
from drobench.results.report.page import report_page
from drobench.results.report.plots import write_plots
from drobench.results.store import ResultStore

REPORT_NAME = "report.html"


class ReportUnwritable(DrobenchError):
    """The report cannot be written where it should go."""


def report_command(
    store: ResultStore, records: Sequence[Record], found: Leaderboard, output: Path, console: Console
) -> int:
    """Write the report and say where it is."""
    size = write_report(store, records, found, output)
    runs = "1 run" if len(records) == 1 else f"{len(records)} runs"
    console.print(f"{escape(str(output))}: {runs}, {size / 1e6:.1f} MB. Open it in a browser.", soft_wrap=True)
    return 0


def plot_command(
    store: ResultStore,
    records: Sequence[Record],
    found: Leaderboard,
    output: Path,
    formats: Sequence[str],
    console: Console,
) -> int:
    """Write the figures and list them."""
    written = write_plots(gather(found, records, store.curve), output, formats)
    if not written:
        raise DrobenchError(
            "There is nothing to draw: no run was evaluated even once. `drobench report` lists the reasons."
        )
    for file in written:
        console.print(escape(str(file)), soft_wrap=True)
    return 0


def write_report(store: ResultStore, records: Sequence[Record], found: Leaderboard, file: Path) -> int:
    """Write the report of a comparison; it appears complete or not at all.

    Returns:
        Its size in bytes.

    Raises:
        ReportUnwritable: If the file cannot be written.
    """
    page = report_page(gather(found, records, store.curve)).encode()
    try:
        write_atomically(file, page)
    except OSError as error:
        raise ReportUnwritable(f"The report cannot be written to {file} ({error}). Choose another place.") from error
    return len(page)

"""The report of a comparison as a file, which appears complete or not at all."""

from collections.abc import Sequence
from pathlib import Path

from drobench.errors import DrobenchError
from drobench.files import write_atomically
from drobench.results.comparison.board import Leaderboard
from drobench.results.record import Record
from drobench.results.report.content import gather
from drobench.results.report.page import report_page
from drobench.results.store import ResultStore

REPORT_NAME = "report.html"


class ReportUnwritable(DrobenchError):
    """The report cannot be written where it should go."""


def write_report(store: ResultStore, records: Sequence[Record], found: Leaderboard, file: Path) -> int:
    """Write the report of a comparison.

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

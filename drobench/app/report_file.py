"""The report of a comparison as a file, which appears complete or not at all."""

from pathlib import Path

from drobench.errors import DrobenchError
from drobench.files import write_atomically
from drobench.results.report.content import Content
from drobench.results.report.page import report_page

REPORT_NAME = "report.html"


class ReportUnwritable(DrobenchError):
    """The report cannot be written where it should go."""


def write_report(content: Content, file: Path) -> int:
    """Write the report of a comparison.

    Returns:
        Its size in bytes.

    Raises:
        ReportUnwritable: If the file cannot be written.
    """
    if file.is_dir():
        raise ReportUnwritable(f"The report is a file; {file} is a folder. Name a file in it: {file / REPORT_NAME}.")
    page = report_page(content).encode()
    try:
        write_atomically(file, page)
    except (OSError, ValueError) as error:
        raise ReportUnwritable(f"The report cannot be written to {file} ({error}). Choose another place.") from error
    return len(page)

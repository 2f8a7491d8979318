"""`drobench leaderboard`, `report` and `plot`: the comparison of stored runs, printed or drawn."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from drobench.app.commands.parsing import AddCommand, add_results, add_run_choice, chosen_runs, results_of, words
from drobench.errors import DrobenchError
from drobench.harmless import harmless

if TYPE_CHECKING:
    from collections.abc import Callable

    from drobench.results.comparison.question import Question
    from drobench.results.record import Record
    from drobench.results.store import ResultStore, Trouble


def add_commands(add: AddCommand) -> None:
    """Add the commands of this family."""
    board = add("leaderboard", leaderboard, "compare the solvers", "drobench leaderboard --format markdown")
    board.add_argument("--format", choices=["table", "markdown", "csv", "json", "html"], default="table")
    page = add("report", report, "draw the comparison as one HTML page", "drobench report --output report.html")
    page.add_argument("--output", type=Path, default=Path("report.html"), metavar="FILE", help="default report.html")
    page.add_argument(
        "--groups", action="store_true",
        help="with a table by group for each run, computed from its solution; needs the data, and time for each run",
    )  # fmt: skip
    figures = add("plot", plot, "draw the figures as files for papers", "drobench plot --output figures --format svg")
    figures.add_argument(
        "--output", type=Path, default=Path("figures"), metavar="DIR", help="folder (default figures/)"
    )
    figures.add_argument("--format", default="png,svg", help="png, svg, or both separated by a comma (default)")
    for parser in (board, page, figures):
        _add_comparison(parser)
        add_results(parser)


def leaderboard(options: argparse.Namespace) -> int:
    """Print the comparison."""
    from drobench.app.stored_comparison import compare_stored
    from drobench.results.report.formats import format_csv, format_json, format_markdown
    from drobench.results.report.pages import format_html

    found = compare_stored(*_asked(options)).leaderboard
    formats = {"markdown": format_markdown, "csv": format_csv, "json": format_json, "html": format_html}
    if options.format in formats:
        print(formats[options.format](found), end="")
        return 0
    from drobench.app.console import open_console
    from drobench.app.leaderboard_view import show_leaderboard

    show_leaderboard(open_console(), found)
    return 0


def report(options: argparse.Namespace) -> int:
    """Write the report and say where it is."""
    from rich.markup import escape

    from drobench.app.console import open_console
    from drobench.app.report_file import write_report
    from drobench.app.stored_comparison import draw_stored

    asked = _asked(options)
    found, content = draw_stored(*asked)
    if options.groups:
        from drobench.app.group_view import with_groups

        content = with_groups(content, asked[0])
    size = write_report(content, options.output)
    runs = "1 run" if len(found.records) == 1 else f"{len(found.records)} runs"
    open_console().print(
        f"{escape(str(options.output))}: {runs}, {size / 1e6:.1f} MB. Open it in a browser.", soft_wrap=True
    )
    return 0


def plot(options: argparse.Namespace) -> int:
    """Write the figures and list them."""
    from rich.markup import escape

    from drobench.app.console import open_console
    from drobench.app.stored_comparison import draw_stored
    from drobench.results.report.plots import write_plots

    _, content = draw_stored(*_asked(options))
    written = write_plots(content, options.output, words(options.format))
    if not written:
        raise DrobenchError(
            "There is nothing to draw: no run was evaluated even once. `drobench report` lists the reasons."
        )
    console = open_console()
    for file in written:
        console.print(escape(str(file)), soft_wrap=True)
    return 0


def _add_comparison(parser: argparse.ArgumentParser) -> None:
    """Add which runs are compared, and how; the results room checks what it knows, so that help needs none of it."""
    asked = parser.add_argument_group("what is asked")
    asked.add_argument(
        "--target", action="append", default=[], metavar="METRIC=NUMBER,...",
        help="what counts as solved, e.g. gap=1e-4 or error=0.2,violation=0.01; again for further ones, of which the "
        "first decides the ranks (default gap=1e-4, then 1e-2 and 1e-6; gap is relative)",
    )  # fmt: skip
    asked.add_argument("--target-gap", type=float, metavar="NUMBER", help="short for --target gap=NUMBER")
    asked.add_argument(
        "--cost", choices=["passes", "oracle_calls", "seconds", "bytes"], default="passes", help="of reaching a target"
    )
    asked.add_argument(
        "--by", metavar="METRIC",
        help="what decides without a target: gap, objective, test_error, ..., or a metric of the problem, such as "
        "test_worst_group_error",
    )  # fmt: skip
    asked.add_argument(
        "--columns", type=words, default=[], metavar="METRIC,...", help="further metrics to show, such as test_r2"
    )
    asked.add_argument("--iterate", choices=["last", "average", "best_feasible"], default="last")
    asked.add_argument("--baseline", metavar="SOLVER", help="compare all others with this one, not with the first")
    asked.add_argument(
        "--select", choices=["validation"], help="keep one configuration per solver, chosen on validation data"
    )
    chosen = add_run_choice(parser)
    chosen.add_argument(
        "--across", type=words, default=[], metavar="KEY,...",
        help="settings that shall not split a board: dataset.seed (its splits are paired), problem.surrogate",
    )  # fmt: skip


def _asked(
    options: argparse.Namespace,
) -> "tuple[ResultStore, Callable[[Trouble], None], Question, Callable[[list[Record]], list[Record]]]":
    """The folder of results, who is told of what cannot be read, the question, and which runs it is about."""
    from drobench.results.comparison.question import SETTINGS, Question
    from drobench.results.comparison.targets import Target
    from drobench.results.store import ResultStore

    targets = [Target.parse(text) for text in options.target]
    asked = {name: getattr(options, name) for name in SETTINGS if name != "targets"}
    return ResultStore(results_of(options)), _tell, Question.of(targets=targets, **asked), chosen_runs(options).apply


def _tell(trouble: "Trouble") -> None:
    print(f"drobench: {harmless(trouble.message)}", file=sys.stderr)

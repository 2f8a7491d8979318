"""What the parsers of the commands share."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from drobench.errors import DrobenchError

if TYPE_CHECKING:
    from drobench.results.comparison.filters import Filter

Handler = Callable[[argparse.Namespace], int]


class AddCommand(Protocol):
    """Adds a command with its handler, a line of help and an example, and returns its parser."""

    def __call__(self, name: str, handler: Handler | None, text: str, example: str) -> argparse.ArgumentParser: ...


def add_parser(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, text: str, example: str
) -> argparse.ArgumentParser:
    """Add a command whose help ends with an example."""
    return commands.add_parser(
        name,
        help=text,
        description=text,
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def add_results(parser: argparse.ArgumentParser) -> None:
    """Add the option that says which folder of results a command is about."""
    parser.add_argument(
        "--results", type=Path, default=None, help="folder of results (default: DROBENCH_RESULTS, or results/)"
    )


def add_run_choice(parser: argparse.ArgumentParser) -> "argparse._ArgumentGroup":
    """Add the options that say which stored runs a command is about, and return their group."""
    chosen = parser.add_argument_group("which runs (names may hold * and ?, several are separated by commas)")
    for part in ("problem", "dataset", "solver"):
        chosen.add_argument(f"--{part}", type=words, default=[], metavar="NAME,...")
    chosen.add_argument(
        "--where", action="append", default=[], metavar="KEY=VALUE", help="a setting they must have: problem.gamma=0.5"
    )
    return chosen


def chosen_runs(options: argparse.Namespace) -> "Filter":
    """Return which runs those options choose."""
    from drobench.results.comparison.filters import Filter

    return Filter(options.problem, options.dataset, options.solver, dict(_setting(text) for text in options.where))


def words(text: str) -> list[str]:
    """Return what stands between commas."""
    return [word.strip() for word in text.split(",") if word.strip()]


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise DrobenchError(f"--where expects KEY=VALUE, such as problem.gamma=0.5; found {text!r}.")
    return name.strip(), value.strip()


def results_of(options: argparse.Namespace) -> Path:
    """Return the folder of results that a command is about."""
    from drobench.app.results_folder import at_home, default_results

    return at_home(options.results) if options.results is not None else default_results()

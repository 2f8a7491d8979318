"""What the parsers of the commands share."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

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


def results_of(options: argparse.Namespace) -> Path:
    """Return the folder of results that a command is about."""
    from drobench.app.results_folder import at_home, default_results

    return at_home(options.results) if options.results is not None else default_results()

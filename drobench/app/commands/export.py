"""`drobench export`: a trained model as a file of its own."""

import argparse
from pathlib import Path

from drobench.app.commands.parsing import AddCommand, add_results, results_of
from drobench.errors import DrobenchError

_ITERATES = ("last", "average", "best_feasible")


def add_commands(add: AddCommand) -> None:
    """Add the commands of this family."""
    parser = add(
        "export", export, "write a trained model to a file that needs torch alone", "drobench export 6f9b model.pt2"
    )
    parser.add_argument("run_id", help="the run's id, or the beginning of it")
    parser.add_argument("output", type=Path, metavar="FILE", help="where to: a name that ends in .pt2")
    parser.add_argument("--iterate", choices=_ITERATES, default="last", help="which point (default last)")
    add_results(parser)


def export(options: argparse.Namespace) -> int:
    """Write the model of one run."""
    from rich.markup import escape

    from drobench.app.api import load_solution
    from drobench.app.console import open_console
    from drobench.app.export import export as write_model

    if options.output.suffix != ".pt2":
        raise DrobenchError(f"The file of a model must have a name that ends in .pt2; found {options.output}.")
    solution = load_solution(options.run_id, iterate=options.iterate, results=results_of(options))
    beside = write_model(solution, options.output, options.iterate)
    open_console().print(
        f"{escape(str(options.output))}: run {solution.record.short_id}, {len(solution.table.columns)} raw columns; "
        f"what they are, and what the answers mean, is in {escape(str(beside))}.",
        soft_wrap=True,
    )
    return 0

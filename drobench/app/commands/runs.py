"""`drobench show`: what is stored of single runs."""

import argparse
from typing import TYPE_CHECKING

from drobench.app.commands.parsing import AddCommand, add_results, results_of

if TYPE_CHECKING:
    from drobench.results.record import Record
    from drobench.results.store import ResultStore


def add_commands(add: AddCommand) -> None:
    """Add the commands of this family."""
    parser = add("show", show, "show one run", "drobench show 6f9b")
    parser.add_argument("run_id", help="the run's id, or the beginning of it")
    parser.add_argument(
        "--groups", action="store_true",
        help="what it does to each group of rows: counts, errors, rates, losses; computed from the stored solution",
    )  # fmt: skip
    parser.add_argument(
        "--iterate", choices=["last", "average", "best_feasible"], default="last", help="which one --groups is about"
    )
    parser.add_argument("--json", action="store_true", help="the record as it is stored")
    add_results(parser)


def show(options: argparse.Namespace) -> int:
    """Print one run."""
    from drobench.results.store import ResultStore

    store = ResultStore(results_of(options))
    record = store.read(options.run_id)
    if options.json:
        print(record.to_json(), end="")
        return 0
    from drobench.app.console import open_console
    from drobench.app.record_view import show_record
    from drobench.results.curves import StoredCurves

    show_record(open_console(), record, StoredCurves(store).ending(record), complete=True)
    if options.groups:
        _show_groups(store, record, options.iterate)
    return 0


def _show_groups(store: "ResultStore", record: "Record", iterate: str) -> None:
    """Print what an iterate does to each group."""
    from drobench.app.console import open_console, table
    from drobench.app.group_view import group_tables
    from drobench.app.run_groups import RunGroups
    from drobench.registry import load_catalogue

    console = open_console()
    for title, found, remarks in group_tables(RunGroups(store, load_catalogue()).of(record, iterate)):
        console.print(table(f"{title}, {iterate} iterate", found.header, found.rows, range(2, len(found.header))))
        for remark in remarks:
            console.print(remark, soft_wrap=True)

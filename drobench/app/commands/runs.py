"""`drobench show`: what is stored of single runs."""

import argparse

from drobench.app.commands.parsing import AddCommand, add_results, results_of


def add_commands(add: AddCommand) -> None:
    """Add the commands of this family."""
    parser = add("show", show, "show one run", "drobench show 6f9b")
    parser.add_argument("run_id", help="the run's id, or the beginning of it")
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
    return 0

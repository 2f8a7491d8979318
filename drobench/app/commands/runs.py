"""`drobench show`, `runs`, `diff` and `remove`: what is stored of single runs."""

import argparse
import sys
from typing import TYPE_CHECKING, Any

from drobench.app.commands.parsing import AddCommand, add_results, add_run_choice, chosen_runs, results_of
from drobench.errors import DrobenchError
from drobench.harmless import harmless

if TYPE_CHECKING:
    from drobench.results.record import Record
    from drobench.results.store import ResultStore

_BEGINNING = "a run's id, or the beginning of it"


def add_commands(add: AddCommand) -> None:
    """Add the commands of this family."""
    one = add("show", show, "show one run", "drobench show 6f9b")
    one.add_argument("run_id", help=_BEGINNING)
    one.add_argument(
        "--groups", action="store_true",
        help="what it does to each group of rows: counts, errors, rates, losses; computed from the stored solution",
    )  # fmt: skip
    one.add_argument(
        "--iterate", choices=["last", "average", "best_feasible"], default="last", help="which one --groups is about"
    )
    one.add_argument("--json", action="store_true", help="the record as it is stored")
    listed = add("runs", runs, "list the stored runs", "drobench runs --solver 'gcivr*' --where seed=3 --sort gap")
    listed.add_argument("--sort", default="started", metavar="COLUMN", help="gap, seconds, ... (default: started)")
    listed.add_argument("--descending", action="store_true", help="the largest, or latest, first")
    listed.add_argument("--limit", type=int, metavar="N", help="only the first N")
    listed.add_argument("--format", choices=["table", "csv", "json"], default="table")
    add_run_choice(listed)
    two = add("diff", diff, "say in what two runs differ", "drobench diff 6f9b 07c2")
    two.add_argument("first", metavar="RUN", help=_BEGINNING)
    two.add_argument("second", metavar="RUN", help="the other one")
    two.add_argument("--all", action="store_true", help="with further metrics, code and machine")
    gone = add("remove", remove, "remove runs from the results", "drobench remove 6f9b 07c2 --yes")
    gone.add_argument("run_ids", nargs="+", metavar="RUN", help=_BEGINNING)
    gone.add_argument("--yes", action="store_true", help="do not ask")
    for parser in (one, listed, two, gone):
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


def runs(options: argparse.Namespace) -> int:
    """List stored runs."""
    from drobench.results.run_table import run_frame, sorted_runs
    from drobench.results.store import ResultStore

    if options.limit is not None and options.limit < 1:
        raise DrobenchError(f"--limit must be at least 1; found {options.limit}.")
    scan = ResultStore(results_of(options)).records()
    for trouble in scan.troubles:
        print(f"drobench: {harmless(trouble.message)}", file=sys.stderr)
    chosen = chosen_runs(options).apply(scan.records)
    found = sorted_runs(chosen, options.sort, descending=options.descending)[: options.limit]
    if options.format == "csv":
        print(harmless(run_frame(found).write_csv()), end="")
    elif options.format == "json":
        print(run_frame(found).write_json())
    else:
        _print_runs(found, len(scan.records))
    return 0


def _print_runs(found: "list[Record]", stored: int) -> None:
    from drobench.app.console import open_console, table
    from drobench.app.record_view import format_number
    from drobench.results.run_table import run_row

    numbers = {"objective": "objective", "gap": "gap", "test_error": "test error", "seconds": "seconds"}
    rows = []
    for record in found:
        row = run_row(record)
        ended = row["status"] if row["outcome"] in (None, "ok") else f"{row['status']}, {row['outcome']}"
        texts = [record.short_id, row["solver"], row["problem"], row["dataset"], str(row["seed"]), ended]
        rows.append([*texts, *(format_number(row[name]) for name in numbers), f"{row['started']:%Y-%m-%d %H:%M}"])
    header = ["run", "solver", "problem", "dataset", "seed", "status", *numbers.values(), "started (UTC)"]
    console = open_console()
    console.print(table(None, header, rows, right=[4, *range(6, 6 + len(numbers))]))
    console.print(f"[dim]{len(found)} of {stored} runs. `drobench show RUN` shows one, `drobench diff` two.[/dim]")


def diff(options: argparse.Namespace) -> int:
    """Print in what two runs differ."""
    from drobench.app.console import open_console, table
    from drobench.app.run_difference import SECTIONS, differences_of
    from drobench.results.store import ResultStore

    console, store = open_console(), ResultStore(results_of(options))
    first, second = store.read(options.first), store.read(options.second)
    found = differences_of(store, first, second)
    shown = [item for item in found if options.all or not item.minor]
    for section in SECTIONS:
        rows = [[item.name, _text(item.first), _text(item.second)] for item in shown if item.section == section]
        if rows:
            console.print(table(section, ["", first.short_id, second.short_id], rows))
    same = [section for section in SECTIONS if all(item.section != section for item in found)]
    if same:
        console.print(f"The same in both: {', '.join(same)}.")
    if len(shown) < len(found):
        console.print(f"[dim]{len(found) - len(shown)} further things differ; --all shows them.[/dim]")
    return 0


def _text(value: Any) -> str:
    import json

    from drobench.app.record_view import format_number

    return format_number(value) if isinstance(value, float) else value if isinstance(value, str) else json.dumps(value)


def remove(options: argparse.Namespace) -> int:
    """Remove runs, each with its own files and nothing else; ask before, unless told not to."""
    from drobench.app.console import open_console
    from drobench.results.store import ResultStore

    console, store = open_console(), ResultStore(results_of(options))
    run_ids = list(dict.fromkeys(store.resolve(run_id) for run_id in options.run_ids))
    for run_id in run_ids:
        console.print(harmless(_described(store, run_id)), markup=False, soft_wrap=True)
    if not options.yes and not _agreed(len(run_ids)):
        console.print("Nothing was removed.")
        return 1
    for run_id in run_ids:
        store.remove(run_id)
    console.print(f"Removed: {len(run_ids)}.")
    return 0


def _described(store: "ResultStore", run_id: str) -> str:
    from drobench.results.fields import DamagedRecord

    try:
        record = store.read(run_id)
    except DamagedRecord:
        return f"{run_id[:12]}  cannot be read"
    where = f"{record.solver.name} on {record.problem.name}, {record.dataset.name}, seed {record.seed}"
    return f"{record.short_id}  {where}: {record.status}, of {record.started:%Y-%m-%d %H:%M}"


def _agreed(number: int) -> bool:
    """Ask whoever sits at the terminal.

    Raises:
        DrobenchError: If nobody does.
    """
    if not sys.stdin.isatty():
        raise DrobenchError("Nothing was removed: there is nobody to ask. Add --yes.")
    answer = input(f"Remove {'this run' if number == 1 else f'these {number} runs'}? [y/N] ")
    return answer.strip().lower() in ("y", "yes")


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

"""`drobench sweep`: plan, progress, leaderboard, report, what next."""

import argparse
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from drobench.app.commands.parsing import AddCommand, add_results, results_of
from drobench.errors import DrobenchError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rich.console import Console

    from drobench.app.sweep_plan import Cell, Plan
    from drobench.results.curves import StoredCurves
    from drobench.results.record import Outcome, Record, Status
    from drobench.results.store import ResultStore, Trouble


class CellEnd(NamedTuple):
    """How a cell ended."""

    status: "Status"
    outcome: "Outcome | None"


def add_commands(add: AddCommand) -> None:
    """Add the command of this family."""
    parser = add("sweep", sweep, "compute all cells of a sweep file", "drobench sweep quickstart --jobs 2")
    parser.add_argument("name", nargs="?", help="a name from sweeps/, or the path of a YAML file; none: list them")
    parser.add_argument("overrides", nargs="*", help="applied to every cell, e.g. budget.passes=10")
    parser.add_argument("--jobs", type=int, default=1, help="cells at a time; times are comparable with 1 (default)")
    parser.add_argument("--dry-run", action="store_true", help="count the cells and estimate the time, run nothing")
    parser.add_argument("--timeout", type=float, help="seconds per cell")
    add_results(parser)


def sweep(options: argparse.Namespace) -> int:
    """Compute a sweep, or list those there are."""
    from drobench.app.console import open_console

    if options.name is None:
        return _list_sweeps(open_console())
    if options.jobs < 1:
        raise DrobenchError(f"--jobs must be at least 1; found {options.jobs}.")
    return _run_sweep(options, results_of(options), open_console())


def _list_sweeps(console: "Console") -> int:
    from drobench.app.config import data_dir
    from drobench.app.console import table
    from drobench.app.sweep_file import load_sweep

    files = sorted(data_dir("sweeps").glob("*.yaml"))
    sweeps = [(file.stem, load_sweep(file)) for file in files]
    rows = [[name, str(len(sweep.cells)), " ".join(sweep.description.split())] for name, sweep in sweeps]
    console.print(table("sweeps", ["name", "cells", "what it shows"], rows, right=[1]))
    return 0


def _run_sweep(options: argparse.Namespace, results: "Path", console: "Console") -> int:
    """Compute what is not there yet, then compare."""
    from drobench.app.sweep_server import start_server

    # It imports what the workers need, which takes seconds, while this process does the same for itself.
    start_server()

    from rich.markup import escape

    from drobench.app.config import register
    from drobench.app.sweep_file import find_sweep, load_sweep
    from drobench.app.sweep_plan import plan
    from drobench.registry import load_catalogue
    from drobench.results.curves import StoredCurves
    from drobench.results.record import FAILURES
    from drobench.results.store import ResultStore

    found = load_sweep(find_sweep(options.name))
    catalogue = load_catalogue()
    for trouble in catalogue.troubles:
        console.print(f"[yellow]not used:[/yellow] {escape(str(trouble))}")
    register(catalogue)
    store = ResultStore(results.absolute())
    store.prepare()
    extra = list(options.overrides)
    if options.timeout is not None:
        extra.append(f"timeout={options.timeout}")
    planned = plan(found, extra, catalogue, results)
    console.print(f"[bold]{escape(found.title)}[/bold]  {escape(' '.join(found.description.split()))}")
    _show_plan(console, planned, store)
    if options.dry_run:
        for cell in planned.remaining:
            console.print(f"  {escape(cell.label)}")
        return 0
    ended = _execute(console, planned, options.jobs, StoredCurves(store)) if planned.remaining else []
    _replay(console, planned, store)
    _compare(console, store, planned, results)
    _show_end(console, ended, results)
    return 1 if any(cell.status in FAILURES for cell in ended) else 0


def _show_plan(console: "Console", planned: "Plan", store: "ResultStore") -> None:
    from rich.markup import escape

    from drobench.app.sweep_plan import estimate_seconds

    known, unknown = estimate_seconds(planned.remaining, store.records().records)
    parts = [
        f"{len(planned.run_ids)} cells",
        f"{len(planned.finished)} finished before",
        f"{len(planned.remaining)} to do",
    ]
    if planned.stale:
        parts[-1] += f" ({len(planned.stale)} of them stale)"
    if known:
        parts.append(f"about {known:.0f} s for the known ones")
    if unknown:
        parts.append(f"{unknown} without a comparable run to estimate from")
    console.print(", ".join(parts))
    for why, count in Counter(planned.stale.values()).most_common():
        console.print(
            f"[yellow]stale:[/yellow] {count} cells: {escape(why)}. They are computed again; what is there is "
            "kept in .older; [bold]trust=patch[/bold] takes results of versions that differ in their last number only.",
            soft_wrap=True,
        )


def _execute(console: "Console", planned: "Plan", jobs: int, curves: "StoredCurves") -> "list[CellEnd]":
    """Compute the cells, with a line for each; of thousands of records only how they ended is kept."""
    from rich.markup import escape
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    from drobench.app.console import status_style
    from drobench.app.sweep_pool import execute
    from drobench.results.record import short_id

    columns = (
        TextColumn("[progress.description]{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    ended: list[CellEnd] = []
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("cells", total=len(planned.remaining))

        def done(cell: "Cell", record: "Record") -> None:
            style = status_style(record.status, record.outcome)
            seconds = "" if record.seconds.total is None else f"  {record.seconds.total:.1f} s"
            bar.console.print(
                f"  [{style}]{record.status:<12}[/{style}] {record.short_id}  {escape(cell.label)}{seconds}"
                f"{escape(_matter(record, curves))}"
            )
            ended.append(CellEnd(record.status, record.outcome))
            bar.advance(task)

        def waits(cells: "Sequence[Cell]") -> None:
            names = ", ".join(short_id(cell.run_id) for cell in cells)
            bar.console.print(f"  waiting for {len(cells)} cells that another process computes: {names}")

        execute(planned.remaining, jobs, done, waits)
    return ended


def _replay(console: "Console", planned: "Plan", store: "ResultStore") -> None:
    """Log the cells that were there before, where a logger is asked for that has not seen them."""
    from drobench.app.run_logs import Replay, replay

    done = Counter(replay(cell.config, cell.run_id, cell.prepared.catalogue, store) for cell in planned.finished)
    for what in (Replay.DONE, Replay.FAILED):
        if done[what]:
            name = planned.finished[0].config.logger.name
            console.print(f"{done[what]} cells were there already; {what} logger={name}.")


def _matter(record: "Record", curves: "StoredCurves") -> str:
    """Return what is the matter with a run: why it failed, or that its outcome is not what was wanted."""
    from drobench.results.outcome import explanation
    from drobench.results.record import FAILURES, Status

    came_to_nothing = record.status in FAILURES or record.status is Status.SKIPPED
    told = record.reason if came_to_nothing else explanation(record, curves.ending(record))
    return f"  {told}" if told else ""


def _compare(console: "Console", store: "ResultStore", planned: "Plan", results: "Path") -> None:
    from rich.markup import escape

    from drobench.app.leaderboard_view import show_leaderboard
    from drobench.app.report_file import REPORT_NAME, write_report
    from drobench.app.stored_comparison import draw_stored
    from drobench.results.comparison.leaderboard import NothingToCompare

    def tell(trouble: "Trouble") -> None:
        console.print(f"[yellow]left out:[/yellow] {escape(trouble.message)}", soft_wrap=True)

    def mine(records: "list[Record]") -> "list[Record]":
        return [record for record in records if record.run_id in planned.run_ids]

    try:
        compared, content = draw_stored(store, tell, keep=mine)
    except NothingToCompare as error:
        console.print(f"[yellow]{escape(str(error))}[/yellow]")
        return
    found = compared.leaderboard
    show_leaderboard(console, found)
    loggers = [cell.config.logger for cell in (*planned.finished, *planned.remaining)]
    following = next((logger for logger in loggers if logger.name == "wandb"), None)
    if following is not None:
        from drobench.training.wandb_leaderboard import log_leaderboard

        log_leaderboard(found, planned.run_ids, following, store.root / ".logs")
    write_report(content, store.root / REPORT_NAME)
    report = escape(str(results / REPORT_NAME))
    console.print(
        f"Report: [bold]{report}[/bold], one page with curves and every run; open it in a browser.",
        soft_wrap=True,
    )


def _show_end(console: "Console", records: "Sequence[CellEnd | Record]", results: "Path") -> None:
    from rich.markup import escape

    from drobench.results.outcome import in_words

    counted = ", ".join(f"{count} {status}" for status, count in _counted(records).items())
    outcomes = [f"{count} {in_words(outcome)}" for outcome, count in _noteworthy(records).items()]
    counted += f" (of these {', '.join(outcomes)})" if outcomes else ""
    console.print(f"Computed: {counted or 'nothing, all cells were finished'}. Results in {escape(str(results))}/.")
    console.print(
        "Next: [bold]drobench show RUN_ID[/bold] for one run, [bold]drobench leaderboard --format markdown[/bold] for "
        "a table to paste, [bold]drobench run --help[/bold] for a run of your own.",
        soft_wrap=True,
    )


def _noteworthy(records: "Sequence[CellEnd | Record]") -> "dict[Outcome, int]":
    """Return how many records have each outcome that is not what was wanted."""
    from drobench.results.record import Outcome

    wanting = [outcome for outcome in Outcome if outcome is not Outcome.OK]
    return {outcome: count for outcome in wanting if (count := sum(run.outcome is outcome for run in records))}


def _counted(records: "Sequence[CellEnd | Record]") -> "dict[Status, int]":
    """Return how many records have each status."""
    from drobench.results.record import Status

    return {status: count for status in Status if (count := sum(record.status is status for record in records))}

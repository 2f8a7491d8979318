"""The command `sweep`: plan, progress, leaderboard, report, what next."""

import argparse
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from drobench.app.config import data_dir, register
from drobench.app.console import show_leaderboard, status_style, table
from drobench.app.sweep import Cell, Plan, estimate_seconds, execute, find_sweep, load_sweep, plan, summary
from drobench.registry import Catalogue, load_catalogue
from drobench.results.comparison.leaderboard import NothingToCompare, leaderboard
from drobench.results.curves import StoredCurves
from drobench.results.record import FAILURES, Record
from drobench.results.store import ResultStore


def list_sweeps(console: Console) -> int:
    """Print the sweeps that come with drobench."""
    files = sorted(data_dir("sweeps").glob("*.yaml"))
    sweeps = [(file.stem, load_sweep(file)) for file in files]
    rows = [[name, str(len(sweep.cells)), " ".join(sweep.description.split())] for name, sweep in sweeps]
    console.print(table("sweeps", ["name", "cells", "what it shows"], rows, right=[1]))
    return 0


def run_sweep(options: argparse.Namespace, results: Path, console: Console) -> int:
    """Compute what is not there yet, then compare."""
    sweep = load_sweep(find_sweep(options.name))
    catalogue = load_catalogue()
    for trouble in catalogue.troubles:
        console.print(f"[yellow]not used:[/yellow] {escape(str(trouble))}")
    register(catalogue)
    store = ResultStore(results)
    store.prepare()
    extra = list(options.overrides)
    if options.timeout is not None:
        extra.append(f"timeout={options.timeout}")
    planned = plan(sweep, extra, catalogue, results)
    console.print(f"[bold]{escape(sweep.title)}[/bold]  {escape(' '.join(sweep.description.split()))}")
    _show_plan(console, planned, store)
    if options.dry_run:
        for cell in planned.remaining:
            console.print(f"  {escape(cell.label)}")
        return 0
    records = _execute(console, planned, catalogue, options.jobs) if planned.remaining else []
    _compare(console, store, planned)
    _show_end(console, records, results)
    return 1 if any(record.status in FAILURES for record in records) else 0


def _show_plan(console: Console, planned: Plan, store: ResultStore) -> None:
    known, unknown = estimate_seconds(planned.remaining, store.records().records)
    parts = [
        f"{len(planned.run_ids)} cells",
        f"{len(planned.finished)} finished before",
        f"{len(planned.remaining)} to do",
    ]
    if known:
        parts.append(f"about {known:.0f} s for the known ones")
    if unknown:
        parts.append(f"{unknown} without a comparable run to estimate from")
    console.print(", ".join(parts))


def _execute(console: Console, planned: Plan, catalogue: Catalogue, jobs: int) -> list[Record]:
    columns = (
        TextColumn("[progress.description]{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("cells", total=len(planned.remaining))

        def done(cell: Cell, record: Record) -> None:
            style = status_style(record.status)
            seconds = "" if record.seconds.total is None else f"  {record.seconds.total:.1f} s"
            reason = f"  {escape(record.reason or '')}" if record.status in FAILURES else ""
            progress.console.print(
                f"  [{style}]{record.status:<12}[/{style}] {record.short_id}  {escape(cell.label)}{seconds}{reason}"
            )
            progress.advance(task)

        return execute(planned.remaining, catalogue, jobs, done)


def _compare(console: Console, store: ResultStore, planned: Plan) -> None:
    mine = [record for record in store.records().records if record.run_id in planned.run_ids]
    try:
        found = leaderboard(mine, StoredCurves(store))
    except NothingToCompare as error:
        console.print(f"[yellow]{escape(str(error))}[/yellow]")
        return
    show_leaderboard(console, found)
    loggers = [cell.config.logger for cell in (*planned.finished, *planned.remaining)]
    following = next((logger for logger in loggers if logger.name == "wandb"), None)
    if following is not None:
        from drobench.training.wandb_leaderboard import log_leaderboard

        log_leaderboard(found, planned.run_ids, following, store.root / ".logs")
    from drobench.app.report_command import REPORT_NAME, write_report

    report = store.root / REPORT_NAME
    write_report(store, mine, found, report)
    console.print(
        f"Report: [bold]{escape(str(report))}[/bold], one page with curves and every run; open it in a browser.",
        soft_wrap=True,
    )


def _show_end(console: Console, records: list[Record], results: Path) -> None:
    counted = ", ".join(f"{count} {status}" for status, count in summary(records).items())
    console.print(f"Computed: {counted or 'nothing, all cells were finished'}. Results in {escape(str(results))}/.")
    console.print(
        "Next: [bold]drobench show RUN_ID[/bold] for one run, [bold]drobench leaderboard --format markdown[/bold] for "
        "a table to paste, [bold]drobench run --help[/bold] for a run of your own.",
        soft_wrap=True,
    )

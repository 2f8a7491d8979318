"""`drobench pack`, `verify` and `merge`: results that travel."""

import argparse
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from drobench.app.commands.parsing import AddCommand, add_results, results_of
from drobench.errors import DrobenchError
from drobench.harmless import on_one_line

if TYPE_CHECKING:
    from rich.console import Console

    from drobench.app.verification import Verdict, Verifier
    from drobench.results.merge import Merged
    from drobench.results.record import Record
    from drobench.results.store import ResultStore, Trouble


def add_commands(add: AddCommand) -> None:
    """Add the commands of this family."""
    packed = add("pack", pack, "put results into one file to hand on", "drobench pack results -o bundle.zip")
    packed.add_argument("results", type=Path, nargs="?", help="folder of results (default: as for the other commands)")
    packed.add_argument("-o", "--output", type=Path, default=Path("bundle.zip"), metavar="FILE")
    verified = add("verify", verify, "compute the metrics of a bundle again", "drobench verify bundle.zip --rerun 1")
    verified.add_argument("bundle", type=Path, help="a file made by `drobench pack`, or a folder of results")
    verified.add_argument("--rerun", type=int, default=0, metavar="N", help="also do so many random runs again")
    verified.add_argument("--seed", type=int, default=0, help="of the choice of these runs (default 0)")
    merged = add("merge", merge, "join results of several people or machines", "drobench merge theirs.zip ../other")
    merged.add_argument("sources", type=Path, nargs="+", metavar="SOURCE", help="folders of results, or bundles")
    add_results(merged)


def pack(options: argparse.Namespace) -> int:
    """Write all runs of a folder into one bundle."""
    from rich.markup import escape

    from drobench.app.console import open_console
    from drobench.results.bundle import pack as write_bundle
    from drobench.results.store import ResultStore

    console, output = open_console(), options.output
    store = ResultStore(results_of(options))
    scan = store.records()
    for trouble in scan.troubles:
        console.print(f"[yellow]left out:[/yellow] {escape(trouble.message)}", soft_wrap=True)
    size = write_bundle(store.root, scan.records, output)
    console.print(
        f"{escape(str(output))}: {len(scan.records)} runs, {size / 1e6:.2f} MB. Whoever gets it can check it with "
        f"[bold]drobench verify {escape(output.name)}[/bold].",
        soft_wrap=True,
    )
    return 1 if scan.troubles else 0


def verify(options: argparse.Namespace) -> int:
    """Check a bundle or a folder of results: compute every metric again from the stored solutions."""
    from drobench.app.config import register
    from drobench.app.console import open_console
    from drobench.app.verification import Verifier
    from drobench.registry import load_catalogue
    from drobench.results.bundle import unpack
    from drobench.results.store import ResultStore

    if options.rerun < 0:
        raise DrobenchError(f"--rerun must be a number of runs; found {options.rerun}.")
    bundle, console, catalogue = options.bundle, open_console(), load_catalogue()
    register(catalogue)
    with tempfile.TemporaryDirectory(prefix="drobench-verify-") as folder:
        root, optima = Path(folder) / "results", Path(folder) / "optima"
        root.mkdir()
        if bundle.is_dir():
            store = ResultStore(bundle)
        else:
            unpack(bundle, root)
            store = ResultStore(root)
        scan = store.records()
        if not scan.records and not scan.troubles:
            raise DrobenchError(f"There is no run in {bundle} to verify.")
        verdicts = _verdicts(Verifier(store, catalogue, optima), scan.records, options, console)
        reruns = len(verdicts) - len(scan.records)
        return _conclude(verdicts, scan.troubles, reruns, console)


def _verdicts(
    verifier: "Verifier", records: "Sequence[Record]", options: argparse.Namespace, console: "Console"
) -> "list[Verdict]":
    verdicts = []
    with console.status("recomputing") as status:
        for number, record in enumerate(records, start=1):
            status.update(f"recomputing run {number} of {len(records)}")
            verdicts.append(verifier.verify(record))
        for record in _drawn(records, options.rerun, options.seed):
            status.update(f"doing run {record.short_id} again")
            verdicts.append(verifier.rerun(record))
    return verdicts


def _drawn(records: "Sequence[Record]", count: int, seed: int) -> "list[Record]":
    finished = [record for record in records if record.iterates.last is not None]
    return random.Random(seed).sample(finished, min(count, len(finished)))  # noqa: S311  # no secret


def _conclude(verdicts: "Sequence[Verdict]", troubles: "Sequence[Trouble]", reruns: int, console: "Console") -> int:
    """Print what did not come out as recorded; return 1 if there is such a thing, or something could not be checked."""
    from rich.markup import escape

    for trouble in troubles:
        console.print(f"[red]damaged[/red]  {escape(on_one_line(trouble.message))}", soft_wrap=True)
    for verdict in verdicts:
        if verdict.changed is not None:
            _tell(console, "[yellow]note[/yellow]    ", verdict, verdict.changed)
        for mismatch in verdict.mismatches:
            _tell(console, "[red]wrong[/red]   ", verdict, str(mismatch))
        if verdict.unverified is not None:
            _tell(console, "[yellow]open[/yellow]    ", verdict, verdict.unverified)
        if verdict.nothing is not None:
            _tell(console, "[dim]failure[/dim] ", verdict, verdict.nothing)
    wrong = sum(bool(verdict.mismatches) for verdict in verdicts)
    unverified = sum(verdict.unverified is not None for verdict in verdicts)
    nothing = sum(verdict.nothing is not None for verdict in verdicts)
    good = sum(verdict.confirmed for verdict in verdicts)
    console.print(
        f"{good} of {len(verdicts) - nothing} checks confirmed, {wrong} wrong, {unverified} could not be made, "
        f"{len(troubles)} runs damaged; {nothing} runs are recorded failures, which have nothing to check."
    )
    console.print(_reach(len(verdicts), reruns), soft_wrap=True)
    return 1 if wrong or troubles or unverified else 0


def _tell(console: "Console", label: str, verdict: "Verdict", text: str) -> None:
    from rich.markup import escape

    console.print(f"{label} {_name(verdict.record)}: {escape(on_one_line(text))}", soft_wrap=True)


def _reach(checks: int, reruns: int) -> str:
    """Say how far the checks go: a solution shows where a run ended, not how it got there."""
    again = f"{reruns} of {checks - reruns}" if reruns else "none"
    return (
        "Checked: the metrics of every stored solution, the optima, and that the files of a run agree. What happened "
        f"on the way, where costs to a target come from, is shown by doing a run again (--rerun N): {again}. Seconds "
        "are what the record says."
    )


def _name(record: "Record") -> str:
    from rich.markup import escape

    return escape(f"{record.short_id} {record.solver.name} on {record.problem.name}, seed {record.seed}")


def merge(options: argparse.Namespace) -> int:
    """Add the runs of other folders or bundles to a folder of results."""
    from rich.markup import escape

    from drobench.app.console import open_console
    from drobench.results.bundle import BadBundle
    from drobench.results.merge import Merged, summary
    from drobench.results.store import ResultStore

    console, results = open_console(), results_of(options)
    target = ResultStore(results)
    outcomes = []
    for source in options.sources:
        try:
            outcome = _merge_source(source, target)
        except BadBundle as error:
            # The sources after it may be sound.
            outcome = Merged(troubles=[str(error)])
        for conflict in outcome.conflicts:
            console.print(f"[red]differs[/red]  {escape(on_one_line(conflict))}", soft_wrap=True)
        for trouble in outcome.troubles:
            console.print(f"[yellow]left out[/yellow] {escape(on_one_line(trouble))}", soft_wrap=True)
        outcomes.append(outcome)
    console.print(f"{escape(str(results))}: {summary(outcomes)}.")
    return 1 if any(outcome.conflicts or outcome.troubles for outcome in outcomes) else 0


def _merge_source(source: Path, target: "ResultStore") -> "Merged":
    from drobench.results.bundle import unpack
    from drobench.results.merge import merge as add_runs
    from drobench.results.store import ResultStore

    if source.is_dir():
        if source.resolve() == target.root.resolve():
            raise DrobenchError(f"{source} is the folder to merge into; name the others.")
        return add_runs(ResultStore(source), target)
    with tempfile.TemporaryDirectory(prefix="drobench-merge-") as folder:
        unpack(source, Path(folder))
        return add_runs(ResultStore(Path(folder)), target)

"""The commands `pack`, `verify` and `merge`: results that travel."""

import hashlib
import importlib.util
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from drobench.app.config import register
from drobench.app.verification import Verdict, Verifier
from drobench.errors import DrobenchError
from drobench.registry import Catalogue, load_catalogue
from drobench.results.bundle import Plugin, pack, unpack
from drobench.results.merge import Merged, merge, summary
from drobench.results.record import Record
from drobench.results.store import ResultStore


def pack_results(results: Path, output: Path, console: Console) -> int:
    """Write all runs of a folder into one bundle."""
    store = ResultStore(results)
    scan = store.records()
    for trouble in scan.troubles:
        console.print(f"[yellow]left out:[/yellow] {escape(trouble.message)}", soft_wrap=True)
    size = pack(store.root, scan.records, _plugins(scan.records, load_catalogue()), output)
    console.print(
        f"{escape(str(output))}: {len(scan.records)} runs, {size / 1e6:.2f} MB. Whoever gets it can check it with "
        f"[bold]drobench verify {escape(output.name)}[/bold].",
        soft_wrap=True,
    )
    return 1 if scan.troubles else 0


def verify_bundle(bundle: Path, reruns: int, seed: int, console: Console) -> int:
    """Check a bundle or a folder of results: compute every metric again from the stored solutions."""
    catalogue = load_catalogue()
    register(catalogue)
    with tempfile.TemporaryDirectory(prefix="drobench-verify-") as folder:
        root, optima = Path(folder) / "results", Path(folder) / "optima"
        root.mkdir()
        if bundle.is_dir():
            store = ResultStore(bundle)
        else:
            _compare_plugins(unpack(bundle, root), catalogue, console)
            store = ResultStore(root)
        scan = store.records()
        if not scan.records and not scan.troubles:
            raise DrobenchError(f"There is no run in {bundle} to verify.")
        verifier = Verifier(store, catalogue, optima)
        verdicts = []
        with console.status("recomputing") as status:
            for number, record in enumerate(scan.records, start=1):
                status.update(f"recomputing run {number} of {len(scan.records)}")
                verdicts.append(verifier.verify(record))
            for record in _drawn(scan.records, reruns, seed):
                status.update(f"doing run {record.short_id} again")
                verdicts.append(verifier.rerun(record))
        for trouble in scan.troubles:
            console.print(f"[red]damaged[/red]  {escape(trouble.message)}", soft_wrap=True)
        return _report(verdicts, len(scan.troubles), reruns, console)


def _drawn(records: Sequence[Record], count: int, seed: int) -> list[Record]:
    finished = [record for record in records if record.iterates.last is not None]
    return random.Random(seed).sample(finished, min(count, len(finished)))  # noqa: S311  # no secret


def _report(verdicts: Sequence[Verdict], damaged: int, reruns: int, console: Console) -> int:
    wrong = [verdict for verdict in verdicts if verdict.mismatches]
    open_ones = [verdict for verdict in verdicts if verdict.unverified is not None]
    for verdict in wrong:
        for mismatch in verdict.mismatches:
            console.print(f"[red]wrong[/red]    {_name(verdict.record)}: {escape(str(mismatch))}", soft_wrap=True)
    for verdict in open_ones:
        console.print(
            f"[yellow]open[/yellow]     {_name(verdict.record)}: {escape(str(verdict.unverified))}", soft_wrap=True
        )
    good = len(verdicts) - len(wrong) - len(open_ones)
    again = f" (of which {reruns} done again as a whole)" if reruns else ""
    console.print(
        f"{good} of {len(verdicts)} checks confirmed{again}, {len(wrong)} wrong, {len(open_ones)} could not be made, "
        f"{damaged} runs damaged."
    )
    return 1 if wrong or damaged or open_ones else 0


def _name(record: Record) -> str:
    return escape(f"{record.short_id} {record.solver.name} on {record.problem.name}, seed {record.seed}")


def _compare_plugins(manifest: dict[str, Any], catalogue: Catalogue, console: Console) -> None:
    """Say where the plugins here are not those that the bundle was made with; the results decide all the same."""
    for plugin in manifest.get("plugins", []):
        name, there = str(plugin.get("distribution")), plugin.get("sha256")
        here = _source_checksum(name, catalogue)
        if here is None:
            console.print(f"[yellow]note[/yellow]     {escape(name)} is not installed here.")
        elif there is not None and here != there:
            console.print(f"[yellow]note[/yellow]     the source of {escape(name)} is not the one here.")


def _plugins(records: Sequence[Record], catalogue: Catalogue) -> list[Plugin]:
    used = {
        (part.distribution, part.version)
        for record in records
        for part in (record.solver, record.problem, record.dataset)
        if part.distribution is not None
    }
    found = sorted(used, key=str)
    return [Plugin(name, version, _source_checksum(name, catalogue)) for name, version in found]


def _source_checksum(distribution: str, catalogue: Catalogue) -> str | None:
    """Return the sha256 of all Python files of the packages that a distribution's plugins live in."""
    shelves = (catalogue.solvers, catalogue.problems, catalogue.datasets)
    packages = {
        found.entry.factory.__module__.partition(".")[0]
        for shelf in shelves
        for found in shelf.values()
        if found.distribution == distribution
    }
    if not packages:
        return None
    digest = hashlib.sha256()
    for package in sorted(packages):
        specification = importlib.util.find_spec(package)
        assert specification is not None  # its plugin was imported a moment ago
        for folder in specification.submodule_search_locations or []:
            for file in sorted(Path(folder).rglob("*.py")):
                digest.update(f"{package}/{file.relative_to(folder).as_posix()}\0".encode())
                digest.update(hashlib.sha256(file.read_bytes()).digest())
        if specification.submodule_search_locations is None and specification.origin is not None:
            digest.update(Path(specification.origin).read_bytes())
    return digest.hexdigest()


def merge_results(sources: Sequence[Path], results: Path, console: Console) -> int:
    """Add the runs of other folders or bundles to a folder of results."""
    target = ResultStore(results)
    outcomes = []
    for source in sources:
        outcome = _merge_source(source, target)
        for conflict in outcome.conflicts:
            console.print(f"[red]differs[/red]  {escape(conflict)}", soft_wrap=True)
        for trouble in outcome.troubles:
            console.print(f"[yellow]left out[/yellow] {escape(trouble)}", soft_wrap=True)
        outcomes.append(outcome)
    console.print(f"{escape(str(results))}: {summary(outcomes)}.")
    return 1 if any(outcome.conflicts or outcome.troubles for outcome in outcomes) else 0


def _merge_source(source: Path, target: ResultStore) -> Merged:
    if source.is_dir():
        if source.resolve() == target.root.resolve():
            raise DrobenchError(f"{source} is the folder to merge into; name the others.")
        return merge(ResultStore(source), target)
    with tempfile.TemporaryDirectory(prefix="drobench-merge-") as folder:
        unpack(source, Path(folder))
        return merge(ResultStore(Path(folder)), target)

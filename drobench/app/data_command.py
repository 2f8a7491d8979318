"""`drobench data`: what the datasets need, fetching it, and checking that it is still sound."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from rich.console import Console
from rich.markup import escape

from drobench.app.console import table
from drobench.data.cache import DownloadError, State, cache_folder, cache_root, state
from drobench.data.download import fetch
from drobench.data.progress import OnProgress
from drobench.registry import Catalogue, DatasetEntry, load_catalogue

_NOT_NEEDED = "-"


def list_data(console: Console) -> int:
    """Print every dataset, where it comes from, and what the cache holds of it."""
    rows = []
    for name, found in load_catalogue().datasets.items():
        entry = found.entry
        held = _state(entry, thorough=False)
        cached = _NOT_NEEDED if held is None else "no" if held is State.ABSENT else "yes"
        rows.append([name, _origin(entry), entry.licence or "-", entry.reference or "-", cached, _verdict(entry, held)])
    console.print(table(None, ["dataset", "from", "licence", "reference", "cached", "verified"], rows))
    console.print(f"cache: {escape(str(cache_root()))}", soft_wrap=True)
    console.print("[dim]`drobench data fetch NAME` fetches, `drobench data verify` reads every byte again.[/dim]")
    return 0


def fetch_data(name: str, source: Path | None, console: Console) -> int:
    """Bring a dataset into the cache, from its servers or from a folder or archive.

    Raises:
        DownloadError: It cannot be had; the message says why.
    """
    entry = _entry(load_catalogue(), name)
    if entry.intake is not None:
        if source is None:
            raise DownloadError(
                f"dataset={name} cannot be downloaded by a program: {entry.intake.instructions}, then run "
                f"`drobench data fetch {name} --from DIR`."
            )
        for line in entry.intake.take(source):
            console.print(escape(line), soft_wrap=True)
        console.print(f"{escape(name)} is in {escape(str(cache_folder(name)))}", soft_wrap=True)
        return 0
    if not entry.files:
        console.print(f"{escape(name)} needs nothing to be fetched.")
        return 0
    with _progress() as progress:
        paths = fetch(name, entry.files, source, progress=progress)
    for path in paths:
        console.print(f"verified  {escape(str(path))}", soft_wrap=True)
    return 0


def verify_data(name: str | None, console: Console) -> int:
    """Read everything in the cache again, of one dataset or of all, and compare checksums; or that of one table.

    Raises:
        DownloadError: Something is damaged, or the named dataset is not there.
        DataError: The table is damaged.
    """
    catalogue = load_catalogue()
    if name is not None and name not in catalogue.datasets and Path(name).is_dir():
        from drobench.data.stored_table import verify_table

        read = verify_table(Path(name))
        console.print(f"verified  {escape(name)}: {read.rows} rows, {len(read.columns)} columns", soft_wrap=True)
        return 0
    names = [name] if name is not None else list(catalogue.datasets)
    checked = {each: _state(_entry(catalogue, each), thorough=True) for each in names}
    rows = [[each, "nothing to fetch" if held is None else str(held)] for each, held in checked.items()]
    console.print(table(None, ["dataset", "cache"], rows))
    damaged = [each for each, held in checked.items() if held is State.DAMAGED]
    if damaged:
        raise DownloadError(
            f"The cache {cache_root()} must hold what was fetched; found {', '.join(damaged)} damaged. Run "
            f"`drobench data fetch {damaged[0]}` again."
        )
    if name is not None and checked[name] is State.ABSENT:
        raise DownloadError(f"{name} is not in the cache {cache_root()}. Run `drobench data fetch {name}`.")
    return 0


def convert_data(options: argparse.Namespace, console: Console) -> int:
    """Write Parquet files as one table.

    Raises:
        DataError: They cannot be converted; the message says why.
    """
    from drobench.data.parquet import convert_parquet

    with _progress(of_rows=True) as progress:
        written = convert_parquet(
            options.sources,
            options.output,
            label=options.label,
            drop=options.drop,
            dtype=options.dtype,
            progress=progress,
        )
    classes = ", ".join(f"{name!r} is {code}" for code, name in enumerate(written.classes))
    console.print(f"{written.rows} rows, {len(written.columns)} columns; classes: {escape(classes)}", soft_wrap=True)
    console.print(f"use it with `dataset=mapped dataset.path={escape(str(options.output))}`", soft_wrap=True)
    return 0


def _entry(catalogue: Catalogue, name: str) -> DatasetEntry:
    return catalogue.dataset(name).entry


def _state(entry: DatasetEntry, *, thorough: bool) -> State | None:
    """What the cache holds of a dataset; `None` if there is nothing to hold."""
    if entry.intake is not None:
        return entry.intake.state(thorough)
    return state(entry.name, entry.files) if entry.files else None


def _origin(entry: DatasetEntry) -> str:
    if entry.intake is not None:
        return "its publisher, by hand"
    hosts = {urlsplit(url).hostname or url: None for file in entry.files for url in file.urls}
    if hosts:
        return ", ".join(hosts)
    return "its publisher, by hand" if entry.files else "nothing to fetch"


def _verdict(entry: DatasetEntry, held: State | None) -> str:
    if held is None or held is State.ABSENT:
        return _NOT_NEEDED
    if held is State.DAMAGED:
        return "DAMAGED"
    # Large data are not read for a listing.
    return "sizes only" if entry.intake is not None else "yes"


@contextmanager
def _progress(*, of_rows: bool = False) -> Iterator[OnProgress]:
    """A bar per file on the error output, so that the output proper can be piped; it counts bytes, or rows."""
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        ProgressColumn,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )
    from rich.progress import Progress as Bars

    figures: list[ProgressColumn] = [MofNCompleteColumn()] if of_rows else [DownloadColumn(), TransferSpeedColumn()]
    columns = (TextColumn("{task.description}"), BarColumn(), *figures)
    with Bars(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as bars:
        tasks = {}

        def report(name: str, have: int, total: int | None) -> None:
            if name not in tasks:
                tasks[name] = bars.add_task(escape(name), total=total)
            bars.update(tasks[name], completed=have, total=total)

        yield report

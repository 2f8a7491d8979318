"""`drobench data`: what the datasets need, fetching it, checking that it is still sound, and writing tables."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from drobench.app.commands.parsing import AddCommand, add_parser

if TYPE_CHECKING:
    from drobench.data.progress import OnProgress


def add_commands(add: AddCommand) -> None:
    """Add the command and its actions."""
    parser = add("data", list_all, "list the datasets, fetch and verify them", "drobench data fetch adult")
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=False)
    text = "download a dataset, or take it from local files, and verify it"
    fetched = add_parser(actions, "fetch", text, "drobench data fetch adult")
    fetched.add_argument("name", help="a dataset from `drobench data`")
    fetched.add_argument("--from", dest="source", type=Path, metavar="DIR", help="a folder or zip archive")
    fetched.set_defaults(command=fetch)
    text = "read what was fetched again and compare checksums"
    verified = add_parser(actions, "verify", text, "drobench data verify")
    verified.add_argument("name", nargs="?", help="a dataset from `drobench data`, or a folder that convert wrote")
    verified.set_defaults(command=verify)
    _add_convert(actions)


def _add_convert(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    text = "write Parquet files as one table for dataset=mapped, which may be larger than memory"
    made = add_parser(
        actions, "convert", text, "drobench data convert 'shards/*.parquet' --label target --output table"
    )
    made.add_argument("sources", nargs="+", metavar="SOURCE", help="a .parquet file, a folder, or a pattern")
    made.add_argument("--output", type=Path, required=True, metavar="DIR", help="the folder to write")
    made.add_argument("--label", required=True, metavar="COLUMN", help="the column to predict")
    made.add_argument("--drop", action="append", default=[], metavar="COLUMN", help="no feature; repeatable")
    made.add_argument("--dtype", choices=["float32", "float64"], default="float32", help="default float32")
    made.set_defaults(command=convert)


def list_all(_options: argparse.Namespace) -> int:
    """Print every dataset, where it comes from, and what the cache holds of it."""
    from rich.markup import escape

    from drobench.app.cached_data import held_of, is_cached, origin_of, verdict_on
    from drobench.app.console import open_console, table
    from drobench.data.cache import cache_root
    from drobench.registry import load_catalogue

    rows = []
    for name, found in load_catalogue().datasets.items():
        entry = found.entry
        held = held_of(entry, thorough=False)
        known = [entry.licence or "-", entry.reference or "-"]
        rows.append([name, origin_of(entry), *known, is_cached(held), verdict_on(entry, held)])
    console = open_console()
    console.print(table(None, ["dataset", "from", "licence", "reference", "cached", "verified"], rows))
    console.print(f"cache: {escape(str(cache_root()))}", soft_wrap=True)
    console.print("[dim]`drobench data fetch NAME` fetches, `drobench data verify` reads every byte again.[/dim]")
    return 0


def fetch(options: argparse.Namespace) -> int:
    """Bring a dataset into the cache, from its servers or from a folder or archive.

    Raises:
        DownloadError: It cannot be had; the message says why.
    """
    from rich.markup import escape

    from drobench.app.console import open_console
    from drobench.data.cache import DownloadError, cache_folder
    from drobench.data.download import fetch as fetch_files
    from drobench.registry import load_catalogue

    name, source, console = options.name, options.source, open_console()
    entry = load_catalogue().dataset(name).entry
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
    with _bars() as show:
        paths = fetch_files(name, entry.files, source, progress=show)
    for path in paths:
        console.print(f"verified  {escape(str(path))}", soft_wrap=True)
    return 0


def verify(options: argparse.Namespace) -> int:
    """Read everything in the cache again, of one dataset or of all, and compare checksums; or that of one table.

    Raises:
        DownloadError: Something is damaged, or the named dataset is not there.
        DataError: The table is damaged.
    """
    from drobench.app.cached_data import held_of
    from drobench.app.console import open_console, table
    from drobench.data.cache import DownloadError, State, cache_root
    from drobench.registry import load_catalogue

    name, catalogue = options.name, load_catalogue()
    if name is not None and name not in catalogue.datasets and Path(name).is_dir():
        return _verify_table(Path(name))
    names = [name] if name is not None else list(catalogue.datasets)
    checked = {each: held_of(catalogue.dataset(each).entry, thorough=True) for each in names}
    rows = [[each, "nothing to fetch" if held is None else str(held)] for each, held in checked.items()]
    open_console().print(table(None, ["dataset", "cache"], rows))
    damaged = [each for each, held in checked.items() if held is State.DAMAGED]
    if damaged:
        raise DownloadError(
            f"The cache {cache_root()} must hold what was fetched; found {', '.join(damaged)} damaged. Run "
            f"`drobench data fetch {damaged[0]}` again."
        )
    if name is not None and checked[name] is State.ABSENT:
        raise DownloadError(f"{name} is not in the cache {cache_root()}. Run `drobench data fetch {name}`.")
    return 0


def _verify_table(folder: Path) -> int:
    from rich.markup import escape

    from drobench.app.console import open_console
    from drobench.data.stored_table import verify_table

    read = verify_table(folder)
    open_console().print(
        f"verified  {escape(str(folder))}: {read.rows} rows, {len(read.columns)} columns", soft_wrap=True
    )
    return 0


def convert(options: argparse.Namespace) -> int:
    """Write Parquet files as one table.

    Raises:
        DataError: They cannot be converted; the message says why.
    """
    from rich.markup import escape

    from drobench.app.console import open_console
    from drobench.data.parquet import convert_parquet

    with _bars(of_rows=True) as show:
        written = convert_parquet(
            options.sources,
            options.output,
            label=options.label,
            drop=options.drop,
            dtype=options.dtype,
            progress=show,
        )
    console = open_console()
    classes = ", ".join(f"{name!r} is {code}" for code, name in enumerate(written.classes))
    console.print(f"{written.rows} rows, {len(written.columns)} columns; classes: {escape(classes)}", soft_wrap=True)
    console.print(f"use it with `dataset=mapped dataset.path={escape(str(options.output))}`", soft_wrap=True)
    return 0


@contextmanager
def _bars(*, of_rows: bool = False) -> "Iterator[OnProgress]":
    """A bar per file on the error output, so that the output proper can be piped; it counts bytes, or rows."""
    from rich.console import Console
    from rich.markup import escape
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

        def show(name: str, have: int, total: int | None) -> None:
            if name not in tasks:
                tasks[name] = bars.add_task(escape(name), total=total)
            bars.update(tasks[name], completed=have, total=total)

        yield show

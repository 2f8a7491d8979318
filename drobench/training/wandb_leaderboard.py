"""The leaderboard of a sweep at Weights & Biases: one run beside those it compares, with tables in an artifact."""

import hashlib
import itertools
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import wandb

from drobench.results.comparison.board import Leaderboard
from drobench.results.report.formats import csv_columns, csv_rows, format_markdown
from drobench.training.settings import WandbConfig
from drobench.training.wandb_session import start_run, tolerated


def log_leaderboard(leaderboard: Leaderboard, run_ids: Iterable[str], config: WandbConfig, logs: Path) -> None:
    """Log the boards as tables, and as an artifact that gets a new version whenever they change.

    Args:
        leaderboard: The comparison.
        run_ids: The runs it compares; the same runs make the same run here.
        config: That of the runs compared; their group becomes the group of this run.
        logs: The folder in which this run gets one of its own.
    """
    compared = sorted(run_ids)
    identity = "leaderboard-" + hashlib.sha256(" ".join(compared).encode()).hexdigest()[:20]
    name = "leaderboard" if config.group is None else f"leaderboard-{config.group}"
    with tolerated("logging the leaderboard"), _artifacts_in(logs / f"{identity}-artifacts"):
        started = start_run(
            config,
            logs / identity,
            identity=identity,
            name=name,
            job_type="leaderboard",
            settings={"run_ids": compared},
        )
        # Only these characters may stand in the name of an artifact.
        artifact = wandb.Artifact(re.sub(r"[^\w.-]", "_", name, flags=re.ASCII), type="leaderboard")
        with started as run:
            run.log({f"leaderboard/{title}": table for title, table in tables_of(leaderboard).items()})
            # A table belongs to the one place it is put into, hence new ones.
            for number, table in enumerate(tables_of(leaderboard).values()):
                artifact.add(table, f"board_{number}")
            with artifact.new_file("leaderboard.md") as file:
                file.write(format_markdown(leaderboard))
            run.log_artifact(artifact)


@contextmanager
def _artifacts_in(folder: Path) -> Iterator[None]:
    """Let wandb keep the files of artifacts with the results, not at home, so that both can be uploaded elsewhere."""
    before = os.environ.get("WANDB_DATA_DIR")
    shutil.rmtree(folder, ignore_errors=True)
    os.environ["WANDB_DATA_DIR"] = before or str(folder.absolute())
    try:
        yield
    finally:
        if before is None:
            del os.environ["WANDB_DATA_DIR"]


def tables_of(leaderboard: Leaderboard) -> dict[str, wandb.Table]:
    """Return one table per board, by its title; it has the columns of `drobench leaderboard --format csv`."""
    tables = {}
    for title, rows in itertools.groupby(csv_rows(leaderboard), key=lambda row: str(row[0])):
        columns = zip(*(row[1:] for row in rows), strict=True)
        data = zip(*(_of_one_type(column) for column in columns), strict=True)
        tables[title] = wandb.Table(columns=[*csv_columns(leaderboard.further)[1:]], data=[list(row) for row in data])
    return tables


def _of_one_type(cells: Sequence[Any]) -> list[Any]:
    """Return a column of texts or of floats, since a table wants one type per column; nothing for a missing number."""
    if any(isinstance(cell, str) for cell in cells):
        return ["" if cell is None else cell for cell in cells]
    return [None if cell is None else float(cell) for cell in cells]

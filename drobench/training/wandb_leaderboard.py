"""The leaderboard of a sweep at Weights & Biases: one run beside those it compares, with tables in an artifact."""

import csv
import hashlib
import io
import math
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import wandb

from drobench.results.comparison.board import Leaderboard
from drobench.results.report.formats import format_csv, format_markdown
from drobench.training.settings import LoggerConfig
from drobench.training.wandb_session import start_run, tolerated


def log_leaderboard(leaderboard: Leaderboard, run_ids: Iterable[str], config: LoggerConfig, logs: Path) -> None:
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
    text = format_csv(leaderboard)
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
            run.log({f"leaderboard/{title}": table for title, table in tables_of(text).items()})
            # A table belongs to the one place it is put into, hence new ones.
            for number, table in enumerate(tables_of(text).values()):
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


def tables_of(text: str) -> dict[str, wandb.Table]:
    """Return one table per board of `drobench leaderboard --format csv`, by its title in the first column."""
    header, *lines = csv.reader(io.StringIO(text))
    tables = {}
    for title in dict.fromkeys(line[0] for line in lines):
        columns = zip(*(line[1:] for line in lines if line[0] == title), strict=True)
        rows = zip(*(_typed(column) for column in columns), strict=True)
        tables[title] = wandb.Table(columns=[*header[1:]], data=[list(row) for row in rows])
    return tables


def _typed(cells: Sequence[str]) -> list[Any]:
    """Return a column of numbers where all of it is numbers; nothing for what is missing or was never reached."""
    try:
        numbers = [float(cell) if cell else None for cell in cells]
    except ValueError:
        return list(cells)
    return [None if number is None or not math.isfinite(number) else number for number in numbers]

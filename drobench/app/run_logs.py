"""The log of a cell: from its configuration to where its curve goes besides the record."""

import os
import sys
from enum import StrEnum
from pathlib import Path

from drobench.app.config import NO_LOGGER, RunConfig, plain
from drobench.app.ranks import told_by_launcher
from drobench.registry import Catalogue
from drobench.results.record import short_id
from drobench.results.store import ResultStore
from drobench.training.loggers import make_log, marker
from drobench.training.run_log import RunCard, RunLog

FOLDER = ".logs"
"""Where logs lie in a folder of results."""


def log_of(config: RunConfig, run_id: str, catalogue: Catalogue, results: Path) -> RunLog:
    """Return the log of a run, not yet opened; on ranks other than 0 it leads nowhere."""
    words = (config.solver.name, config.problem.name, config.dataset.name, f"seed{config.seed}", short_id(run_id))
    card = RunCard(run_id, "-".join(words), config.solver.name, plain(config))
    rank = told_by_launcher("RANK", alone=0)
    if config.logger.name == NO_LOGGER:
        return RunLog()
    return make_log(catalogue.logger(config.logger.name).entry, config.logger, card, results / FOLDER / run_id, rank)


class Replay(StrEnum):
    """What became of the log of a run that was there already."""

    DONE = "curve and outcome replayed to"
    THERE = "logged before by"
    FAILED = "not replayed, which failed, to"


def replay(config: RunConfig, run_id: str, catalogue: Catalogue, store: ResultStore) -> Replay | None:
    """Log a run that is finished already, unless its log is there; an agent of wandb waits for it even then.

    Returns:
        What was done; `None` where nobody asked for a log.
    """
    if config.logger.name == NO_LOGGER:
        return None
    logged = marker(catalogue.logger(config.logger.name).entry, store.root / FOLDER / run_id)
    if logged.exists() and "WANDB_RUN_ID" not in os.environ:
        return Replay.THERE
    record = store.read(run_id)
    with log_of(config, run_id, catalogue, store.root) as log:
        logger = log.open(continued=False)
        if logger is not None:
            for row in store.curve(run_id).to_dicts():
                numbers = {column: value for column, value in row.items() if value is not None}
                logger.log_metrics(numbers, step=row["step"])
            logger.save()
        log.conclude(record)
    return Replay.DONE if logged.exists() else Replay.FAILED


def log_stored(config: RunConfig, run_id: str, catalogue: Catalogue, store: ResultStore) -> None:
    """Replay a run that is finished already, and say what was done."""
    done = replay(config, run_id, catalogue, store)
    if done is not None:
        word = f"run {short_id(run_id)} was there already; {done} logger={config.logger.name}."
        print(f"drobench: {word}", file=sys.stderr)

"""The log of a cell: from its configuration to where its curve goes besides the record."""

import os
from pathlib import Path

from drobench.app.config import plain
from drobench.app.prepare import Prepared
from drobench.app.ranks import told_by_launcher
from drobench.results.record import short_id
from drobench.results.store import ResultStore
from drobench.training.loggers import make_logger
from drobench.training.run_log import RunCard, RunLog

FOLDER = ".logs"
"""Where logs lie in a folder of results."""


def log_of(prepared: Prepared, results: Path) -> RunLog:
    """Return the log of a run, not yet opened; on ranks other than 0 it leads nowhere."""
    config = prepared.config
    words = (
        config.solver.name,
        config.problem.name,
        config.dataset.name,
        f"seed{config.seed}",
        short_id(prepared.run_id),
    )
    card = RunCard(prepared.run_id, "-".join(words), config.solver.name, plain(config))
    rank = told_by_launcher("RANK", alone=0)
    return make_logger(config.logger, card, results / FOLDER / prepared.run_id, rank)


def log_stored(prepared: Prepared, store: ResultStore) -> None:
    """Log a run that is finished already, where its log is missing or an agent of wandb waits for it."""
    missing = not (store.root / FOLDER / prepared.run_id).exists()
    if prepared.config.logger.name == "none" or not (missing or "WANDB_RUN_ID" in os.environ):
        return
    with log_of(prepared, store.root) as log:
        logger = log.open(continued=False)
        if logger is not None:
            for row in store.curve(prepared.run_id).to_dicts():
                numbers = {name: value for name, value in row.items() if value is not None}
                logger.log_metrics(numbers, step=row["step"])
            logger.save()
        log.conclude(store.read(prepared.run_id))

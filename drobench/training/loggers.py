"""The one place that makes the logs of runs, whichever logger was chosen.

Only rank 0 logs. A logger follows a run and has no say in it: it changes neither the run's id nor its result, and where
it fails the run goes on.
"""

import importlib.util
import warnings
from pathlib import Path
from typing import Any

from pytorch_lightning.loggers import CSVLogger, Logger, TensorBoardLogger

from drobench.errors import DrobenchError
from drobench.registry import LoggerEntry
from drobench.training.guarded_log import GuardedLog
from drobench.training.run_log import RunCard, RunLog


def check_logger(entry: LoggerEntry) -> None:
    """Raise where the package behind a logger is not installed, before anything is computed."""
    if entry.package and importlib.util.find_spec(entry.package) is None:
        raise DrobenchError(
            f"logger={entry.name} needs the package {entry.package!r}, which is not installed. Install it with "
            f"`pip install '{entry.install or entry.package}'`, or use logger=csv."
        )


def make_log(entry: LoggerEntry, settings: Any, card: RunCard, folder: Path, rank: int = 0) -> RunLog:
    """Return the log of a run, not yet opened.

    Args:
        entry: The logger.
        settings: An instance of its config.
        card: The run.
        folder: Where the logs of this run are; the logger gets a folder of its own name in it.
        rank: Of this process; only rank 0 gets a log that leads anywhere.
    """
    if rank != 0:
        return RunLog()
    return GuardedLog(
        entry.name, lambda: entry.factory(settings, card, folder / entry.name), card, marker(entry, folder)
    )


def marker(entry: LoggerEntry, folder: Path) -> Path:
    """Return the file that says that a run was logged to this logger, to its end."""
    return folder / f".logged-{entry.name}"


class CsvLog(RunLog):
    """One row per evaluation in `metrics.csv`; the folder may hold other files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def open(self, continued: bool) -> Logger:
        # A continued run logs its curve from the start again.
        for file in (self.folder / "metrics.csv", self.folder / "hparams.yaml"):
            file.unlink(missing_ok=True)
        logger = CSVLogger(save_dir=self.folder, name="", version="")
        with warnings.catch_warnings():
            # It is not: what lies there belongs to other loggers.
            warnings.filterwarnings("ignore", message="Experiment logs directory .* exists and is not empty")
            assert logger.experiment is not None
        return logger


class TensorBoardLog(RunLog):
    """One event file with a curve per metric, against solver steps, and the configuration as hyperparameters."""

    def __init__(self, card: RunCard, folder: Path) -> None:
        self.card = card
        self.folder = folder

    def open(self, continued: bool) -> Logger:
        for file in self.folder.glob("events.out.tfevents.*"):
            file.unlink()
        logger = TensorBoardLogger(save_dir=self.folder, name="", version="", default_hp_metric=False)
        logger.log_hyperparams({**self.card.config, "run_id": self.card.run_id})
        return logger

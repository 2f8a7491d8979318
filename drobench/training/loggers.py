"""The one place that makes loggers: none, a CSV file, TensorBoard or Weights & Biases.

Only rank 0 logs. A logger follows a run and has no say in it: it changes neither the run's id nor its result.
"""

import importlib.util
import shutil
from pathlib import Path

from pytorch_lightning.loggers import CSVLogger, Logger, TensorBoardLogger

from drobench.errors import DrobenchError
from drobench.training.run_log import RunCard, RunLog
from drobench.training.settings import LoggerConfig

# The package each logger needs, and how to get it.
_PACKAGES = {"tensorboard": ("tensorboard", "drobench[tensorboard]"), "wandb": ("wandb", "wandb")}


def check_logger(config: LoggerConfig) -> None:
    """Raise where the package behind a logger is not installed, before anything is computed."""
    package, install = _PACKAGES.get(config.name, (None, None))
    if package is not None and importlib.util.find_spec(package) is None:
        raise DrobenchError(
            f"logger={config.name} needs the package {package!r}, which is not installed. Install it with "
            f"`pip install '{install}'`, or use logger=csv."
        )


def make_logger(config: LoggerConfig, card: RunCard, folder: Path, rank: int = 0) -> RunLog:
    """Return the log of a run, not yet opened.

    Args:
        config: Which logger.
        card: The run.
        folder: Belongs to this run's log alone.
        rank: Of this process; only rank 0 gets a log that leads anywhere.
    """
    if rank != 0 or config.name == "none":
        return RunLog()
    if config.name == "csv":
        return CsvLog(folder)
    if config.name == "tensorboard":
        return TensorBoardLog(card, folder)
    # Importing wandb takes most of a second, which nobody else should spend.
    from drobench.training.wandb_log import WandbLog  # noqa: PLC0415

    return WandbLog(config, card, folder)


class CsvLog(RunLog):
    """One row per evaluation in `metrics.csv`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def open(self, continued: bool) -> Logger:
        # A continued run logs its curve from the start again.
        shutil.rmtree(self.folder, ignore_errors=True)
        return CSVLogger(save_dir=self.folder, name="", version="")


class TensorBoardLog(RunLog):
    """One event file with a curve per metric, against solver steps, and the configuration as hyperparameters."""

    def __init__(self, card: RunCard, folder: Path) -> None:
        self.card = card
        self.folder = folder

    def open(self, continued: bool) -> Logger:
        shutil.rmtree(self.folder, ignore_errors=True)
        logger = TensorBoardLogger(save_dir=self.folder, name="", version="", default_hp_metric=False)
        logger.log_hyperparams({**self.card.config, "run_id": self.card.run_id})
        return logger

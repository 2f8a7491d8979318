"""The loggers that come with drobench: none, a CSV file, TensorBoard, Weights & Biases.

What they write lies in one folder for each run, under names that differ: `metrics.csv`, `events.out.tfevents.*` and
`wandb`. So the folder of its own that each is offered is only used by wandb, which makes one of that name by itself.
Lightning and wandb are imported where a log is made.
"""

from pathlib import Path
from typing import Any

from drobench.registry import LoggerEntry
from drobench.registry.entries import NoSettings
from drobench.training.settings import WandbConfig


def _no_log(_config: NoSettings, _card: Any, _folder: Path) -> Any:
    from drobench.training.run_log import RunLog  # noqa: PLC0415

    return RunLog()


def _csv_log(_config: NoSettings, _card: Any, folder: Path) -> Any:
    from drobench.training.loggers import CsvLog  # noqa: PLC0415

    return CsvLog(folder.parent)


def _tensorboard_log(_config: NoSettings, card: Any, folder: Path) -> Any:
    from drobench.training.loggers import TensorBoardLog  # noqa: PLC0415

    return TensorBoardLog(card, folder.parent)


def _wandb_log(config: WandbConfig, card: Any, folder: Path) -> Any:
    from drobench.training.wandb_log import WandbLog  # noqa: PLC0415

    return WandbLog(config, card, folder.parent)


def entries() -> list[LoggerEntry]:
    """Return the catalogue entries."""
    return [
        LoggerEntry(name="none", summary="No log besides the record.", config=NoSettings, factory=_no_log),
        LoggerEntry(name="csv", summary="One row per evaluation in metrics.csv.", config=NoSettings, factory=_csv_log),
        LoggerEntry(
            name="tensorboard",
            summary="Curves for TensorBoard, against the steps of the solver.",
            config=NoSettings,
            factory=_tensorboard_log,
            package="tensorboard",
            install="drobench[tensorboard]",
        ),
        LoggerEntry(
            name="wandb",
            summary="Weights & Biases, offline where there is no key.",
            config=WandbConfig,
            factory=_wandb_log,
            package="wandb",
        ),
    ]

"""The curve, configuration and outcome of a run at Weights & Biases.

Written on wandb's own interface and not on Lightning's `WandbLogger`, which finishes no run, knows no exit code and no
summary of ours, and puts `trainer/global_step` on the axis, which counts chunks here.

The history has one row per evaluation, with the solver's step as wandb's step. Each row holds all three measures of
effort, so any of them can be chosen as the horizontal axis; oracle calls are what a chart shows at first.
"""

from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import wandb
from pytorch_lightning.loggers import Logger

from drobench.results.record import Record, short_id
from drobench.training.run_log import RunCard, RunLog
from drobench.training.settings import WandbConfig
from drobench.training.summary import summary_of
from drobench.training.wandb_session import start_run, tolerated

AXES = ("oracle_calls", "passes", "solver_seconds")
"""What a curve can be drawn against; the first is the default."""
# Of the 64 digits of a run's id; enough to be unique, and short enough for an address.
_ID_DIGITS = 32


class WandbLog(RunLog, Logger):
    """One run at Weights & Biases, which is at the same time the logger that Lightning hands rows to."""

    def __init__(self, config: WandbConfig, card: RunCard, folder: Path) -> None:
        super().__init__()
        self.config = config
        self.card = card
        self.folder = folder
        self.run: wandb.Run | None = None

    @property
    def name(self) -> str:
        """The project."""
        return self.config.project

    @property
    def version(self) -> str:
        """The run's id at wandb."""
        return self.card.run_id[:_ID_DIGITS]

    def open(self, continued: bool) -> Logger:
        """Start the run, or warn that it could not be started."""
        with self._tolerated("starting"):
            self.run = start_run(
                self.config,
                self.folder,
                identity=self.version,
                name=self.card.name,
                job_type=self.card.solver,
                settings={**self.card.config, "run_id": self.card.run_id},
                continued=continued,
            )
            for axis in AXES:
                self.run.define_metric(axis)
            self.run.define_metric("*", step_metric=AXES[0])
        return self

    def log_metrics(self, metrics: dict[str, Any], step: int | None = None) -> None:
        """Add a row, unless wandb has it from before the run was interrupted."""
        if self.run is None or (step is not None and step < self.run.step):
            return
        # Charts take numbers only.
        numbers = {name: int(value) if isinstance(value, bool) else value for name, value in metrics.items()}
        with self._tolerated("logging"):
            self.run.log(numbers, step=step, commit=True)

    def log_hyperparams(self, params: dict[str, Any] | Namespace, *args: Any, **kwargs: Any) -> None:
        """Do nothing: the configuration was there at the start."""

    def conclude(self, record: Record) -> None:
        """Put the final iterates, the verdict and the counts into the summary."""
        super().conclude(record)
        if self.run is not None:
            with self._tolerated("summarising"):
                self.run.summary.update(summary_of(record))

    def close(self, failed: bool) -> None:
        """Finish the run, as failed where it failed."""
        run, self.run = self.run, None
        if run is not None:
            with self._tolerated("finishing"):
                run.finish(exit_code=int(failed))

    @contextmanager
    def _tolerated(self, doing: str) -> Iterator[None]:
        """Go on without wandb, for the rest of the run, once it has failed."""
        with tolerated(f"{doing} run {short_id(self.card.run_id)}"):
            try:
                yield
            except Exception:
                self.run, self.lost = None, True
                raise

"""A log that cannot harm the run it follows: what a logger raises becomes a warning that names it.

A logger may be a stranger's. After its first failure it is only closed, and the run is computed and recorded as if
nobody had looked on.
"""

import warnings
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pytorch_lightning.loggers import Logger

from drobench.reasons import reason_of
from drobench.results.record import Record, short_id
from drobench.training.run_log import RunCard, RunLog
from drobench.training.summary import summary_of


class LoggerFailed(UserWarning):
    """A logger could not do its part; the run it was to follow is not affected."""


class GuardedLog(RunLog):
    """The log of a run by whatever a logger's factory makes.

    Args:
        name: Of the logger.
        make: Calls the factory, whose failures are the logger's too.
        card: The run.
        marker: The file that is written when all of the run was logged.
    """

    def __init__(self, name: str, make: Callable[[], Any], card: RunCard, marker: Path) -> None:
        self.name = name
        self.make = make
        self.card = card
        self.marker = marker
        self.log: RunLog | None = None
        self.failed = False
        self.concluded = False

    def open(self, continued: bool) -> Logger | None:
        """Open the log; without a logger it leads nowhere."""
        found: Logger | None = None
        with self._guarded("starting"):
            self.marker.unlink(missing_ok=True)
            self.log = self._made()
            found = self.log.open(continued)
        return None if found is None or self.failed else GuardedLogger(found, self)

    def _made(self) -> RunLog:
        made = self.make()
        if isinstance(made, RunLog):
            return made
        if isinstance(made, Logger):
            return LightningLog(made, self.card)
        raise TypeError(f"its factory must return a logger of Lightning or a RunLog; found {type(made).__name__}")

    def conclude(self, record: Record) -> None:
        super().conclude(record)
        log = self.log
        if log is not None:
            self.guard("summarising", lambda: log.conclude(record))
        self.concluded = True

    def close(self, failed: bool) -> None:
        log, self.log = self.log, None
        if log is None:
            return
        with self._guarded("finishing"):
            log.close(failed)
        if self.concluded and not self.failed and not log.lost:
            with self._guarded("finishing"):
                self.marker.parent.mkdir(parents=True, exist_ok=True)
                self.marker.touch()

    def guard(self, doing: str, what: Callable[[], None]) -> None:
        """Do something with the logger, unless it has failed before."""
        if not self.failed:
            with self._guarded(doing):
                what()

    @contextmanager
    def _guarded(self, doing: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self.failed = True
            warnings.warn(
                f"logger={self.name} failed while {doing} run {short_id(self.card.run_id)}: {reason_of(error)}; the "
                "run goes on without it, and is recorded as always.",
                LoggerFailed,
                stacklevel=4,
            )


class GuardedLogger(Logger):
    """What Lightning is given in the place of a logger."""

    def __init__(self, logger: Logger, log: GuardedLog) -> None:
        super().__init__()
        self.logger = logger
        self.log = log

    @property
    def name(self) -> str:
        """The name in the catalogue."""
        return self.log.name

    @property
    def version(self) -> str:
        """The run."""
        return self.log.card.run_id

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        self.log.guard("logging", lambda: self.logger.log_metrics(dict(metrics), step))

    def log_hyperparams(self, params: dict[str, Any] | Namespace, *args: Any, **kwargs: Any) -> None:
        self.log.guard("logging", lambda: self.logger.log_hyperparams(params, *args, **kwargs))

    def save(self) -> None:
        self.log.guard("saving", self.logger.save)

    def finalize(self, status: str) -> None:
        """Save; Lightning says this before the outcome is known, and the log is closed when it is."""
        self.save()


class LightningLog(RunLog):
    """The log by a logger of Lightning: settings, curve, and at the end the outcome, as numbers under `summary/`."""

    def __init__(self, logger: Logger, card: RunCard) -> None:
        self.logger = logger
        self.card = card

    def open(self, continued: bool) -> Logger:
        self.logger.log_hyperparams({**self.card.config, "run_id": self.card.run_id})
        return self.logger

    def conclude(self, record: Record) -> None:
        last = record.iterates.last
        numbers = {
            f"summary/{name}": float(value)
            for name, value in summary_of(record).items()
            if isinstance(value, int | float)
        }
        self.logger.log_metrics(numbers, step=None if last is None else last.step)

    def close(self, failed: bool) -> None:
        self.logger.finalize("failed" if failed else "success")

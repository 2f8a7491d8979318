"""What every place that metrics can go to has in common: it is opened, told the outcome, and closed exactly once."""

from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from pytorch_lightning.loggers import Logger

from drobench.results.record import FAILURES, Record


@dataclass(frozen=True)
class RunCard:
    """What a log says about a run besides its numbers."""

    run_id: str
    name: str
    """For people; it need not be unique."""
    solver: str
    config: dict[str, Any]
    """The whole resolved configuration."""


class RunLog:
    """Where the curve of one run goes besides its record; this one leads nowhere.

    It is a context around the computation: leaving it closes the log, whatever ended the run. A log that was never
    opened, because the run was refused before it started, leaves no trace.
    """

    lost = False
    """Whether some of the run could not be logged."""
    _failed = False

    def open(self, continued: bool) -> Logger | None:
        """Return the Lightning logger that takes the curve; `continued` runs repeat theirs from the start."""
        return None

    def conclude(self, record: Record) -> None:
        """Take note of how the run ended."""
        self._failed = record.status in FAILURES

    def close(self, failed: bool) -> None:
        """Write what is left to write."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(self._failed or error is not None)

"""What the jobs of one Hydra multirun have in common: a folder, in which each leaves the id of its run."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hydra.core.hydra_config import HydraConfig
from hydra.experimental.callback import Callback
from hydra.types import RunMode

_RUNS = "runs"


class Begun(NamedTuple):
    """A multirun that began: where its results go, and where its jobs leave word."""

    results: Path
    folder: Path

    def runs(self) -> list[str]:
        """Return the ids of its runs, as far as its jobs have come."""
        return sorted(file.name for file in (self.folder / _RUNS).glob("*"))


_begun: list[Begun] = []


class NoteFolder(Callback):
    """Remembers the folder when a multirun begins, named in `conf/run.yaml`: its jobs may be in other processes."""

    def on_multirun_start(self, config: Any, **kwargs: Any) -> None:
        _begun.append(Begun(Path(config.results), Path(config.hydra.sweep.dir)))


def take_begun() -> Begun | None:
    """Return the multirun that began in this process since this was last asked."""
    return _begun.pop() if _begun else None


def is_multirun() -> bool:
    """Whether this process does a job of a multirun."""
    return HydraConfig.initialized() and HydraConfig.get().mode == RunMode.MULTIRUN


def group_of_job() -> str | None:
    """Return a name that all jobs of one multirun share, in whatever processes they run; nothing for a single run."""
    return f"multirun-{_folder().name}" if is_multirun() else None


def note_run(run_id: str) -> None:
    """Leave word of a run of this multirun for whoever started it."""
    place = _folder() / _RUNS
    place.mkdir(parents=True, exist_ok=True)
    (place / run_id).touch()


def label_of_job(typed: Sequence[str]) -> str:
    """Return the words that this job has and not all have: those that nobody typed as they stand."""
    words = [word for word in HydraConfig.get().overrides.task if word not in typed]
    return " ".join(words) or "as typed"


def _folder() -> Path:
    return Path(HydraConfig.get().sweep.dir)

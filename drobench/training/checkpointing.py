"""Saving a run while it goes on, so that a killed one continues where it was.

Lightning's own checkpoint callback ignores time intervals under manual optimization, hence this one. The file is
Lightning's all the same, written aside and moved into place, and read with `weights_only=True`. Torch does not notice
when the numbers in such a file have changed, so its checksum is kept beside it.
"""

import json
import time
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch

from drobench.files import file_sha256, write_atomically
from drobench.objective.sampling import Shard
from drobench.solver.solver import state_from_dict, state_type
from drobench.training.evaluation import Scores
from drobench.training.solver_module import SolverModule
from drobench.training.task import Task


class PeriodicCheckpoint(pl.Callback):
    """Writes `path` every so many seconds or solver steps, all ranks together.

    Steps are those at multiples of `steps`, on any machine and after any interruption.
    """

    def __init__(self, path: Path, seconds: float | None, steps: int | None) -> None:
        self.path = path
        self.seconds = seconds
        self.steps = steps
        self.saved_at = 0.0
        self.digest: str | None = None

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        assert isinstance(pl_module, SolverModule)
        self.saved_at = time.monotonic()
        pl_module.save_every = self.steps
        if trainer.is_global_zero and self.path.exists():
            found = file_sha256(self.path)
            self.digest = found if found in noted_digests(self.path) else None

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Save if it is time to; clocks differ between ranks, so rank 0 decides for all."""
        assert isinstance(pl_module, SolverModule)
        due = self.seconds is not None and time.monotonic() - self.saved_at >= self.seconds
        due = due or (self.steps is not None and pl_module.steps % self.steps == 0)
        if trainer.should_stop or not trainer.strategy.broadcast(due):
            return
        partial = self.path.with_suffix(".partial")
        trainer.save_checkpoint(partial)
        if trainer.is_global_zero:
            self.digest, before = file_sha256(partial), self.digest
            # The file that is in place has its checksum in the list before it is replaced and after.
            note_digests(self.path, self.digest, before)
            partial.replace(self.path)
        self.saved_at = time.monotonic()


def note_digests(file: Path, *digests: str | None) -> None:
    """Write down the checksums that a checkpoint may have."""
    write_atomically(_digests_of(file), json.dumps([digest for digest in digests if digest is not None]))


def noted_digests(file: Path) -> list[str]:
    """Return the checksums that were written down for a checkpoint; none where that cannot be read either."""
    try:
        noted = json.loads(_digests_of(file).read_bytes())
    except (OSError, ValueError):
        return []
    return noted if isinstance(noted, list) else []


def set_aside(file: Path, place: Path) -> None:
    """Move a checkpoint out of the way; nothing is deleted but the list of its checksums."""
    place.parent.mkdir(parents=True, exist_ok=True)
    file.rename(place)
    _digests_of(file).unlink(missing_ok=True)


def _digests_of(file: Path) -> Path:
    return file.with_suffix(".sha256.json")


def why_unusable(file: Path, task: Task) -> str | None:
    """Return why a checkpoint cannot be continued, if it cannot: damaged, forged, or of another version of the code."""
    try:
        if file_sha256(file) not in noted_digests(file):
            return "its checksum is not one that was noted when it was written"
        saved = torch.load(file, map_location="cpu", weights_only=True)["drobench"]
        oracle = task.build_oracles[saved["stage"]](Shard())
        for mine in saved["ranks"]:
            state_from_dict(state_type(task.solver), mine["state"])
            oracle.load_state_dict(mine["oracle"])
        if saved["best"] is not None:
            Scores(**saved["best"])
    except Exception as error:  # a damaged file may raise anything
        return f"{type(error).__name__}: {(str(error).splitlines() or ['no message'])[0]}"
    return None

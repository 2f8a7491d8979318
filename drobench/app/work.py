"""The folder in which a run keeps what it needs until it is finished, and what becomes of the checkpoint in it."""

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from drobench.app.full_disk import of_the_disk
from drobench.app.launching import RANKS, RankKilled
from drobench.app.prepare import Prepared
from drobench.files import write_atomically
from drobench.results.record import canonical_json
from drobench.results.store import ResultStore
from drobench.training.checkpointing import set_aside, why_unusable
from drobench.training.task import Task
from drobench.training.trainer import CHECKPOINT_NAME

# Beside a checkpoint: which code wrote it.
_CODE = "code.json"


def work_folder(store: ResultStore, run_id: str) -> Path:
    """Return where a run keeps its checkpoint and its ranks say why they failed, until it is finished."""
    folder = store.root / ".work" / run_id
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def clear_work(folder: Path) -> None:
    """Remove what a finished run needed; the launcher of its ranks still works in its own part."""
    for item in folder.iterdir():
        if item.name == RANKS:
            continue
        if item.is_dir():
            shutil.rmtree(item, ignore_errors=True)
        else:
            item.unlink(missing_ok=True)
    with suppress(OSError):  # not empty
        folder.rmdir()


def look_at_checkpoint(store: ResultStore, prepared: Prepared, task: Task) -> None:
    """Put a checkpoint that cannot be continued out of the way, or every new attempt would fail on it."""
    file = work_folder(store, prepared.run_id) / CHECKPOINT_NAME
    if file.exists():
        trouble = _written_by_other_code(file.parent, prepared) or why_unusable(file, task)
        if trouble is not None:
            _set_aside(store, prepared.run_id, file, f"cannot be continued ({trouble})", "the run starts over")
    write_atomically(file.parent / _CODE, canonical_json(prepared.code.distributions))


def _written_by_other_code(folder: Path, prepared: Prepared) -> str | None:
    """Return what is wrong with a checkpoint that other code began: half of each would be neither."""
    note = folder / _CODE
    same = note.exists() and note.read_bytes() == canonical_json(prepared.code.distributions).encode()
    return None if same else "it was written by other code than that of this run"


@contextmanager
def checkpoint_doubted(store: ResultStore, run_id: str) -> Iterator[None]:
    """Set the checkpoint aside if the block continues it and fails before it has written another.

    It may be the reason, in a way that nobody has thought of. A run that was killed has no such doubts.
    """
    file = work_folder(store, run_id) / CHECKPOINT_NAME
    before = _which(file)
    try:
        yield
    except (Exception, SystemExit) as error:
        killed = isinstance(error, RankKilled) or of_the_disk(error)
        if before is not None and not killed and _which(file) == before:
            _set_aside(store, run_id, file, "was continued, and the run failed", "the next attempt starts over")
        raise


def _which(file: Path) -> tuple[int, int] | None:
    """Tell one checkpoint from the next, which is another file of the same name."""
    try:
        found = file.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns


def _set_aside(store: ResultStore, run_id: str, file: Path, trouble: str, outcome: str) -> None:
    place = store.root / ".damaged" / f"{run_id}-{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}.ckpt"
    set_aside(file, place)
    print(f"drobench: {file} {trouble}. It was moved to {place}; {outcome}.", file=sys.stderr)

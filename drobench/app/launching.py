"""Starting the ranks of a cell with torch's launcher, waiting for them, and finding out why they failed.

A rank that fails writes down why, in the folder of its run. One that was killed cannot; the launcher has seen it.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from drobench.app.full_disk import disk_trouble, of_the_disk
from drobench.app.optimum import Reference
from drobench.app.ranks import RANK_GRACE_SECONDS, STARTED_BY
from drobench.errors import DrobenchError
from drobench.reasons import reason_of, tidy
from drobench.registry.exits import attempt_to_end, exits_raise
from drobench.registry.time_limit import TimeLimitExpired
from drobench.results.record import Optimum
from drobench.training.settings import TrainerConfig

_POLL_SECONDS = 0.05
# For the launcher, which ends itself after its ranks; a sweep gives its workers a little more than this.
_GRACE_SECONDS = RANK_GRACE_SECONDS + 7.0
# What a launcher further out (srun, mpirun, another torchrun) says about its own processes is not about our ranks.
_RANK_VARIABLES = {"RANK", "LOCAL_RANK", "NODE_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}
_RANK_PREFIXES = ("TORCHELASTIC_", "PET_", "GROUP_", "ROLE_")
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
# Sent by the launcher itself, or by nccl to a process whose peer has died: never the beginning of a failure.
_CONSEQUENCES = (signal.SIGTERM, signal.SIGABRT)


RANKS = "ranks"
"""The part of a run's folder in which its launcher works."""
_RECORDED, _ENDS, _OUTPUT = "recorded", "ends.json", "output.txt"


class RankFailed(DrobenchError):
    """One of the processes of a run failed."""


class RankKilled(RankFailed):
    """One of the processes of a run was killed by somebody else."""


def start_ranks(config_text: str, reference: Reference, trainer: TrainerConfig, folder: Path, deadline: float) -> None:
    """Start the ranks of one machine and wait until they have ended well.

    Args:
        config_text: The resolved configuration.
        reference: What is known of the optimum, found before so that no rank looks for it again.
        trainer: How many, with how many threads.
        folder: That of the run, where a failing rank says why.
        deadline: When to give up, in the time of `time.monotonic`.

    Raises:
        RankFailed: If one fails or dies; says which, and why.
        StoreUnusable: If it failed because nothing can be written any more.
        TimeLimitExpired: If they are still at work after the deadline.
    """
    forget_failures(folder)
    place = folder / RANKS
    # What a killed attempt has left there.
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    try:
        code = _launch(place, config_text, reference, trainer, deadline)
        if code != 0:
            raise _failure(place, folder, code)
        if not (place / _RECORDED).exists():
            raise RankFailed("the ranks ended with code 0 without a record")
    finally:
        shutil.rmtree(place, ignore_errors=True)
        with suppress(OSError):  # not empty: there is a checkpoint
            folder.rmdir()


def _launch(place: Path, config_text: str, reference: Reference, trainer: TrainerConfig, deadline: float) -> int:
    """Return the code with which the launcher of the ranks has ended."""
    resolved, known = place / "resolved.yaml", place / "optimum.json"
    resolved.write_text(config_text, encoding="utf-8")
    known.write_text(json.dumps(reference_to_dict(reference)), encoding="utf-8")
    command = [sys.executable, "-m", "drobench.app.ranks", str(place / _ENDS), "--standalone"]
    # Its logs go into this folder too, or they would stay among the temporary files.
    command += ["--log-dir", str(place / "logs"), "--nproc-per-node", str(trainer.devices)]
    command += ["-m", "drobench.app.one_run", str(resolved), str(known)]
    environment = {**rank_environment(os.environ, trainer.threads), STARTED_BY: str(os.getpid())}
    with (place / _OUTPUT).open("wb") as sink:
        launcher = subprocess.Popen(command, stdout=sink, stderr=subprocess.STDOUT, env=environment)  # noqa: S603  # our own words
        try:
            return _wait(launcher, deadline)
        finally:
            _end(launcher)


def _failure(place: Path, folder: Path, code: int) -> DrobenchError:
    """Return why the ranks of a launcher that ended with this code have failed."""
    killed = _killed(place / _ENDS)
    if killed is not None:
        return RankKilled(killed)
    reason = first_failure(folder)
    if reason is not None and _disk_was_full(folder):
        return disk_trouble(reason)
    return RankFailed(reason or f"the launcher ended with code {code}: {_tail(place / _OUTPUT)}")


def note_record(place: Path) -> None:
    """Tell whoever has started the ranks that the record is written; for rank 0."""
    (place / _RECORDED).touch()


def rank_environment(inherited: Mapping[str, str], threads: int) -> dict[str, str]:
    """Return the variables for the launcher of ranks: nobody else's ranks, and as many threads as the run has."""
    kept = {
        name: value
        for name, value in inherited.items()
        if name not in _RANK_VARIABLES and not name.startswith(_RANK_PREFIXES)
    }
    return {**kept, **dict.fromkeys(_THREAD_VARIABLES, str(threads))}


def reference_to_dict(reference: Reference) -> dict[str, Any]:
    """Return what is known of the optimum as plain values."""
    return asdict(reference)


def reference_from_dict(content: Mapping[str, Any]) -> Reference:
    """Return what `reference_to_dict` was given."""
    optimum = content["optimum"]
    return Reference(None if optimum is None else Optimum(**optimum), content["reason"])


def _wait(launcher: subprocess.Popen[bytes], deadline: float) -> int:
    """Return the launcher's code, or raise `TimeLimitExpired` when it is still at work after the deadline.

    It looks again and again, since `Popen.wait` without a timeout would not hear an interrupt: polars handles SIGINT
    with `SA_RESTART`, after which the kernel goes on waiting. A sleep is not restarted.
    """
    while (code := launcher.poll()) is None:
        if time.monotonic() > deadline:
            raise TimeLimitExpired
        time.sleep(_POLL_SECONDS)
    return code


def _end(launcher: subprocess.Popen[bytes]) -> None:
    """Leave no process behind: the launcher ends its ranks when it is asked to end, and the kernel ends them if not."""
    launcher.terminate()
    try:
        launcher.wait(timeout=_GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        launcher.kill()
        launcher.wait()


@contextmanager
def failures_noted(folder: Path, rank: int) -> Iterator[None]:
    """Write down why this rank fails, for whoever records the run."""
    try:
        with exits_raise():
            yield
    except SystemExit as error:
        reason = attempt_to_end(error)
        _note(folder, rank, reason, error)
        # With the code that was asked for, the launcher might take it for a rank that has done its part.
        raise RankFailed(reason) from error
    except Exception as error:
        _note(folder, rank, reason_of(error), error)
        raise


def _note(folder: Path, rank: int, reason: str, error: BaseException) -> None:
    # The first rank removes the folder when it is done, which this one may not be.
    folder.mkdir(parents=True, exist_ok=True)
    failure = {"rank": rank, "time": time.time(), "reason": reason, "disk": of_the_disk(error)}
    (folder / f"rank{rank}.json").write_text(json.dumps(failure))


def forget_failures(folder: Path) -> None:
    """Remove what the ranks of an earlier attempt have written down."""
    for file in folder.glob("rank*.json"):
        file.unlink()


def first_failure(folder: Path) -> str | None:
    """Return what the first failing rank wrote down."""
    first = min(_failures(folder), key=lambda failure: float(failure["time"]), default=None)
    return None if first is None else f"rank {first['rank']}: {first['reason']}"


def _disk_was_full(folder: Path) -> bool:
    return any(failure["disk"] for failure in _failures(folder))


def _failures(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(file.read_text()) for file in folder.glob("rank*.json")]


def _killed(ends: Path) -> str | None:
    """Return which rank was killed by somebody else: the others fail only because it is gone.

    The launcher kills the ranks that are left, too, but only after it has given them some time.
    """
    if not ends.exists():
        return None
    found = json.loads(ends.read_text())
    first = min(end["time"] for end in found)
    for end in found:
        number = -end["code"]
        if number > 0 and number not in _CONSEQUENCES and end["time"] - first < RANK_GRACE_SECONDS:
            return f"rank {end['rank']} was killed by signal {number} ({signal.Signals(number).name})"
    return None


def _tail(output: Path) -> str:
    lines = output.read_text(errors="replace").strip().splitlines()
    return tidy(" | ".join(lines[-3:])) or "no output"

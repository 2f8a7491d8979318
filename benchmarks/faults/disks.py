"""A disk that is full, one that cannot be written to, and a folder that is gone while a sweep works in it."""

import contextlib
import errno
import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from benchmarks.faults.forking import command, forked, in_fresh_process
from benchmarks.faults.outcome import Outcome
from benchmarks.faults.processes import Ended, Family
from benchmarks.faults.small import SMALL, write_sweep

_SIZE = 3_000_000
# Up to what a run needs: its four files, each in blocks of a page, and a checkpoint.
_MOST_ROOM = 120_000
_PAGE = 4096


def look(count: int, seed: int) -> Outcome:
    """Compute so many runs, each with a little less room than it may need; then a sweep on each kind of bad disk."""
    outcome = Outcome()
    with Family() as family:
        with _disk(family.folder / "disk") as disk:
            if disk is None:
                outcome.note = "no disk could be mounted here: only one that refuses to be written to in the end"
                outcome.add(in_fresh_process(_refused, count, family.folder, variables=family.variables))
            else:
                outcome.add(in_fresh_process(_runs, count, seed, disk, family.folder, variables=family.variables))
                outcome.findings += family.left_behind()
                outcome.add(_full_sweep(family, disk))
        outcome.add(_folder_gone(family))
    return outcome


@contextlib.contextmanager
def _disk(place: Path) -> Iterator[Path | None]:
    """Mount a small disk in memory, where that is allowed."""
    place.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", f"size={_SIZE}", "tmpfs", str(place)]
    mounted = shutil.which("mount") and subprocess.run(words, capture_output=True, check=False).returncode == 0
    try:
        yield place if mounted else None
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(place)], check=True)


def _fill(disk: Path, room: int) -> Path:
    """Leave so many bytes free."""
    ballast = disk / "ballast"
    ballast.unlink(missing_ok=True)
    found = os.statvfs(disk)
    ballast.write_bytes(bytes(max(0, found.f_bavail * found.f_frsize - room)))
    return ballast


def _runs(count: int, seed: int, disk: Path, folder: Path) -> Outcome:
    """Compute runs in children, with a random amount of room each, and then again with enough of it."""
    import drobench.app.commands.run
    import drobench.training.trainer  # noqa: F401

    outcome, draw = Outcome(), random.Random(seed)
    results, refused = disk / "runs", 0
    for number in range(count):
        room = draw.randrange(0, _MOST_ROOM, _PAGE)
        words = [*SMALL, f"seed={number}", "trainer.checkpoint_steps=1", f"results={results}"]
        words += [f"hydra.run.dir={folder / 'hydra'}"]
        ballast = _fill(disk, room)
        ended = command("run", *words)
        ballast.unlink()
        outcome.cases += 1
        what = f"run with {room} bytes of room"
        if ended.code != 0:
            refused += 1
            _expect_message(outcome, Ended(ended.code, ended.text), what)
        problems = forked(_problems, results, number + (ended.code == 0)).value
        outcome.expect(not problems, f"{what}: {problems}")
        again = command("run", *words)
        outcome.expect(again.code == 0, f"{what}, then enough of it: {again.text[-600:]}")
    outcome.note = f"{refused} of {count} runs had too little room"
    outcome.add(_read_only(disk, folder))
    return outcome


def _problems(results: Path, expected: int) -> list[str]:
    """Say what is not as it should be: all runs so far whole, none failed."""
    from drobench.results.store import ResultStore

    scan = ResultStore(results).records()
    found = [trouble.message for trouble in scan.troubles]
    found += [f"{record.status}: {record.reason}" for record in scan.records if record.status != "budget_spent"]
    if len(scan.records) != expected:
        found.append(f"{len(scan.records)} runs, not {expected}")
    return found


def _expect_message(outcome: Outcome, ended: Ended, what: str) -> None:
    outcome.findings += ended.troubles(what)
    last = (ended.text.strip().splitlines() or [""])[-1]
    outcome.expect(ended.code == 2, f"{what}: ended with code {ended.code}: {ended.text[-600:]}")
    named = any(word in ended.text for word in ("No space left", "Read-only", "cannot be written", "full", "no longer"))
    outcome.expect("drobench: " in ended.text and named, f"{what}: the message is {last[:400]!r}")


def _full_sweep(family: Family, disk: Path) -> Outcome:
    """Start a sweep with room for some of its cells; then again with room for all."""
    outcome = Outcome(1)
    results = disk / "swept"
    file = write_sweep(family.folder / "full.yaml", [{"grid": {"seed": list(range(8))}}])
    ballast = _fill(disk, 150_000)
    words = ("sweep", file, "--jobs", "2", "--results", results)
    _expect_message(outcome, family.run(*words), "sweep on a full disk")
    outcome.findings += family.left_behind()
    before = {path.parent.name: path.read_bytes() for path in results.glob("*/record.json")}
    ballast.unlink()
    again = family.run(*words)
    outcome.expect(again.code == 0, f"sweep, then room for all: {again.text[-800:]}")
    outcome.expect(len(list(results.glob("*/record.json"))) == 8, "sweep, then room for all: runs are missing")
    kept = all((results / run_id / "record.json").read_bytes() == content for run_id, content in before.items())
    outcome.expect(kept, "sweep on a full disk: what was finished was computed again")
    return outcome


def _read_only(disk: Path, folder: Path) -> Outcome:
    """Write to a disk that takes nothing, and read from it."""
    outcome = Outcome(4)
    results = disk / "runs"
    file = write_sweep(folder / "reading.yaml", [{"grid": {"seed": [90, 91]}}])
    remount = ["mount", "-o", "remount,{}", str(disk)]
    subprocess.run([word.format("ro") for word in remount], check=True)
    try:
        for words in (
            ("sweep", file, "--results", results),
            ("run", *SMALL, "seed=90", f"results={results}", f"hydra.run.dir={folder / 'hydra'}"),
            ("report", "--results", results, "--output", disk / "report.html"),
        ):
            ended = command(*words)
            _expect_message(outcome, Ended(ended.code, ended.text), f"{words[0]} on a read-only disk")
        board = command("leaderboard", "--results", results)
        outcome.expect(board.code == 0, f"leaderboard of a read-only disk: {board.text[-600:]}")
    finally:
        subprocess.run([word.format("rw") for word in remount], check=True)
    return outcome


def _folder_gone(family: Family) -> Outcome:
    """Remove the folder of results while a sweep works in it, and let it be removed again whenever it comes back."""
    outcome = Outcome(1)
    results = family.folder / "gone"
    parts = [{"overrides": ["budget.steps=500"], "grid": {"seed": list(range(12))}}]
    file = write_sweep(family.folder / "gone.yaml", parts)
    sweep = family.start("sweep", file, "--jobs", "2", "--results", results)
    what = "the folder removed during a sweep"
    begun = sweep.wait_for(lambda: len(list(results.glob("*/record.json"))) >= 2)
    outcome.expect(begun, f"{what}: it never began")
    shutil.rmtree(results, ignore_errors=True)
    ended = sweep.wait()
    outcome.findings += ended.troubles(what)
    outcome.findings += family.left_behind()
    from drobench.results.store import ResultStore

    records = ResultStore(results).records().records
    failed = [record.reason for record in records if record.status == "failed"]
    outcome.expect(not failed, f"{what}: recorded as failures of the solver: {failed}")
    outcome.expect(ended.code != 0 or len(records) == 12, f"{what}: code 0 with {len(records)} of 12 runs")
    again = family.run("sweep", file, "--jobs", "2", "--results", results)
    outcome.expect(again.code == 0, f"{what}, then again: {again.text[-600:]}")
    return outcome


def _refused(count: int, folder: Path) -> Outcome:
    """Without a disk of our own: the system says that there is no room at the n-th file that is brought to the disk."""
    import drobench.app.commands.run
    import drobench.training.trainer  # noqa: F401

    outcome = Outcome()
    results = folder / "refused"
    for number in range(count):
        words = [*SMALL, f"seed={number}", f"results={results}", f"hydra.run.dir={folder / 'hydra'}"]
        ended = forked(_run_refused, words, number % 6)
        outcome.cases += 1
        what = f"no room for file {number % 6} of a run"
        if ended.code != 0:
            _expect_message(outcome, Ended(ended.code, ended.text), what)
        problems = forked(_problems, results, number + (ended.code == 0)).value
        outcome.expect(not problems, f"{what}: {problems}")
        outcome.expect(command("run", *words).code == 0, f"{what}, then enough of it")
    return outcome


def _run_refused(words: list[str], allowed: int) -> None:
    from drobench.app.cli import main

    synced = os.fsync
    left = allowed

    def refuse(descriptor: int) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        synced(descriptor)

    os.fsync = refuse
    main(["run", *words])

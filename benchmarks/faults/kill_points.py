"""Writing, replacing, setting aside, merging and packing, killed at every single operation on the file system."""

import hashlib
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.faults.forking import forked, in_fresh_process
from benchmarks.faults.outcome import Outcome
from benchmarks.faults.small import objective_of, store_run

ALL = 10_000
"""A count that no operation reaches."""
# Of the interpreter's audit events. Opening to read counts too: it is the moment before bytes are brought to the disk.
_EVENTS = ("open", "os.", "shutil.", "tempfile.", "ctypes.dlsym")


@dataclass(frozen=True)
class Operation:
    """Something that changes a folder, and what must hold whenever it was interrupted.

    Attributes:
        prepare: Makes the folder in which it works.
        act: The operation itself.
        check: Raises unless the folder is as it may be; told whether the operation came to its end.
    """

    prepare: Callable[[Path], None]
    act: Callable[[Path], None]
    check: Callable[[Path, bool], None]


def look(count: int, seed: int) -> Outcome:
    """Kill each operation at so many of its points, evenly spread, from a first one that the seed chooses."""
    return in_fresh_process(find, list(OPERATIONS), count, seed)


def find(operations: list[Operation], count: int, seed: int) -> Outcome:
    """Do the same for given operations, in this process, which must not have computed anything."""
    # Imported once and not in every child.
    import drobench.results.bundle
    import drobench.results.comparison.leaderboard
    import drobench.results.merge  # noqa: F401

    outcome = Outcome()
    with tempfile.TemporaryDirectory(prefix="drobench-faults-") as name:
        for number, operation in enumerate(operations):
            sound = Path(name) / f"sound{number}"
            sound.mkdir()
            assert forked(operation.prepare, sound).code == 0
            _try_points(operation, sound, count, seed, outcome)
    return outcome


def _try_points(operation: Operation, sound: Path, count: int, seed: int, outcome: Outcome) -> None:
    counted = Path(f"{sound}-counted")
    shutil.copytree(sound, counted)
    points = forked(_count, operation, counted).value
    step = max(1, points // count)
    # One more than there are, where it must survive.
    for point in [*range(1 + seed % step, points + 1, step), points + 1]:
        folder = Path(f"{sound}-{point}")
        shutil.copytree(sound, folder)
        what = f"{operation.act.__name__}, point {point} of {points}"
        killed = forked(_die_at, operation, folder, point)
        survived = killed.code == 0
        outcome.cases += 1
        outcome.expect(survived or killed.code == -signal.SIGKILL, f"{what}: ended with {killed.code}: {killed.text}")
        after = forked(operation.check, folder, survived)
        outcome.expect(after.code == 0, f"{what}: {_last_line(after.text)}")
        again = forked(_again, operation, folder)
        outcome.expect(again.code == 0, f"{what}, second attempt: {_last_line(again.text)}")
        shutil.rmtree(folder)


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["no words"])[-1]


def _count(operation: Operation, folder: Path) -> int:
    seen = 0

    def hook(event: str, _: tuple[object, ...]) -> None:
        nonlocal seen
        seen += event.startswith(_EVENTS)

    sys.addaudithook(hook)
    operation.act(folder)
    return seen


def _die_at(operation: Operation, folder: Path, point: int) -> None:
    seen = 0

    def hook(event: str, _: tuple[object, ...]) -> None:
        nonlocal seen
        seen += event.startswith(_EVENTS)
        # Not again for the event that killing is.
        if seen == point:
            seen += 1
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
    operation.act(folder)
    # What the child itself writes at its end is no part of the operation.
    os._exit(0)


def _again(operation: Operation, folder: Path) -> None:
    operation.act(folder)
    operation.check(folder, True)


def _expect(holds: bool, message: str) -> None:
    if not holds:
        raise AssertionError(message)


def _sound_runs(folder: Path, *, but: str = "") -> dict[str, float]:
    """Return the objectives of all runs by solver; no run may be in trouble, except the one named."""
    from drobench.results.comparison.leaderboard import NothingToCompare, leaderboard
    from drobench.results.curves import StoredCurves
    from drobench.results.store import ResultStore

    store = ResultStore(folder / "results")
    store.prepare()
    scan = store.records()
    troubles = [trouble.message for trouble in scan.troubles if not but or but not in trouble.message]
    _expect(not troubles, f"troubles: {troubles}")
    try:
        leaderboard(scan.records, StoredCurves(store))
    except NothingToCompare:
        _expect(not scan.records, "records that cannot be compared")
    return {record.solver.name: objective_of(store.root / record.run_id) for record in scan.records}


def _with_other(folder: Path) -> None:
    store_run(folder / "results", "other")


def write_new(folder: Path) -> None:
    """Write a run that is not there."""
    store_run(folder / "results", "mine")


def _new_or_none(folder: Path, ended: bool) -> None:
    runs = _sound_runs(folder)
    _expect(runs.get("other") == 1.0, f"the other run: {runs}")
    _expect(runs.get("mine", None if ended else 1.0) == 1.0, f"the new run: {runs}")


def _with_stale(folder: Path) -> None:
    store_run(folder / "results", "other")
    store_run(folder / "results", "mine", objective=2.0)


def replace_finished(folder: Path) -> None:
    """Write a run in place of a finished one."""
    store_run(folder / "results", "mine")


def _old_or_new(folder: Path, ended: bool) -> None:
    runs = _sound_runs(folder)
    _expect(runs.get("other") == 1.0, f"the other run: {runs}")
    _expect(runs.get("mine") in ((1.0,) if ended else (1.0, 2.0)), f"neither the old nor the new run: {runs}")
    older = [path for path in (folder / "results" / ".older").glob("*") if not path.name.startswith(".")]
    kept = [objective_of(path) for path in older]
    _expect(runs["mine"] == 2.0 or 2.0 in kept, f"the old run is nowhere: {kept}")


def _with_damaged(folder: Path) -> None:
    store_run(folder / "results", "other")
    run_id = store_run(folder / "results", "mine")
    (folder / "results" / run_id / "record.json").write_text("{")
    (folder / "id").write_text(run_id)


def set_aside(folder: Path) -> None:
    """Move a damaged run out of the way, if it is still there."""
    from drobench.results.store import ResultStore

    run_id = (folder / "id").read_text()
    if (folder / "results" / run_id).is_dir():
        ResultStore(folder / "results").set_aside(run_id)


def _damaged_somewhere(folder: Path, ended: bool) -> None:
    run_id = (folder / "id").read_text()
    aside = list((folder / "results" / ".damaged").glob(f"{run_id}-*"))
    in_place = (folder / "results" / run_id).is_dir()
    _expect(len(aside) + in_place == 1 and not (ended and in_place), f"in place: {in_place}, aside: {aside}")
    runs = _sound_runs(folder, but=run_id)
    _expect(runs == {"other": 1.0}, f"the other run: {runs}")


def _with_two_folders(folder: Path) -> None:
    for solver in ("other", "mine", "third"):
        store_run(folder / "theirs", solver)
    store_run(folder / "results", "mine", status="failed", objective=3.0)
    store_run(folder / "results", "fourth")
    (folder / "sum").write_text(_checksum(folder / "theirs"))


def merge_folders(folder: Path) -> None:
    """Add the runs of one folder to another."""
    from drobench.results.merge import merge
    from drobench.results.store import ResultStore

    merge(ResultStore(folder / "theirs"), ResultStore(folder / "results"))


def _merged_in_part(folder: Path, ended: bool) -> None:
    runs = _sound_runs(folder)
    _expect(runs.get("fourth") == 1.0, f"the run that was there: {runs}")
    _expect(runs.get("mine") in ((1.0,) if ended else (1.0, 3.0)), f"neither the failed nor the new run: {runs}")
    for solver in ("other", "third"):
        _expect(runs.get(solver, None if ended else 1.0) == 1.0, f"the run {solver}: {runs}")
    _expect(_checksum(folder / "theirs") == (folder / "sum").read_text(), "the source was changed")


def _with_old_bundle(folder: Path) -> None:
    store_run(folder / "results", "other")
    pack_bundle(folder)
    store_run(folder / "results", "mine")


def pack_bundle(folder: Path) -> None:
    """Write a bundle in place of an older one."""
    from drobench.results.bundle import pack
    from drobench.results.store import ResultStore

    pack(folder / "results", ResultStore(folder / "results").records().records, folder / "bundle.zip")


def _whole_bundle(folder: Path, ended: bool) -> None:
    from drobench.results.bundle import unpack

    _expect(_sound_runs(folder) == {"other": 1.0, "mine": 1.0}, "the runs were changed")
    with tempfile.TemporaryDirectory() as place:
        unpack(folder / "bundle.zip", Path(place))
        runs = len(list(Path(place).glob("*/record.json")))
    _expect(runs == 2 or (runs == 1 and not ended), f"a bundle of {runs} runs")


def _checksum(folder: Path) -> str:
    total = hashlib.sha256()
    for file in sorted(folder.glob("[0-9a-f]*/*")):
        total.update(str(file.relative_to(folder)).encode() + file.read_bytes())
    return total.hexdigest()


OPERATIONS = (
    Operation(_with_other, write_new, _new_or_none),
    Operation(_with_stale, replace_finished, _old_or_new),
    Operation(_with_damaged, set_aside, _damaged_somewhere),
    Operation(_with_two_folders, merge_folders, _merged_in_part),
    Operation(_with_old_bundle, pack_bundle, _whole_bundle),
)

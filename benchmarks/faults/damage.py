"""Random bytes of a folder of results changed: what is damaged is reported, or does no harm."""

import hashlib
import json
import math
import os
import random
import shutil
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.faults.forking import ChildEnded, command, forked, in_fresh_process
from benchmarks.faults.outcome import Outcome
from benchmarks.faults.small import SMALL

# Runs of a version that did not seal its records; only four of them, since each case reads all.
_OLD = Path(__file__).parents[2] / "tests" / "corpus" / "0.1.0.zip"
_OLD_RUNS = 4
_RESUMED = (*SMALL[:-1], "budget.steps=40", "trainer.checkpoint_steps=10", "evaluation.every_passes=0.5", "seed=9")
_REPORT_EVERY = 20
# What `drobench verify` lets pass: sums come out differently on another machine.
_ROUNDING = 1e-8
# What a record without a seal says of these cannot be computed again, and `drobench verify` says so; an optimum can,
# but only to the accuracy to which it is certified.
_BELIEVED = {"seconds", "environment", "memory", "started_at", "reason", "optimum"}


@dataclass(frozen=True)
class Seen:
    """What a user sees of a folder.

    Attributes:
        board: A checksum of the leaderboard as JSON.
        records: What each record says, by id.
        troubles: What was reported.
    """

    board: str
    records: dict[str, dict[str, Any]]
    troubles: list[str]


def look(count: int, seed: int) -> Outcome:
    """Damage a folder so many times: two thirds of them its runs, the others what it keeps beside them."""
    return in_fresh_process(_look, count, seed)


def _look(count: int, seed: int) -> Outcome:
    # Imported once and not in every child.
    import drobench.app.commands.run
    import drobench.app.verification
    import drobench.results.report.formats
    import drobench.training.trainer  # noqa: F401
    from drobench.app.config import register
    from drobench.registry import load_catalogue

    register(load_catalogue())
    draw, outcome = random.Random(seed), Outcome()
    harmless = 0
    with tempfile.TemporaryDirectory(prefix="drobench-faults-") as name:
        os.chdir(name)
        sound, work = Path(name) / "sound", Path(name) / "results"
        _expect_code(forked(_make, sound))
        before = forked(_see, sound)
        _expect_code(before)
        finished = _expect_code(forked(_resume, _copied(sound, work))).value
        for number in range(count):
            _copied(sound, work)
            if number % 3:
                harmless += _try_run(work, draw, before.value, number, outcome)
            else:
                harmless += _try_beside(work, draw, before.value, finished, number, outcome)
            outcome.cases += 1
        os.chdir("/")
    outcome.note = f"{harmless} without any effect"
    return outcome


def _expect_code(ended: ChildEnded) -> ChildEnded:
    if ended.code != 0:
        raise RuntimeError(ended.text[-3000:])
    return ended


def _copied(sound: Path, work: Path) -> Path:
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(sound, work)
    return work


def _make(root: Path) -> None:
    """Compute runs, leave one in the middle with a checkpoint, and add old ones that have no seal."""
    from drobench import run

    for solver in ("gcivr", "scgd"):
        for seed in (0, 1):
            run(*SMALL, f"solver={solver}", seed=seed, results=root)

    def interrupt(row: dict[str, Any]) -> None:
        if row["step"] >= 25:
            raise KeyboardInterrupt

    try:
        run(*_RESUMED, results=root, on_evaluation=interrupt)
    except KeyboardInterrupt:
        assert list((root / ".work").glob("*/last.ckpt")), "there is no checkpoint to damage"
    with zipfile.ZipFile(_OLD) as archive:
        runs = sorted({name.split("/")[1] for name in archive.namelist() if name.startswith("runs/")})[:_OLD_RUNS]
        for name in archive.namelist():
            if name.startswith(tuple(f"runs/{run_id}/" for run_id in runs)):
                file = root / name.removeprefix("runs/")
                file.parent.mkdir(exist_ok=True)
                file.write_bytes(archive.read(name))


def _resume(root: Path) -> float:
    from drobench import run

    record = run(*_RESUMED, results=root)
    assert record.iterates.last is not None, record.reason
    assert record.iterates.last.objective is not None
    return record.iterates.last.objective


def _see(root: Path) -> Seen:
    """Scan and compare, as `drobench leaderboard --format json` does; a second time if the first was told a reason."""
    from drobench.errors import DrobenchError
    from drobench.results.comparison.leaderboard import leaderboard
    from drobench.results.curves import StoredCurves
    from drobench.results.report.formats import format_json
    from drobench.results.store import ResultStore

    store, troubles = ResultStore(root), []
    for _ in range(2):
        scan = store.records()
        troubles += [trouble.message for trouble in scan.troubles]
        try:
            board = format_json(leaderboard(scan.records, StoredCurves(store)))
            break
        except DrobenchError as error:
            troubles.append(str(error))
    else:
        raise RuntimeError(f"no board at the second attempt either: {troubles}")
    records = {record.run_id: json.loads(record.to_json()) for record in scan.records}
    return Seen(_checksum(board), records, troubles)


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _verdict(root: Path, run_id: str) -> str:
    """Verify one run: what is wrong with it, or nothing."""
    from drobench.app.verification import Verifier
    from drobench.registry import load_catalogue
    from drobench.results.store import ResultStore

    store = ResultStore(root)
    with tempfile.TemporaryDirectory() as optima:
        verdict = Verifier(store, load_catalogue(), Path(optima)).verify(store.read(run_id))
    return "; ".join([*map(str, verdict.mismatches), verdict.unverified or ""])


def damaged(content: bytes, draw: random.Random) -> bytes:
    """Return the content with a few bytes flipped, set to zero, inserted, removed or cut off."""
    changed = bytearray(content)
    for _ in range(draw.choice((1, 1, 2, 8))):
        at, length = draw.randrange(len(changed) + 1), draw.choice((1, 1, 4, 64))
        kind = draw.choice(("bit", "digit", "zero", "insert", "remove", "cut") if len(changed) > 1 else ("insert",))
        if kind == "bit" and at < len(changed):
            changed[at] ^= 1 << draw.randrange(8)
        elif kind == "digit":
            digits = [place for place, byte in enumerate(changed) if byte in b"0123456789"]
            if digits:
                changed[draw.choice(digits)] = draw.choice(b"0123456789")
        elif kind == "zero":
            changed[at : at + length] = bytes(len(changed[at : at + length]))
        elif kind == "insert":
            changed[at:at] = draw.randbytes(length)
        elif kind == "remove":
            del changed[at : at + length]
        elif kind == "cut" and draw.random() < 0.3:
            del changed[at:]
    return bytes(changed)


def _damage(file: Path, draw: random.Random) -> str:
    """Damage a file; return the first place where its content is another one, nothing if there is none."""
    before = file.read_bytes()
    after = damaged(before, draw)
    file.write_bytes(after)
    if before == after:
        return ""
    pairs = zip(before, after, strict=False)
    at = next((place for place, (old, new) in enumerate(pairs) if old != new), min(len(before), len(after)))
    near = slice(max(0, at - 30), at + 20)
    return f"{before[near]!r} became {after[near]!r}"


def _try_run(root: Path, draw: random.Random, before: Seen, number: int, outcome: Outcome) -> bool:
    """Damage a file of a run, and look at the folder: scan, board, now and then the report, verification.

    Returns whether that had no effect at all.
    """
    file = draw.choice([file for file in sorted(root.glob("[0-9a-f]*/*")) if len(file.parent.name) == 64])
    sealed = b'"checksum"' in (file.parent / "record.json").read_bytes()
    what = f"case {number}, {'sealed' if sealed else 'old'} {file.name}"
    done = _damage(file, draw)
    if not done:
        return True
    what += f" ({done})"
    ended = forked(_see, root)
    if ended.code != 0:
        outcome.findings.append(f"{what}: {ended.text[-600:]}")
        return False
    after: Seen = ended.value
    if number % _REPORT_EVERY == 1:
        told = command("report", "--results", root, "--output", root / "report.html")
        outcome.expect(told.code == 0 and "Traceback" not in told.text, f"{what}: report: {told.text[-600:]}")
    if after.troubles:
        return False
    same = after.board == before.board and after.records == before.records
    if same and file.name != "solution.safetensors":
        return True
    verdict = forked(_verdict, root, file.parent.name)
    if verdict.code != 0 and "DamagedRecord" not in verdict.text:
        outcome.findings.append(f"{what}: verify: {verdict.text[-600:]}")
    noticed = verdict.code != 0 or bool(verdict.value)
    changed = _changed_fields(before, after, file.parent.name)
    told = noticed or changed <= _BELIEVED
    outcome.expect(same or (told and not sealed), f"{what}: {sorted(changed)} is another one, and nobody says so")
    return same and not noticed


def _changed_fields(before: Seen, after: Seen, run_id: str) -> set[str]:
    """Return the fields of a record that are not what they were."""
    old, new = before.records[run_id], after.records.get(run_id, {})
    return {name for name in {*old, *new} if _differs(old.get(name), new.get(name))}


def _differs(one: Any, other: Any) -> bool:
    """Whether two values are not the same, as far as a computation on another machine could tell."""
    if isinstance(one, dict) and isinstance(other, dict):
        return any(_differs(one.get(name), other.get(name)) for name in {*one, *other})
    if isinstance(one, float) and isinstance(other, float):
        return not math.isclose(one, other, rel_tol=_ROUNDING, abs_tol=_ROUNDING)
    return bool(one != other)


def _try_beside(root: Path, draw: random.Random, before: Seen, finished: float, number: int, outcome: Outcome) -> bool:
    """Damage a checkpoint, a certified optimum, a lock or a note, and go on with the run that was interrupted.

    Returns whether that had no effect at all.
    """
    folder = draw.choice((".work", ".work", ".optima", ".locks"))
    file = draw.choice(sorted(path for path in (root / folder).rglob("*") if path.is_file()))
    what = f"case {number}, {folder}/{file.name if folder == '.work' else file.suffix}"
    done = _damage(file, draw)
    if not done:
        return True
    what += f" ({done})"
    looks: tuple[Callable[[], ChildEnded], ...] = (lambda: forked(_see, root), lambda: forked(_resumed, root))
    seen, resumed = (look() for look in looks)
    same = seen.code == 0 and (seen.value.board, seen.value.records) == (before.board, before.records)
    outcome.expect(same, f"{what}: another board: {seen.text[-600:]}")
    if resumed.code != 0:
        outcome.findings.append(f"{what}: the run cannot go on: {resumed.text[-600:]}")
        return False
    objective, optimum = resumed.value
    outcome.expect(objective == finished, f"{what}: the resumed run has {objective}, not {finished}")
    outcome.expect(optimum, f"{what}: the optimum is another one, and nobody says so")
    return objective == finished and "drobench:" not in resumed.text


def _resumed(root: Path) -> tuple[float, bool]:
    """Go on with the interrupted run; return its objective, and whether its optimum is that of the runs before."""
    from drobench.results.store import ResultStore

    objective = _resume(root)
    records = [record for record in ResultStore(root).records().records if record.asked is not None]
    optima = {record.optimum.value for record in records if record.optimum is not None}
    return objective, len(optima) == 1

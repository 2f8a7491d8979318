"""Many processes that write, replace and spoil runs of one folder, while others compare what is there all the time."""

import random
import tempfile
import time
from pathlib import Path

from benchmarks.faults.forking import Child, in_fresh_process
from benchmarks.faults.outcome import Outcome
from benchmarks.faults.small import objective_of, store_run

SOLVERS = ("alpha", "beta", "gamma")
SEEDS = 4
_LONGEST = 120.0


def look(count: int, seed: int) -> Outcome:
    """Let so many processes work on one folder, a second for each of them; every third one reads."""
    return in_fresh_process(_look, count, seed)


def _look(count: int, seed: int) -> Outcome:
    # Imported once and not in every child.
    import drobench.app.report_file
    import drobench.app.stored_comparison  # noqa: F401

    outcome = Outcome()
    with tempfile.TemporaryDirectory(prefix="drobench-faults-") as name:
        root = Path(name) / "results"
        seconds, messages = max(4.0, float(count)), 0
        children = {
            number: Child(_read if number % 3 == 2 else _write, root, seed + number, seconds) for number in range(count)
        }
        for number, child in children.items():
            ended = child.wait(seconds + _LONGEST)
            what = "reader" if number % 3 == 2 else "writer"
            outcome.expect(ended.code == 0, f"{what} {number} ended with {ended.code}: {ended.text[-800:]}")
            done, told = ended.value or (0, 0)
            outcome.cases += done
            messages += told
        last = Child(_finish, root).wait(_LONGEST)
        outcome.expect(last.code == 0, f"in the end: {last.text[-800:]}")
    outcome.note = f"{messages} runs were spoilt, or gone when their turn came, and that was said"
    return outcome


def _write(root: Path, seed: int, seconds: float) -> tuple[int, int]:
    """Write and replace runs, and spoil some that are there, as a bad disk would; return how many times."""
    from drobench.results.store import ResultStore, RunBusy, StoreUnusable

    draw, end, done, told = random.Random(seed), time.monotonic() + seconds, 0, 0
    store = ResultStore(root)
    store.prepare()
    while time.monotonic() < end:
        solver, number = draw.choice(SOLVERS), draw.randrange(SEEDS)
        run_id = _run_id(solver, number)
        try:
            with store.lock(run_id, timeout=draw.choice((0.0, 0.2))):
                store_run(root, solver, number, objective=draw.choice((1.0, 2.0)))
                if draw.random() < 0.1:
                    (root / run_id / "record.json").write_text("{")
            if draw.random() < 0.1 and (root / run_id).is_dir():
                store.set_aside(run_id)
        except RunBusy:
            continue  # as a sweep does
        except StoreUnusable as error:
            # Another process has just moved the same run out of the way.
            if not isinstance(error.__cause__, FileNotFoundError):
                raise
            told += 1
        done += 1
    return done, told


def _read(root: Path, seed: int, seconds: float) -> tuple[int, int]:
    """Compare what is there and write reports, again and again; return how many times, and how often one was gone."""
    from drobench.app.report_file import write_report
    from drobench.app.stored_comparison import compare_stored, draw_stored
    from drobench.results.comparison.leaderboard import NothingToCompare
    from drobench.results.store import ResultStore, Trouble

    end, done = time.monotonic() + seconds, 0
    store = ResultStore(root)
    told: list[Trouble] = []
    while time.monotonic() < end:
        try:
            if done % 5 == seed % 5:
                write_report(draw_stored(store, told.append)[1], root / f"report{seed}.html")
            else:
                compare_stored(store, told.append)
        except NothingToCompare:
            continue
        done += 1
    return done, len(told)


def _finish(root: Path) -> None:
    """Write what is missing, and see that every run is whole."""
    from drobench.results.store import ResultStore

    store = ResultStore(root)
    store.records()
    for solver in SOLVERS:
        for number in range(SEEDS):
            if not store.finished(_run_id(solver, number)):
                store_run(root, solver, number)
    scan = store.records()
    assert not scan.troubles, scan.troubles
    assert len(scan.records) == len(SOLVERS) * SEEDS, len(scan.records)
    for record in scan.records:
        objective_of(root / record.run_id)


def _run_id(solver: str, seed: int) -> str:
    from drobench.results.record import content_id

    return content_id({"of": [solver, seed]})

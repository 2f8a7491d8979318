"""The clock of the wall set forward and back by years while runs are computed; the monotonic clock goes on."""

import datetime
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.faults.forking import forked, in_fresh_process
from benchmarks.faults.outcome import Outcome
from benchmarks.faults.processes import Family
from benchmarks.faults.small import SMALL, store_run, write_package, write_sweep

_YEAR = 365.0 * 86400.0
JUMPS = (10 * _YEAR, -10 * _YEAR, 3600.0, -3600.0, -86400.0, 2 * 86400.0, 50 * _YEAR)
_REAL_TIME = time.time

# A plugin without entries: imported by every process of a sweep, it sets the clock of that process again and again.
_JUMPING = f"""
import time
real, steady = time.time, time.monotonic
time.time = lambda: real() + {JUMPS}[int(steady() * 5) % {len(JUMPS)}]
"""


class Clock:
    """The clock of the wall in this process."""

    ahead = 0.0


class _Moved(datetime.datetime):
    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> "_Moved":
        return cls.fromtimestamp(_REAL_TIME() + Clock.ahead, tz)


def look(count: int, seed: int) -> Outcome:
    """Compute so many runs under a clock that jumps at every evaluation, and one sweep whose processes all do."""
    outcome = in_fresh_process(_look, count, seed)
    outcome.add(_sweep())
    return outcome


def _look(count: int, seed: int) -> Outcome:
    # Imported once and not in every child.
    import drobench.app.cell
    import drobench.results.comparison.leaderboard
    import drobench.training.trainer  # noqa: F401

    outcome = Outcome()
    with tempfile.TemporaryDirectory(prefix="drobench-faults-") as name:
        for number in range(count):
            ended = forked(_jumping_run, Path(name) / "results", seed + number, number)
            outcome.cases += 1
            outcome.expect(ended.code == 0, f"run {number}: {ended.text[-800:]}")
            outcome.findings += [f"run {number}: {finding}" for finding in ended.value or []]
        for check in (_compared, _leftovers, _same_moment):
            ended = forked(check, Path(name) / "results")
            outcome.cases += 1
            outcome.expect(ended.code == 0, f"{check.__name__}: {ended.text[-800:]}")
    return outcome


def _move_clocks() -> None:
    time.time = lambda: _REAL_TIME() + Clock.ahead
    for name, module in list(sys.modules.items()):
        if name.startswith("drobench") and getattr(module, "datetime", None) is datetime.datetime:
            module.datetime = _Moved  # type: ignore[attr-defined]  # whoever asked for it by this name


def _jumping_run(results: Path, seed: int, number: int) -> list[str]:
    """Compute a run; return what is odd about its durations."""
    from drobench import run

    draw = random.Random(seed)
    _move_clocks()

    def jump(_: dict[str, Any]) -> None:
        Clock.ahead = draw.choice(JUMPS)

    Clock.ahead = draw.choice(JUMPS)
    begin = time.monotonic()
    record = run(*SMALL, "trainer.checkpoint_seconds=0.01", seed=number, results=results, on_evaluation=jump)
    real = time.monotonic() - begin
    found = [] if str(record.status) == "budget_spent" else [f"is {record.status}: {record.reason}"]
    for name in ("solver", "evaluation", "setup", "total"):
        seconds = getattr(record.seconds, name)
        if seconds is None or not 0.0 <= seconds <= real:
            found.append(f"{name} took {seconds} s of {real:.2f} s")
    return found


def _compared(results: Path) -> None:
    """Records from the future and from the past are listed and compared."""
    from drobench.results.comparison.leaderboard import leaderboard
    from drobench.results.curves import StoredCurves
    from drobench.results.store import ResultStore

    store = ResultStore(results)
    scan = store.records()
    assert scan.records, "no records"
    assert not scan.troubles, scan.troubles
    leaderboard(scan.records, StoredCurves(store))


def _leftovers(results: Path) -> None:
    """A folder that a living process fills is not removed, however old it seems to be."""
    from drobench.files import temporary_name
    from drobench.results.store import ResultStore

    _move_clocks()
    mine = results / ".writing" / temporary_name()
    mine.mkdir(parents=True)
    for jump in JUMPS:
        Clock.ahead = jump
        ResultStore(results).prepare()
        assert mine.is_dir(), f"gone when the clock was moved by {jump:g} s"
    mine.rmdir()


def _same_moment(results: Path) -> None:
    """Runs that are replaced and set aside again and again at the same moment do not get into each other's way."""
    from drobench.results.store import ResultStore

    _move_clocks()
    store = ResultStore(results)
    for jump in (0.0, -_YEAR, _YEAR, 0.0):
        Clock.ahead = jump
        run_id = store_run(results, "again", objective=1.0 + abs(jump))
        assert store.finished(run_id)
    with store.lock(run_id):
        pass
    store.set_aside(run_id)
    assert len(list((results / ".older").glob(f"{run_id}-*"))) == 3


def _sweep() -> Outcome:
    outcome = Outcome(1)
    with Family() as family:
        site = write_package(family.folder / "site", "jumping_clock", _JUMPING)
        family.variables["PYTHONPATH"] = f"{site}:{family.variables['PYTHONPATH']}"
        file = write_sweep(family.folder / "clock.yaml", [{"grid": {"seed": list(range(6))}}])
        ended = family.run("sweep", file, "--jobs", "2", "--results", family.folder / "results", "--timeout", "200")
        outcome.findings += ended.troubles("sweep")
        outcome.expect(ended.code == 0, f"sweep: ended with {ended.code}: {ended.text[-800:]}")
        stored = len(list((family.folder / "results").glob("*/record.json")))
        outcome.expect(stored == 6, f"sweep: {stored} of 6 runs")
        outcome.findings += family.left_behind()
    return outcome

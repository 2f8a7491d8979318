"""A sweep whose processes are killed at random moments, and which is started again until it is done."""

import random
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.faults.outcome import Outcome
from benchmarks.faults.processes import Command, Family, Process, kill
from benchmarks.faults.small import write_sweep

TARGETS = ("the command", "a worker", "the fork server", "any process", "all processes")
KILLS_OF_ONE_SWEEP = 5
_ATTEMPTS = 4
_CELLS = (
    {"grid": {"solver": ["gcivr", "scgd"], "seed": [0, 1]}},
    # Some of it is lost with a kill, some of it goes on from a checkpoint.
    {
        "overrides": ["solver=gcivr", "budget.steps=300", "trainer.checkpoint_steps=5"],
        "grid": {"seed": [2, 3, 4]},
    },
    {"overrides": ["solver=gcivr", "trainer=ddp_cpu", "budget.steps=20"], "grid": {"seed": [5]}},
)


@dataclass(frozen=True)
class _Undisturbed:
    """What the sweep gives when nobody is killed."""

    file: Path
    results: dict[str, list[float]]
    """The last objective and the solution of each run, by id."""
    seconds: float


def look(count: int, seed: int) -> Outcome:
    """Kill so many times, a few times for each sweep."""
    outcome, draw = Outcome(), random.Random(seed)
    with Family() as family:
        undisturbed = _compute(family)
        number = 0
        while outcome.cases < count:
            number += 1
            results = family.folder / f"results{number}"
            for _ in range(min(KILLS_OF_ONE_SWEEP, count - outcome.cases)):
                _kill_once(family, undisturbed, results, draw, outcome)
            _finish(family, undisturbed, results, f"seed {seed}, sweep {number}", outcome)
    return outcome


def _compute(family: Family) -> _Undisturbed:
    file = write_sweep(family.folder / "cells.yaml", _CELLS)
    begin = time.monotonic()
    ended = family.run(*_words(file, family.folder / "undisturbed"))
    if ended.code != 0:
        raise RuntimeError(f"The sweep fails without any kill: {ended.text[-2000:]}")
    return _Undisturbed(file, _read(family.folder / "undisturbed"), time.monotonic() - begin)


def _words(file: Path, results: Path) -> tuple[object, ...]:
    return ("sweep", file, "--jobs", "2", "--results", results)


def _read(results: Path) -> dict[str, list[float]]:
    """Return the last objective and point of every run; raises where something is not as it should be."""
    from drobench.results.store import ResultStore

    store = ResultStore(results)
    scan = store.records()
    if scan.troubles:
        raise RuntimeError(f"troubles: {[trouble.message for trouble in scan.troubles]}")
    found = {}
    for record in scan.records:
        last = record.iterates.last
        points = store.solution(record.run_id)
        values = [] if last is None or last.objective is None else [last.objective, *map(float, points["last"])]
        found[record.run_id] = values
    return found


def _kill_once(family: Family, undisturbed: _Undisturbed, results: Path, draw: random.Random, outcome: Outcome) -> None:
    target, moment = draw.choice(TARGETS), draw.uniform(0.0, undisturbed.seconds)
    what = f"{target} killed {moment:.2f} s after the start"
    command = family.start(*_words(undisturbed.file, results))
    end = time.monotonic() + moment
    command.wait_for(lambda: time.monotonic() > end)
    for victim in _victims(family.living(), target, command, draw):
        kill(victim)
    outcome.cases += 1
    if command.process.poll() == 0:
        return  # it was done before
    ended = command.wait(180.0)
    outcome.findings += ended.troubles(what)
    outcome.findings += [f"{what}: {left}" for left in family.left_behind()]
    try:
        _read(results)
    except Exception as error:  # whatever it is, a user would meet it too
        outcome.findings.append(f"{what}: {type(error).__name__}: {error}")


def _victims(living: list[Process], target: str, command: Command, draw: random.Random) -> list[int]:
    """Return which processes to kill: what is forked from the server looks like it, but is its child."""
    serving = {process.number for process in living if "forkserver" in process.words}
    workers = [process.number for process in living if process.number in serving and process.parent in serving]
    chosen = {
        "the command": [command.process.pid],
        "a worker": [draw.choice(workers)] if workers else [],
        "the fork server": sorted(serving - set(workers)),
        "any process": [draw.choice(living).number] if living else [],
        "all processes": [process.number for process in living],
    }
    # Before there is a server or a worker, the command has to do.
    return chosen[target] or [command.process.pid]


def _finish(family: Family, undisturbed: _Undisturbed, results: Path, what: str, outcome: Outcome) -> None:
    """Start the sweep until it is done, and compare."""
    for _ in range(_ATTEMPTS):
        ended = family.run(*_words(undisturbed.file, results))
        outcome.findings += ended.troubles(what)
        if ended.code == 0:
            break
    outcome.expect(ended.code == 0, f"{what}: not done after {_ATTEMPTS} attempts: {ended.text[-800:]}")
    outcome.findings += [f"{what}: {left}" for left in family.left_behind()]
    folders = {path.name for path in results.iterdir() if path.is_dir() and not path.name.startswith(".")}
    outcome.expect(folders == set(undisturbed.results), f"{what}: the runs are {sorted(folders)}")
    try:
        found = _read(results)
    except Exception as error:  # as above
        outcome.findings.append(f"{what}: {type(error).__name__}: {error}")
        return
    wrong = [run_id for run_id, values in undisturbed.results.items() if found.get(run_id) != values]
    outcome.expect(not wrong, f"{what}: other results than without kills: {wrong}")

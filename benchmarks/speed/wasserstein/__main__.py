"""Wasserstein logistic regression: seconds and memory of GCIVR, of an interior-point method and of other packages."""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import benchmarks.speed.wasserstein as described
from benchmarks.speed.side_by_side import add_small, machine, one_thread
from benchmarks.speed.wasserstein.outcome import COMMON, GCIVR, ONE_THREAD, REFERENCE, TIME_LIMIT, Outcome, last_line
from benchmarks.speed.wasserstein.report import goals, table

PROGRAM = "benchmarks.speed.wasserstein"
PASSES = 100.0
SIZES, FEATURES = [1000, 10_000, 100_000], 50
SMALL_SIZES, SMALL_FEATURES = [200], 5
FURTHER = ((2.0, 20.0), (4.0, 20.0), (1.0, 60.0))
"""Step scales and passes of each width, tried in turn where the defaults do not meet the target."""


def measure(sizes: list[int], features: int, packages: bool, small: bool = False) -> list[Outcome]:
    """Return all outcomes; progress goes to standard error."""
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory() as name:
        others = _packages(sizes, features, Path(name)) if packages else []
        for rows in sizes:
            common = _here(COMMON, rows, "conic", rows, features, 1e-8)
            conic = [common] if small else [common, _here(REFERENCE, rows, "conic", rows, features, 1e-10)]
            # GCIVR's clock stops at a gap to this; a wrong value would show as a gap below zero.
            solved = [outcome.value for outcome in conic if not outcome.failed]
            known = min(solved) if solved else _long_run(rows, features)
            outcomes += [*_gcivr(rows, features, known, () if small else FURTHER), *conic]
            outcomes += [outcome for outcome in others if outcome.rows == rows]
    return outcomes


def _long_run(rows: int, features: int) -> float:
    """Return the value of a run five times as long: what is left where no reference could be had."""
    return _here(GCIVR, rows, "gcivr", rows, features, -math.inf, 1.0, PASSES, 5 * PASSES).value


def _gcivr(rows: int, features: int, known: float, further: Sequence[tuple[float, float]]) -> list[Outcome]:
    """Run with defaults; only if those do not meet the target, other settings, each reported."""
    found = [_here(GCIVR, rows, "gcivr", rows, features, known, 1.0, PASSES / 5, PASSES)]
    for scale, stage_passes in further:
        if math.isfinite(found[-1].seconds):
            break
        name = f"{GCIVR}, step_scale={scale:g}, stage_passes={stage_passes:g}"
        found.append(_here(name, rows, "gcivr", rows, features, known, scale, stage_passes, 5 * stage_passes))
    return found


def _here(method: str, rows: int, kind: str, *arguments: float) -> Outcome:
    """Run one method in a process of its own."""
    print(f"{method}, m = {rows} ...", file=sys.stderr, flush=True)
    command = [sys.executable, "-m", PROGRAM, "--one", kind, *(repr(number) for number in arguments)]
    try:
        done = subprocess.run(
            command, check=True, capture_output=True, text=True, timeout=TIME_LIMIT, env={**os.environ, **ONE_THREAD}
        )
    except subprocess.CalledProcessError as error:
        return Outcome(method, rows, note=f"failed: {last_line(error.stderr)}")
    except subprocess.TimeoutExpired:
        return Outcome(method, rows, note=f"stopped after {TIME_LIMIT:.0f} s")
    outcome = Outcome(method, rows, **json.loads(done.stdout.splitlines()[-1]))
    print(f"  {outcome}", file=sys.stderr, flush=True)
    return outcome


def _packages(sizes: list[int], features: int, folder: Path) -> list[Outcome]:
    from benchmarks.speed.wasserstein.packages import measure_packages

    return measure_packages(sizes, features, folder)


def _one(kind: str, rows: str, features: str, *rest: str) -> dict[str, Any]:
    """Do the work of one method in this process, which was started for it."""
    from benchmarks.speed.wasserstein.methods import run_conic, run_gcivr

    runs: dict[str, Callable[..., dict[str, Any]]] = {"conic": run_conic, "gcivr": run_gcivr}
    return runs[kind](int(rows), int(features), *(float(number) for number in rest))


def main() -> None:
    """Measure and print the table, or do one method's work."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {PROGRAM}",
        description=described.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--sizes", type=int, nargs="+")
    parser.add_argument("--features", type=int)
    parser.add_argument("--packages", action="store_true", help="also install and measure dro and skwdro")
    parser.add_argument("--one", nargs="+", help=argparse.SUPPRESS)
    add_small(parser)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(_one(*arguments.one)))
        return
    one_thread()
    sizes = arguments.sizes or (SMALL_SIZES if arguments.small else SIZES)
    features = arguments.features or (SMALL_FEATURES if arguments.small else FEATURES)
    outcomes = measure(sizes, features, arguments.packages, arguments.small)
    print(table(outcomes))
    print("\n".join(goals(outcomes)))
    print(machine())


if __name__ == "__main__":
    main()

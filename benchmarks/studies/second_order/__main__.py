"""Second order, and real data: goals in passes and seconds, and what every method reached.

    python -m benchmarks.studies.second_order RESULTS [--data DIR]                  smooth problems, step by step
    python -m benchmarks.studies.second_order RESULTS --run --jobs 2 [--data DIR]   the sweeps of problems with kinks
    python -m benchmarks.studies.second_order RESULTS --seconds [--data DIR]        also against scipy, nothing beside
    python -m benchmarks.studies.second_order RESULTS --large                       also a million rows

All methods have their default settings, and goals hold in every seed. Exits with 1 if one is missed, and says which and
by how much. What was measured is kept with the results and measured again for other code.
"""

import argparse
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from benchmarks.assembled import known_catalogue
from benchmarks.real_data import add_data_option
from benchmarks.speed.side_by_side import add_small, machine, one_thread, repeats
from benchmarks.studies.second_order import tables
from benchmarks.studies.second_order.followed import followed
from benchmarks.studies.second_order.goals import KINKED, SMOOTH, verdicts
from benchmarks.studies.second_order.instances import CURVED, LARGE, METHODS, SEEDS, SWEEPS, Words, smooth_instances
from benchmarks.studies.second_order.kept import Kept
from benchmarks.studies.second_order.large import METHODS as LARGE_METHODS
from benchmarks.studies.second_order.large import Large, large
from benchmarks.studies.second_order.real import real_tables
from benchmarks.studies.second_order.runs import Measured, load
from benchmarks.studies.second_order.seconds import Race, race

_SMALL_ROWS = "dataset.rows=300"


def main() -> int:
    """Print the tables; return 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="?", default="results", type=Path)
    parser.add_argument("--run", action="store_true", help="compute what the sweeps lack, and print nothing else")
    parser.add_argument("--jobs", default=1, type=int, help="cells of the sweeps at a time")
    parser.add_argument("--seconds", action="store_true", help="measure against scipy")
    parser.add_argument("--large", action="store_true", help="measure on a million rows")
    add_data_option(parser)
    add_small(parser)
    chosen = parser.parse_args()
    with real_tables(chosen.data) as absent:
        if absent is not None:
            print(f"Adult and Communities are left out. {absent}\n")
        if chosen.run:
            return _run_sweeps(chosen.results, chosen.jobs, SWEEPS if absent is None else SWEEPS[:1])
        one_thread()
        kept = Kept(chosen.results)
        kinked = [measured for measured in load(chosen.results) if measured.instance.kinked]
        found = [*_followed(kept, real=absent is None, small=chosen.small), *kinked]
        missed = _tables(sorted(found, key=lambda measured: measured.instance))
        if chosen.seconds:
            missed += _seconds(kept, real=absent is None, small=chosen.small)
        if chosen.large:
            missed += _large(kept, small=chosen.small)
    print("\n### Goals missed\n\n" + ("\n".join(f"- {line}" for line in missed) if missed else "None."))
    return 1 if missed else 0


def _run_sweeps(results: Path, jobs: int, names: tuple[str, ...]) -> int:
    """Compute the sweeps as the command does, each cell in a process of its own."""
    program = "import sys; from drobench.app.cli import main; sys.exit(main())"
    for name in names:
        words = [sys.executable, "-c", program, "sweep", name, "--results", str(results), "--jobs", str(jobs)]
        subprocess.run(words, check=False, env=os.environ)
    return 0


def _followed(kept: Kept, real: bool, small: bool) -> list[Measured]:
    """Follow the methods on the smooth instances."""
    found = []
    for words in _instances(real, small):
        print(f"following on {words.instance.data}, {words.instance.problem}", file=sys.stderr)
        found.append(followed(words, SEEDS[:1] if small else SEEDS, METHODS, kept))
    return found


def _instances(real: bool, small: bool) -> list[Words]:
    instances = [words for words in smooth_instances() if real or words.instance.data not in ("Adult", "Communities")]
    if not small:
        return instances
    chosen = [words for words in instances if words.instance.data == "synthetic, 10 columns"]
    return [replace(words, words=(*words.words, _SMALL_ROWS)) for words in chosen]


def _tables(found: list[Measured]) -> list[str]:
    smooth = [measured for measured in found if not measured.instance.kinked]
    kinked = [measured for measured in found if measured.instance.kinked]
    print("### Goals, passes of the worst seed\n")
    print(tables.goal_table(smooth, SMOOTH))
    if kinked:
        print("\n### Balls and tails, passes of the worst seed\n")
        print(tables.goal_table(kinked, KINKED))
    print("\n" + _optima(found))
    for data, text in tables.method_tables(found):
        print(f"\n### {data}\n\n{text}")
    return [verdict.shortfall for verdict in verdicts(found) if not verdict.met]


def _optima(found: list[Measured]) -> str:
    known = [certified for measured in found for certified in measured.certified.values()]
    trivial = sum(len(measured.trivial) for measured in found)
    within = {target: sum(certified <= target for certified in known) for target in tables.TARGETS}
    shares = ", ".join(f"{count} to {target:.0e}" for target, count in within.items())
    return (
        f"Of {len(known) + trivial} optima (each seed has its own) {trivial} are the start itself. The other "
        f"{len(known)} are certified, relative to the gap of the start: {shares}."
    )


def _seconds(kept: Kept, real: bool, small: bool) -> list[str]:
    methods = [name for name in CURVED if name in known_catalogue().solvers]
    if not methods:
        return [f"seconds: none of {', '.join(CURVED)} is installed"]
    races: list[Race] = []
    for words in _instances(real, small):
        print(f"racing on {words.instance.data}, {words.instance.problem}", file=sys.stderr)
        races.append(race(words, methods, repeats(small), kept))
    print(f"\n### Seconds to a relative gap of 1e-6\n\n{tables.race_table(races)}\n\n{machine()}")
    return [each.shortfall for each in races if not each.met]


def _large(kept: Kept, small: bool) -> list[str]:
    absent = [name for name in LARGE_METHODS if name not in known_catalogue().solvers]
    if absent:
        return [f"a million rows: {', '.join(absent)} not installed"]
    words: Words = replace(LARGE, words=(*LARGE.words, _SMALL_ROWS)) if small else LARGE
    found: list[Large] = []
    for seed in SEEDS[:1] if small else SEEDS:
        print(f"{words.instance.data}, seed {seed}", file=sys.stderr)
        found.append(large(words, seed, kept))
    print(f"\n### A million rows\n\n{tables.large_table(found)}")
    return [line for each in found for line in each.shortfalls()]


if __name__ == "__main__":
    sys.exit(main())

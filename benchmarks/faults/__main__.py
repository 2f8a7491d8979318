"""Faults on purpose, all promises of docs/reliability.md: its table, and what was found.

    python -m benchmarks.faults [--small] [--only NAME ...] [--seed N]

The exit code is 1 if anything was found. The whole takes hours; single scenarios take minutes.
"""

import argparse
import importlib
import sys
import time
from dataclasses import dataclass
from datetime import date

from benchmarks.faults.outcome import Outcome


@dataclass(frozen=True)
class Scenario:
    """What is done, and how many times: for the table, and where it must only be shown to work."""

    what: str
    count: int
    small: int


SCENARIOS = {
    "kills": Scenario("processes of a sweep killed at random moments", 200, 0),
    "kill_points": Scenario("the store killed at every operation on files, each once", 10_000, 1),
    "writers": Scenario("writes and comparisons of 20 processes in one folder", 20, 0),
    "disks": Scenario("disks full or read-only, folders removed", 40, 0),
    "damage": Scenario("files of a folder of results with bytes changed", 1000, 6),
    "plugins": Scenario("plugins that misbehave, in a sweep and alone", 1000, 0),
    "ranks": Scenario("ranks of two-process cells killed at random moments", 20, 0),
    "clocks": Scenario("clocks that jump by hours and years", 30, 0),
    "memory": Scenario("cells of one sweep, its memory watched", 500, 0),
    "overrides": Scenario("overrides, sweep files and command lines that nobody would type", 10_000, 30),
    "bundles": Scenario("bundles damaged and forged", 1000, 0),
}
"""Each is a module of this folder. With `--small`, only those that take seconds are tried."""


def main() -> None:
    """Run the scenarios, print the table and what was found, and exit with 1 if that is anything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="a few cases of the quick scenarios: shows that it runs")
    parser.add_argument("--only", action="append", choices=list(SCENARIOS), metavar="NAME", help="again for others")
    parser.add_argument("--seed", type=int, default=0, help="of all draws (default 0)")
    options = parser.parse_args()
    print("| scenario | what is done | cases | found | minutes | remarks |")
    print("|---|---|---:|---:|---:|---|", flush=True)
    findings = []
    for name in options.only or SCENARIOS:
        count = SCENARIOS[name].small if options.small else SCENARIOS[name].count
        if count:
            findings += [f"{name}: {finding}" for finding in _tried(name, count, options.seed).findings]
    print(f"\nSeed {options.seed}, {date.today().isoformat()}.")
    for finding in findings:
        print(f"\n{finding}")
    sys.exit(1 if findings else 0)


def _tried(name: str, count: int, seed: int) -> Outcome:
    begin = time.monotonic()
    outcome: Outcome = importlib.import_module(f"benchmarks.faults.{name}").look(count, seed)
    minutes = (time.monotonic() - begin) / 60.0
    cells = (name, SCENARIOS[name].what, f"{outcome.cases:,}", len(outcome.findings), f"{minutes:.1f}", outcome.note)
    print("|", " | ".join(map(str, cells)), "|", flush=True)
    return outcome


if __name__ == "__main__":
    main()

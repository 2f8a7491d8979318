"""The settings that a tuning sweep chooses, and what choosing them cost: the table of docs/reproduction.md.

    python -m benchmarks.studies.tuning [RESULTS]

For each problem and solver: the setting whose last iterate has the smallest sum of validation error and positive part
of the largest validation violation, the number of settings tried, and the solver seconds spent on all of them.

This is not the rule of `drobench leaderboard --select validation`, on purpose. A leaderboard takes runs with another
`reformulation.alpha`, which is what is tuned for GCIVR, for runs on another task and does not choose among them. And it
puts feasibility before the error, as a comparison of solvers should: on the intersectional groups, some of which have a
handful of validation rows, no setting of GCIVR and none without constraints keeps every validation constraint, and the
violation alone would decide, whatever the error. The settings in conf/experiment/ were chosen by the sum.
"""

import argparse
from collections import defaultdict
from pathlib import Path
from typing import Any

from drobench.results.record import Record
from drobench.results.store import ResultStore


def criterion(record: Record) -> float:
    """Return what the choice minimises; a run without scores is never chosen."""
    last = record.iterates.last
    if last is None or last.validation_error is None:
        return float("inf")
    return last.validation_error + max(0.0, last.validation_max_violation or 0.0)


def varied(records: list[Record]) -> list[str]:
    """Return the settings in which these runs differ."""
    settings = [_settings(record) for record in records]
    return sorted(name for name in settings[0] if len({repr(one.get(name)) for one in settings}) > 1)


def _settings(record: Record) -> dict[str, Any]:
    groups = {"solver": record.solver.config, "problem": record.problem.config, "reformulation": record.reformulation}
    return {f"{group}.{name}": value for group, values in groups.items() for name, value in (values or {}).items()}


def main() -> None:
    """Print one line for each problem and solver."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="?", default="results", type=Path)
    found: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in ResultStore(parser.parse_args().results).records().records:
        found[record.problem.name, record.solver.name].append(record)
    print(
        "| problem | solver | chosen | criterion | settings tried | solver seconds for all |\n|---|---|---|---|---|---|"
    )
    for (problem, solver), records in sorted(found.items()):
        best = min(records, key=criterion)
        chosen = ", ".join(f"{name}={_settings(best)[name]}" for name in varied(records))
        seconds = sum(record.seconds.solver or 0.0 for record in records)
        print(f"| {problem} | {solver} | {chosen} | {criterion(best):.3f} | {len(records)} | {seconds:.0f} |")


if __name__ == "__main__":
    main()

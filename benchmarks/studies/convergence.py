"""The tables of docs/convergence.md, from the results of `drobench sweep convergence`.

    python -m benchmarks.studies.convergence [RESULTS]

For each problem and method the step whose runs reach a relative gap of 1e-6 most often and soonest (by the median over
the seeds; where none does, the smallest median gap after 40 passes), and what trying all steps of the grid cost. Then
the goals, each judged in every seed. Exits with 1 if one is missed.
"""

import argparse
import math
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import polars

from drobench.results.record import Record
from drobench.results.store import ResultStore

TARGETS = (1e-4, 1e-6, 1e-8)
AFTER = 40.0
_GRID = "step_scale"


@dataclass(frozen=True)
class Run:
    """What one run reached, by passes.

    Attributes:
        seed: Of data and solver.
        step: Factor of 1 / L.
        passes: At each evaluation.
        relative: The relative gap at each, or the squared gradient mapping where the problem is not convex.
        absolute: The gap.
        spent: Passes of the whole run.
    """

    seed: int
    step: float
    passes: Sequence[float]
    relative: Sequence[float]
    absolute: Sequence[float]
    spent: float

    def passes_to(self, target: float) -> float:
        """Return the passes at the first evaluation within the target, or infinity."""
        return _first(self.passes, self.relative, target)

    def passes_to_absolute(self, target: float) -> float:
        """The same for the gap itself."""
        return _first(self.passes, self.absolute, target)

    def after(self, passes: float) -> float:
        """Return the last value that was measured within so many passes; a run that broke off has none."""
        seen = [value for spent, value in zip(self.passes, self.relative, strict=True) if spent <= passes + 1.0]
        return seen[-1] if seen and math.isfinite(seen[-1]) else math.inf


def _first(passes: Sequence[float], values: Sequence[float], target: float) -> float:
    return next((spent for spent, value in zip(passes, values, strict=True) if value <= target), math.inf)


NAMES = {"kl_classification": "KL", "chi2_classification": "chi2", "wasserstein_logistic": "Wasserstein"}


def is_of_the_sweep(record: Record) -> bool:
    """Return whether a run may be one of the sweep: other runs have no place in its tables."""
    return record.dataset.name == "synthetic" and record.problem.name in NAMES and _GRID in record.solver.config


def read_run(record: Record, curve: polars.DataFrame) -> Run:
    """Return what a record and its curve say."""
    config = record.solver.config
    if curve.is_empty() or "passes" not in curve.columns:
        # It failed before it was looked at: it has reached nothing.
        return Run(record.seed, float(config[_GRID]), [], [], [], 0.0)
    if record.optimum is None:
        relative, absolute = curve["stationarity"].to_list(), [math.inf] * curve.height
    else:
        absolute = curve["gap"].cast(polars.Float64).fill_null(math.inf).to_list()
        relative = [gap / absolute[0] for gap in absolute]
    relative = [math.inf if value is None or math.isnan(value) else value for value in relative]
    return Run(record.seed, float(config[_GRID]), curve["passes"].to_list(), relative, absolute, curve["passes"][-1])


def problem_name(record: Record) -> str:
    """Return a problem in words, with its size."""
    config, size = record.problem.config, record.dataset.rows
    words = [NAMES[record.problem.name]]
    if record.problem.name == "wasserstein_logistic":
        words.append(f"radius {config['radius']:g}")
    else:
        words += [config["variant"]] if record.problem.name == "chi2_classification" else []
        words.append(f"{config['gamma']:g}")
        words += ["sigmoid"] if config["loss"] == "sigmoid" else []
    return f"{' '.join(words)}, m={size}"


def method_name(record: Record) -> str:
    """Return a method in words."""
    schedule = record.solver.config.get("schedule", "constant")
    return record.solver.name + ("" if schedule == "constant" else f" ({schedule})")


@dataclass(frozen=True)
class Tuned:
    """A method at its best step on one problem."""

    step: float
    runs: Sequence[Run]
    tried: int
    spent: float

    def seeds_within(self, target: float) -> str:
        """Return median passes to the target, or how many seeds reach it where not all do."""
        passes = [run.passes_to(target) for run in self.runs]
        reached = [spent for spent in passes if spent < math.inf]
        if len(reached) == len(passes):
            return f"{median(passes):.1f} ({min(passes):.1f} to {max(passes):.1f})"
        return f"{len(reached)} of {len(passes)} seeds" if reached else "none"


def demerit(runs: Sequence[Run]) -> tuple[float, ...]:
    """Return what to order by: how many seeds reach the middle target, how soon, and how far the others get."""
    passes = [run.passes_to(TARGETS[1]) for run in runs]
    return -sum(spent < math.inf for spent in passes), median(passes), median(run.after(AFTER) for run in runs)


def best_step(runs: Sequence[Run]) -> Tuned:
    """Return the runs of the best step, with the cost of having tried the others."""
    by_step: dict[float, list[Run]] = defaultdict(list)
    for run in runs:
        by_step[run.step].append(run)

    step = min(sorted(by_step), key=lambda step: demerit(by_step[step]))
    chosen = sorted(by_step[step], key=lambda run: run.seed)
    return Tuned(step, chosen, len(by_step), sum(run.spent for run in runs))


@dataclass(frozen=True)
class Goal:
    """What GCIVR is to reach in every seed with its default settings."""

    problem: str
    words: str
    target: float
    within: float
    absolute: bool = False

    def passes(self, runs: Sequence[Run]) -> list[float]:
        """Return the passes of each seed."""
        ordered = sorted(runs, key=lambda run: run.seed)
        return [(run.passes_to_absolute if self.absolute else run.passes_to)(self.target) for run in ordered]


GOALS = (
    Goal("KL 1, m=10000", "relative gap 1e-6", 1e-6, 23.0),
    Goal("chi2 variance 2, m=10000", "relative gap 1e-6", 1e-6, 23.0),
    Goal("KL 0.2, m=10000", "relative gap 1e-6", 1e-6, 32.0),
    Goal("Wasserstein radius 0.05, m=10000", "gap 1e-5", 1e-5, 60.0, absolute=True),
    Goal("KL 0.2 sigmoid, m=10000", "squared gradient mapping 1e-10", 1e-10, 60.0),
)


def load(folder: Path) -> dict[str, dict[str, list[Run]]]:
    """Return all runs by problem and method."""
    store = ResultStore(folder)
    found: dict[str, dict[str, list[Run]]] = defaultdict(lambda: defaultdict(list))
    for record in filter(is_of_the_sweep, store.records().records):
        found[problem_name(record)][method_name(record)].append(read_run(record, store.curve(record.run_id)))
    return found


def main() -> int:
    """Print the tables; return 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="?", default="results", type=Path)
    folder = parser.parse_args().results
    found = load(folder)
    if not found:
        raise SystemExit(f"No run of the sweep in {folder}. Run `drobench sweep convergence --results {folder}` first.")
    for problem in sorted(found):
        measure = "squared gradient mapping" if "sigmoid" in problem else "relative gap"
        print(f"\n### {problem}\n")
        reached = " | ".join(f"passes to {target:.0e}" for target in TARGETS)
        print(f"| method | best step x L | {reached} | {measure} after {AFTER:g} | steps tried, passes |")
        print("|---|---|---|---|---|---|---|")
        rows = [(method, best_step(runs)) for method, runs in found[problem].items()]
        for method, tuned in sorted(rows, key=lambda row: demerit(row[1].runs)):
            cells = [tuned.seeds_within(target) for target in TARGETS]
            last = median(run.after(AFTER) for run in tuned.runs)
            print(
                f"| `{method}` | {tuned.step:g} | {' | '.join(cells)} | {max(last, 0.0):.1e} | "
                f"{tuned.tried}, {tuned.spent:.0f} |"
            )
    print("\n### Goals of GCIVR with default settings\n")
    print("| problem | goal | within | passes by seed | met |\n|---|---|---|---|---|")
    missed = 0
    for goal in GOALS:
        passes = goal.passes([run for run in found[goal.problem]["gcivr"] if run.step == 1.0])
        met = bool(passes) and max(passes) <= goal.within
        missed += not met
        shown = ", ".join("not" if spent == math.inf else f"{spent:.1f}" for spent in passes)
        print(f"| {goal.problem} | {goal.words} | {goal.within:g} passes | {shown} | {'yes' if met else 'NO'} |")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

"""The runs of `drobench sweep table1`, sorted by what each row of the table is about."""

import math
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import polars as pl

from benchmarks.studies.table1.growth import Cell
from drobench.errors import DrobenchError
from drobench.results.record import FAILURES, Record
from drobench.results.store import ResultStore

GAPS = (1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5, 1e-6)
"""Accuracies of the objective that are read from a curve: value minus optimum, absolute."""
STATIONARITIES = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)
"""Accuracies of the squared gradient mapping."""


class Family(NamedTuple):
    """One row of the table."""

    label: str
    metric: str = "gap"
    tied: bool = False
    """Whether the width of the smoothing, and so a run, belongs to one accuracy."""


FAMILIES = {
    "midtouch": Family("MidTouch, Wasserstein"),
    "serr": Family("SERR, Wasserstein"),
    "sevr": Family("SEVR, Wasserstein"),
    "literal": Family("GCIVR, Wasserstein, literal (W1)", tied=True),
    "reduced": Family("GCIVR, Wasserstein, reduced (W2)", tied=True),
    "kl": Family("GCIVR, KL"),
    "chi2": Family("GCIVR, chi-square"),
    "kl_sigmoid": Family("GCIVR, KL, non-convex", "stationarity"),
    "kl_sigmoid_adaptive": Family("GCIVR adaptive, KL, non-convex", "stationarity"),
    "chi2_sigmoid": Family("GCIVR, chi-square, non-convex", "stationarity"),
    "chi2_sigmoid_adaptive": Family("GCIVR adaptive, chi-square, non-convex", "stationarity"),
}


def family_of(record: Record) -> str | None:
    """Return the key of the record's family, or `None` if it has no place in the table."""
    solver, problem = record.solver.name, record.problem.name
    if record.dataset.name != "synthetic":
        return None
    if problem == "wasserstein_logistic":
        name = str(record.reformulation["wasserstein"]) if solver == "gcivr" else solver
    elif solver != "gcivr":
        return None
    else:
        name = problem.removesuffix("_classification")
        name += "_sigmoid" if record.problem.config.get("loss") == "sigmoid" else ""
        name += "_adaptive" if record.solver.config.get("schedule") == "adaptive" else ""
    return name if name in FAMILIES else None


def width_for(name: str, size: int, accuracy: float) -> float:
    """Return the width of the smoothing that goes with an accuracy.

    Literal: `eps / ln(M + 1)` for all M = 2m + 1 constraints, as in the paper's theorem. Reduced: `eps`, since the
    smoothed hinge is at most `eps ln 2` too high.
    """
    return accuracy / math.log(2 * size + 2) if name == "literal" else accuracy


def accuracy_of(name: str, size: int, width: float) -> float:
    """Return the accuracy whose width this is, to three digits, which is what a sweep file writes."""
    return float(f"{width / width_for(name, size, 1.0):.3g}")


def collect(root: Path) -> dict[str, list[tuple[Record, pl.DataFrame]]]:
    """Return the runs of each family with their curves."""
    store = ResultStore(root)
    found: dict[str, list[tuple[Record, pl.DataFrame]]] = defaultdict(list)
    for record in store.records().records:
        name = family_of(record)
        if name is not None:
            found[name].append((record, store.curve(record.run_id)))
    return {name: found[name] for name in FAMILIES if name in found}


def costs_of(name: str, runs: list[tuple[Record, pl.DataFrame]]) -> dict[Cell, list[float]]:
    """Return the calls (sample calls and constraint checks) to each accuracy, by size, for all seeds in order.

    A run counts where it first met the accuracy at an evaluation. A run that failed, or is missing, has met none; of a
    run whose instance has no certified optimum no gap is known, which is NaN.

    Raises:
        DrobenchError: If two runs claim the same place in the table.
    """
    metric, tied = FAMILIES[name].metric, FAMILIES[name].tied
    costs: dict[Cell, dict[int, float]] = defaultdict(dict)
    for record, curve in runs:
        size = int(record.dataset.config["rows"])
        targets = (accuracy_of(name, size, float(record.reformulation["gamma"])),) if tied else asked(record, metric)
        for target in targets:
            if record.seed in costs[size, target]:
                place = f"{FAMILIES[name].label}, m={size}, eps={target:g}, seed {record.seed}"
                raise DrobenchError(
                    f"There are two runs for {place}; expected those of one sweep, one for each place. "
                    "Give `drobench sweep table1` a folder of its own with --results."
                )
            costs[size, target][record.seed] = _cost(record, curve, metric, target)
    seeds = sorted({record.seed for record, _ in runs})
    return {cell: [found.get(seed, math.inf) for seed in seeds] for cell, found in costs.items()}


def _cost(record: Record, curve: pl.DataFrame, metric: str, target: float) -> float:
    if record.status in FAILURES:
        return math.inf
    if metric == "gap" and record.optimum is None:
        return math.nan
    return first_cost(curve, metric, target)


def asked(record: Record, metric: str) -> tuple[float, ...]:
    """Return the accuracies that a run was to reach: not those below the target that ends it.

    The target of a gap is relative to the start's, which is below 0.5 on these instances.
    """
    if metric == "gap":
        last = 0.5 * float(record.budget["target_gap"] or 0.0)
        return tuple(gap for gap in GAPS if gap >= last)
    last = float(record.budget["target_stationarity"] or 0.0)
    return tuple(value for value in STATIONARITIES if value >= last)


def first_cost(curve: pl.DataFrame, metric: str, target: float) -> float:
    """Return the calls at the first evaluation that meets the target; infinite if none does."""
    met = curve.filter(pl.col(metric).cast(pl.Float64).fill_nan(None) <= target)
    return math.inf if met.is_empty() else float(met["oracle_calls"][0])

"""Figure 1 of the paper, drawn from the records of `drobench sweep paper_figure1`.

    python -m benchmarks.studies.figure1 [RESULTS] [--picture docs/pictures/figure1.png]

prints a table of what the picture shows: for each task and method the mean over splits, with a 95 % interval (of
Student's t), of test error, largest test and training violation, and solver seconds. A second table compares the time
GCIVR and the multiplier model take to the same training violation.
"""

import argparse
import math
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from scipy import stats

from benchmarks.drawing import pyplot
from drobench.results.record import Record
from drobench.results.store import ResultStore

TASKS = {
    "noisy_group_fairness": "noisy groups",
    "intersectional_fairness": "intersectional groups",
    "ranking_fairness": "ranking",
}
METHODS = {"gcivr": "GCIVR", "heavily_constrained": "heavily constrained", "unconstrained": "unconstrained"}
# Okabe and Ito's colours, which all eyes tell apart.
COLOURS = {"gcivr": "#0072B2", "heavily_constrained": "#D55E00", "unconstrained": "#009E73"}
# Nine tenths of the error of one answer for all, or of a ranking at random, which satisfy every constraint.
USEFUL_ERROR = {"noisy_group_fairness": 0.215, "intersectional_fairness": 0.275, "ranking_fairness": 0.45}


class Runs(NamedTuple):
    """All runs of one method on one task."""

    records: list[Record]
    curves: list[pl.DataFrame]


def collect(root: Path) -> dict[tuple[str, str], Runs]:
    """Return the runs that the figure needs, by problem and solver, one for each split."""
    store = ResultStore(root)
    found: dict[tuple[str, str], Runs] = defaultdict(lambda: Runs([], []))
    for record in store.records().records:
        key = (record.problem.name, record.solver.name)
        if key[0] in TASKS and key[1] in METHODS and record.iterates.last is not None:
            found[key].records.append(record)
            found[key].curves.append(store.curve(record.run_id))
    return dict(found)


def interval(values: Iterable[float]) -> tuple[float, float]:
    """Return the mean and half the width of its 95 % interval."""
    numbers = np.array(list(values), dtype=float)
    if numbers.size < 2:
        return float(numbers.mean()), math.nan
    half = stats.t.ppf(0.975, numbers.size - 1) * numbers.std(ddof=1) / math.sqrt(numbers.size)
    return float(numbers.mean()), float(half)


def table(found: dict[tuple[str, str], Runs]) -> str:
    """Return the numbers behind the picture as a Markdown table."""
    names = ("test_error", "test_max_violation", "test_p95_violation", "train_error", "train_max_violation")
    lines = [
        "| task | method | splits | test error | test max violation | test 95th percentile | train error "
        "| train max violation | solver seconds |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for problem, task in TASKS.items():
        for solver, method in METHODS.items():
            if (problem, solver) not in found:
                continue
            records = found[problem, solver].records
            cells = [_cell(getattr(record.iterates.last, name) for record in records) for name in names]
            seconds = _cell((record.seconds.solver for record in records), digits=1)
            lines.append(f"| {task} | {method} | {len(records)} | {' | '.join(cells)} | {seconds} |")
    return "\n".join(lines)


def time_table(found: dict[tuple[str, str], Runs]) -> str:
    """Return how long both methods take to the lowest training violation that both reach, split by split.

    Only evaluated points that are useful classifiers count.
    """
    lines = [
        "| task | splits | violation reached by both | GCIVR, seconds | heavily constrained, seconds "
        "| ratio, median | range |",
        "|---|---|---|---|---|---|---|",
    ]
    for problem, task in TASKS.items():
        pairs = _paired(found, problem)
        times = [pair for pair in (_times(problem, *curves) for curves in pairs) if pair is not None]
        if not times:
            continue
        levels, ours, theirs = (np.array(column) for column in zip(*times, strict=True))
        ratios = theirs / ours
        lines.append(
            f"| {task} | {len(times)} of {len(pairs)} | {np.median(levels):.3f} | {np.median(ours):.2f} "
            f"| {np.median(theirs):.2f} | {np.median(ratios):.2g} | {ratios.min():.2g} to {ratios.max():.2g} |"
        )
    return "\n".join(lines)


def _paired(found: dict[tuple[str, str], Runs], problem: str) -> list[tuple[pl.DataFrame, pl.DataFrame]]:
    """Return the curves of both methods on the same split."""
    by_split = [
        {record.dataset.config["seed"]: curve for record, curve in zip(*found[problem, solver], strict=True)}
        for solver in ("gcivr", "heavily_constrained")
        if (problem, solver) in found
    ]
    if len(by_split) < 2:
        return []
    ours, theirs = by_split
    return [(ours[seed], theirs[seed]) for seed in sorted(ours.keys() & theirs.keys())]


def _times(problem: str, ours: pl.DataFrame, theirs: pl.DataFrame) -> tuple[float, float, float] | None:
    """Return the level and the seconds of either, or `None` if one of them has no useful point."""
    useful = [curve.filter(pl.col("train_error") <= USEFUL_ERROR[problem]) for curve in (ours, theirs)]
    if any(curve.is_empty() for curve in useful):
        return None
    level = max(float(curve["train_max_violation"].min()) for curve in useful)  # type: ignore[arg-type]
    first = [curve.filter(pl.col("train_max_violation") <= level)["solver_seconds"][0] for curve in useful]
    return level, first[0], first[1]


def _cell(values: Iterable[float | None], digits: int = 3) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return "-"
    mean, half = interval(known)
    return f"{mean:.{digits}f}" + ("" if math.isnan(half) else f" ± {half:.{digits}f}")


def draw(found: dict[tuple[str, str], Runs], path: Path) -> None:
    """Draw one row per task: error and violation against steps, and error against the time it took."""
    plt = pyplot()
    tasks = [problem for problem in TASKS if any(key[0] == problem for key in found)]
    figure, axes = plt.subplots(len(tasks), 3, figsize=(11, 3.1 * len(tasks)), squeeze=False, layout="constrained")
    for row, problem in zip(axes, tasks, strict=True):
        panels = (
            ("step", "test_error", "steps", "test error"),
            ("step", "test_max_violation", "steps", "max violation, test"),
            ("solver_seconds", "test_error", "solver seconds", "test error"),
        )
        for axis, (x_name, y_name, x_label, y_label) in zip(row, panels, strict=True):
            for solver, method in METHODS.items():
                if (problem, solver) in found:
                    _band(axis, found[problem, solver].curves, x_name, y_name, COLOURS[solver], method)
            axis.set_xlabel(x_label)
            axis.set_ylabel(y_label)
            axis.grid(alpha=0.3)
        row[0].set_title(TASKS[problem], loc="left", fontweight="bold")
        row[1].axhline(0.0, color="black", linewidth=0.8, linestyle=":")
        row[2].set_xscale("log")
    axes[0][0].legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def _band(axis: object, curves: list[pl.DataFrame], x_name: str, y_name: str, colour: str, label: str) -> None:
    """Draw the mean over runs, and the band of its 95 % interval, on a common grid."""
    last = min(curve[x_name].max() for curve in curves)  # type: ignore[type-var]
    first = max(float(curve[x_name].filter(curve[x_name] > 0).min()) for curve in curves)  # type: ignore[arg-type]
    grid = np.geomspace(first, last, 80) if x_name == "solver_seconds" else np.linspace(0.0, last, 80)  # type: ignore[arg-type]
    lines = np.array([np.interp(grid, curve[x_name].to_numpy(), curve[y_name].to_numpy()) for curve in curves])
    mean = lines.mean(axis=0)
    axis.plot(grid, mean, color=colour, label=label)  # type: ignore[attr-defined]
    if len(curves) > 1:
        half = stats.t.ppf(0.975, len(curves) - 1) * lines.std(axis=0, ddof=1) / math.sqrt(len(curves))
        axis.fill_between(grid, mean - half, mean + half, color=colour, alpha=0.2, linewidth=0)  # type: ignore[attr-defined]


def main() -> None:
    """Print the table and draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="?", default="results", type=Path)
    parser.add_argument("--picture", type=Path)
    arguments = parser.parse_args()
    found = collect(arguments.results)
    if not found:
        raise SystemExit(
            f"No run of the figure's tasks in {arguments.results}. Run `drobench sweep paper_figure1` first."
        )
    print(table(found))
    print(f"\n{time_table(found)}")
    if arguments.picture is not None:
        draw(found, arguments.picture)
        print(f"\ndrawn: {arguments.picture}")


if __name__ == "__main__":
    main()

"""Figure 1 of the paper, drawn from the records of `drobench sweep paper_figure1`.

    python -m benchmarks.figure1 [RESULTS] [--picture docs/pictures/figure1.png]

prints a table of what the picture shows: for each task and method the mean over splits, with a 95 % interval (of
Student's t), of test error, largest test and training violation, and solver seconds.
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
COLUMNS = (
    ("test_error", "test error"),
    ("test_max_violation", "max violation, test"),
    ("train_max_violation", "max violation, train"),
)


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


def _cell(values: Iterable[float | None], digits: int = 3) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return "-"
    mean, half = interval(known)
    return f"{mean:.{digits}f}" + ("" if math.isnan(half) else f" ± {half:.{digits}f}")


def draw(found: dict[tuple[str, str], Runs], path: Path) -> None:
    """Draw one row per task: error and violation against steps, and error against the time it took."""
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

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
    if arguments.picture is not None:
        draw(found, arguments.picture)
        print(f"\ndrawn: {arguments.picture}")


if __name__ == "__main__":
    main()

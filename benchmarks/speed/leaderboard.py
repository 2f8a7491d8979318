"""A leaderboard of ten thousand runs against reading their files.

    python -m benchmarks.speed.leaderboard [--runs 10000] [--keep DIR]

The runs are made up, but their files are what a run leaves: a record of some six thousand characters, a curve of 60
evaluations with 35 columns, a solution and a config. They stand for 100 problems, ten solvers on each, ten seeds.

    base         polars reads all curves in one call, and `json.loads` every record: what nothing can avoid
    leaderboard  `ResultStore.records`, which checks every folder, and `leaderboard`: targets, medians, intervals, all
                 pairs of solvers tested, profiles across the boards; as text in the end

`--keep` makes the folder once and uses it again. Polars has one thread, as everything that is measured here,
and both sides are measured in processor time: they last too long for a quiet moment.
"""

import argparse
import hashlib
import json
import math
import os
import shutil
import tempfile
import time
from pathlib import Path

# Read when polars is first imported, so it has to stand before.
os.environ["POLARS_MAX_THREADS"] = "1"

import numpy
import polars

from benchmarks.speed.side_by_side import Comparison, add_small, least, machine, one_thread, table, timed
from drobench.results import contents
from drobench.results.comparison.leaderboard import leaderboard
from drobench.results.curves import StoredCurves
from drobench.results.record import (
    Component,
    DatasetComponent,
    Environment,
    Iterate,
    Iterates,
    Optimum,
    OracleCounts,
    Record,
    Seconds,
    Status,
)
from drobench.results.report.formats import format_csv
from drobench.results.store import ResultStore

RUNS, SMALL_RUNS = 10_000, 200
GOAL = 3.0
REPEATS = 2
_SOLVERS = 10
_SEEDS = 10
_EVALUATIONS = 60
_FURTHER_COLUMNS = (
    *("train_error", "validation_error", "test_error", "stationarity", "sample_calls", "inner_values"),
    *("inner_jacobians", "loss_gradients", "constraint_checks", "projections", "communication_rounds"),
    *("train_max_violation", "validation_max_violation", "test_max_violation", "test_p95_violation"),
    *(f"train_metric_{number}" for number in range(12)),
)


def make_runs(root: Path, runs: int) -> None:
    """Write made-up runs into a folder of results."""
    generator = numpy.random.default_rng(0)
    per_board = _SOLVERS * _SEEDS
    for number in range(runs):
        board, solver, seed = number // per_board, number // _SEEDS % _SOLVERS, number % _SEEDS
        rate = 0.15 / (1 + solver / 3) * generator.lognormal(sigma=0.2)
        gaps = 2.0 * numpy.exp(-rate * numpy.arange(_EVALUATIONS))
        record = _record(board, solver, seed, float(gaps[-1]))
        folder = root / record.run_id
        folder.mkdir(parents=True)
        (folder / contents.RECORD).write_text(record.to_json())
        _curve(gaps, generator).write_parquet(folder / contents.CURVE)
        (folder / contents.SOLUTION).write_bytes(_SOLUTION)
        (folder / contents.CONFIG).write_text("seed: 0\n" * 100)


# The header of a safetensors file without arrays: its length, then an empty object.
_SOLUTION = (8).to_bytes(8, "little") + b"{}      "


def _record(board: int, solver: int, seed: int, gap: float) -> Record:
    settings = {f"setting_{number}": number / 7 for number in range(8)}
    extra = {f"train_metric_{number}": number / 7 for number in range(12)}
    point = Iterate(
        objective=1 + gap, gap=gap, train_error=0.1, validation_error=0.1, test_error=0.1 + solver / 1000,
        feasible=True, step=1000, extra=extra,
    )  # fmt: skip
    return Record(
        run_id=hashlib.sha256(f"{board} {solver} {seed}".encode()).hexdigest(),
        status=Status.BUDGET_SPENT,
        reason="passes 300 of 300",
        seed=seed,
        started_at="2026-01-01T12:00:00+00:00",
        solver=Component(name=f"solver_{solver}", config=settings, distribution="drobench", version="0.1.0"),
        problem=Component(name="problem", config={"gamma": board / 100} | settings, distribution="drobench"),
        dataset=DatasetComponent(name="data", config={"seed": 0}, sha256="a" * 64, rows=1000),
        model={"name": "linear", "intercept": True, "hidden": []},
        budget={"passes": 300, "oracle_calls": None, "seconds": None, "steps": None},
        trainer={"name": "cpu", "devices": 1, "nodes": 1, "dtype": "float64", "threads": 1},
        reformulation=settings,
        iterates=Iterates(last=point, average=point, best_feasible=point),
        optimum=Optimum(value=1.0, method="exact", certificate=1e-9),
        oracle=OracleCounts(inner_values=1, inner_jacobians=1, loss_gradients=1, constraint_checks=0, passes=300.0),
        seconds=Seconds(solver=1.0, evaluation=1.0, setup=1.0, total=3.0),
        environment=Environment(
            versions=dict.fromkeys(("python", "drobench", "torch", "numpy", "scipy", "polars"), "1.0.0"),
            git_revision="b" * 40,
            git_dirty=False,
            hardware={"processor": "one", "cores": 2, "gpus": [], "system": "Linux"},
            threads=1,
            world_size=1,
        ),
        others={"route": ["a", "b"], "output": "last"},
    )


def _curve(gaps: numpy.ndarray, generator: numpy.random.Generator) -> polars.DataFrame:
    steps = numpy.arange(len(gaps))
    further = generator.normal(size=(len(_FURTHER_COLUMNS), len(gaps)))
    return polars.DataFrame(
        {
            "step": steps * 20,
            "passes": steps * 300 / (len(gaps) - 1),
            "oracle_calls": steps * 5000,
            "communication_bytes": steps * 0,
            "solver_seconds": steps / 50,
            "objective": 1 + gaps,
            "gap": gaps,
            "feasible": numpy.full(len(gaps), True),
            **dict(zip(_FURTHER_COLUMNS, further, strict=True)),
        }
    )


def measure(runs: int = RUNS, keep: Path | None = None) -> list[Comparison]:
    """Return the ratio for a folder with so many runs."""
    root = keep if keep is not None else Path(tempfile.mkdtemp(prefix="drobench-leaderboard-"))
    try:
        if not root.is_dir() or not any(root.iterdir()):
            make_runs(root, runs)
        return _measure(root)
    finally:
        if keep is None:
            shutil.rmtree(root)


def _measure(root: Path) -> list[Comparison]:
    folders = sorted(str(folder) for folder in root.iterdir() if not folder.name.startswith("."))
    curves = [f"{folder}/{contents.CURVE}" for folder in folders]

    def read() -> None:
        polars.read_parquet(curves)
        for folder in folders:
            with open(f"{folder}/{contents.RECORD}", "rb") as file:  # noqa: PTH123 - the quickest way is the fair base
                json.loads(file.read())

    def aggregate() -> None:
        store = ResultStore(root)
        found = leaderboard(store.records().records, StoredCurves(store))
        assert sum(row.runs for board in found.boards for row in board.rows) == len(folders)
        assert len(format_csv(found)) > 0

    sides = [timed(name, work, clock=time.process_time) for name, work in (("leaderboard", aggregate), ("read", read))]
    seconds = least(sides, REPEATS)
    boards = math.ceil(len(folders) / (_SOLVERS * _SEEDS))
    return [
        Comparison(
            f"leaderboard of {len(folders)} runs on {boards} boards / reading their files",
            seconds["leaderboard"],
            seconds["read"],
            GOAL,
        )
    ]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int)
    parser.add_argument("--keep", type=Path, default=None)
    add_small(parser)
    options = parser.parse_args()
    one_thread()
    print(table(measure(options.runs or (SMALL_RUNS if options.small else RUNS), options.keep)))
    print(machine())


if __name__ == "__main__":
    main()

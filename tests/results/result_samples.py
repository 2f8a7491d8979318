"""Hand-made records with known contents, for the tests of this folder."""

import json
from pathlib import Path
from typing import Any

import numpy
import polars

from drobench.results.record import (
    Component,
    DatasetComponent,
    Environment,
    Iterate,
    Iterates,
    Optimum,
    Record,
    Seconds,
    Status,
    content_id,
)

CONFIG = "solver:\n  name: alpha\nseed: 0\n"
SOLUTION = {"last": numpy.array([1.0, -2.5]), "average": numpy.array([0.5, 0.25])}


def make_record(
    solver: str = "alpha",
    seed: int = 0,
    *,
    status: Status = Status.BUDGET_SPENT,
    config: dict[str, Any] | None = None,
    problem: str = "robust",
    dataset: str = "tiny",
    sha256: str | None = "a" * 64,
    budget: dict[str, Any] | None = None,
    iterate: Iterate | None = None,
    optimum: float | None = None,
    seconds: float | None = 2.0,
    hardware: Any = "one machine",
    threads: int | None = 1,
    started_at: str = "2024-05-01T12:00:00+00:00",
    **fields: Any,
) -> Record:
    """A valid record; everything that makes it different goes into its id."""
    config = {} if config is None else config
    budget = {"passes": 10} if budget is None else budget
    determinants = [solver, seed, repr(config), problem, dataset, sha256, budget, status, repr(sorted(fields.items()))]
    return Record(
        run_id=content_id({"of": determinants}),
        status=status,
        seed=seed,
        started_at=started_at,
        solver=Component(name=solver, config=config, distribution="drobench", version="0.1.0"),
        problem=Component(name=problem, config={"gamma": 0.5}, distribution="drobench", version="0.1.0"),
        dataset=DatasetComponent(name=dataset, config={"seed": 0}, sha256=sha256, rows=4),
        model={"name": "linear"},
        budget=budget,
        trainer=fields.pop("trainer", {"dtype": "float64", "threads": 1}),
        iterates=Iterates(last=iterate),
        optimum=None if optimum is None else Optimum(value=optimum, method="exact", certificate=1e-9),
        seconds=Seconds(solver=1.0, total=seconds),
        environment=Environment(versions={"numpy": "2"}, hardware=hardware, threads=threads, world_size=1),
        **fields,
    )


def make_curve(objectives: list[float], optimum: float | None = None, **columns: list[Any]) -> polars.DataFrame:
    """A curve with one pass and a tenth of a second per evaluation, unless told otherwise."""
    steps = range(len(objectives))
    gaps = [None if optimum is None else value - optimum for value in objectives]
    data = {
        "step": [10 * step for step in steps],
        "passes": [float(step) for step in steps],
        "oracle_calls": [100 * step for step in steps],
        "solver_seconds": [0.1 * step for step in steps],
        "objective": objectives,
        "gap": gaps,
    }
    return polars.DataFrame(data | columns)


def unsealed(folder: Path) -> None:
    """Make a stored run one of a version that kept no checksums."""
    file = folder / "record.json"
    content = json.loads(file.read_text())
    for name in ("files", "checksum", "asked", "code", "code_parts"):
        del content[name]
    file.write_text(json.dumps(content))

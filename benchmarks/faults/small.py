"""Instances on which everything takes milliseconds, and runs that were never computed."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

SMALL = (
    "dataset=synthetic",
    "dataset.rows=60",
    "dataset.features=3",
    "problem.l2=0.1",
    "budget.passes=null",
    "budget.steps=5",
)


def write_sweep(file: Path, parts: Sequence[Mapping[str, Any]], words: Sequence[str] = SMALL) -> Path:
    """Write a sweep of small cells and return its path."""
    file.write_text(yaml.safe_dump({"overrides": list(words), "parts": [dict(part) for part in parts]}))
    return file


def write_package(folder: Path, module: str, source: str | None = None) -> Path:
    """Write what pip leaves of an installed plugin; without a source, of a module that can be imported anyway."""
    name = module.rpartition(".")[2]
    information = folder / f"{name}-1.0.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(f"[drobench]\n{name} = {module}\n")
    if source is not None:
        (folder / f"{name}.py").write_text(source)
    return folder


def store_run(root: Path, solver: str, seed: int = 0, objective: float = 1.0, status: str = "budget_spent") -> str:
    """Store a run and return its id; the objective decides what is in all of its files."""
    import numpy
    import polars

    from drobench.results.record import Component, DatasetComponent, Iterate, Iterates, Record, Status, content_id
    from drobench.results.store import ResultStore

    record = Record(
        run_id=content_id({"of": [solver, seed]}),
        status=Status(status),
        reason=None if status == "budget_spent" else "on purpose",
        seed=seed,
        started_at="2026-05-01T12:00:00+00:00",
        solver=Component(name=solver, config={}),
        problem=Component(name="robust", config={}),
        dataset=DatasetComponent(name="tiny", config={}, sha256="a" * 64),
        model={"name": "linear"},
        budget={"passes": 1},
        trainer={},
        iterates=Iterates(last=Iterate(objective=objective, feasible=True)),
    )
    curve = polars.DataFrame(
        {"step": [0, 10], "passes": [0.0, 1.0], "oracle_calls": [0, 9], "objective": [2.0 + objective, objective]}
    )
    ResultStore(root).write(record, curve, {"last": numpy.full(3, objective)}, f"objective: {objective}\n")
    return record.run_id


def objective_of(folder: Path) -> float:
    """Return the objective of a stored run, which all of its files must agree on."""
    from drobench.results.contents import check_contents, read_config, read_curve, read_solution

    record = check_contents(folder, folder.name[:64])
    assert record.iterates.last is not None
    found = record.iterates.last.objective
    assert found is not None
    others = read_curve(folder)["objective"][-1], float(read_solution(folder)["last"][0])
    if others != (found, found) or read_config(folder) != f"objective: {found}\n":
        raise ValueError(f"files of different runs in {folder}: {found}, {others}")
    return found

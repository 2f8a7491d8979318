"""One run, in one direction: config, dataset, problem, reformulation, oracle, solver, task."""

import math
import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
import torch.distributed

from drobench.app.config import RunConfig, plain
from drobench.app.optimum import Reference, find_optimum
from drobench.data.dataset import Dataset
from drobench.objective.oracles.build import build_oracle
from drobench.problem.problem import Problem
from drobench.reformulation.routes import Route, find_route
from drobench.registry import Catalogue, check_requirements
from drobench.results.record import canonical_json
from drobench.training.solver_module import Task
from drobench.training.trainer import check_devices, device_of

_STAGE_PASSES = 20.0
DTYPES = {"float32": torch.float32, "float64": torch.float64}


@dataclass(frozen=True)
class Assembly:
    """A run, put together and ready to start."""

    dataset: Dataset
    problem: Problem
    route: Route
    reference: Reference
    task: Task


def assemble(config: RunConfig, catalogue: Catalogue, optima: Path, reference: Reference | None = None) -> Assembly:
    """Put a run together; `optima` is the cache of certified optima, `reference` an optimum that was found before."""
    catalogue.check_fit(config.problem.name, config.dataset.name)
    catalogue.check_processes(config.solver.name, config.trainer.processes)
    check_devices(config.trainer)
    # Launchers further out, such as srun, may set this variable too, but not for our ranks.
    local_rank = int(os.environ["LOCAL_RANK"]) if torch.distributed.is_torchelastic_launched() else 0
    device = device_of(config.trainer, local_rank)
    dtype = DTYPES[config.trainer.dtype]

    raw = load_dataset(config, catalogue)
    build_problem = catalogue.problem(config.problem.name).entry.factory
    entry = catalogue.solver(config.solver.name).entry

    if raw.streamed:
        reference = Reference(None, "the rows stay in their file, and a reference solver needs them in memory")
    else:
        exact_problem = build_problem(config.problem, raw, config.model)
        route = find_route(exact_problem.form, entry.accepts, config.reformulation)
        check_requirements(entry, route.form, [found.entry for found in catalogue.solvers.values()])
        reference = reference or find_optimum(exact_problem, instance_of(config, raw), catalogue, optima)

    dataset = raw.to(device, dtype)
    problem = build_problem(config.problem, dataset, config.model)
    route = find_route(problem.form, entry.accepts, config.reformulation)
    check_requirements(entry, route.form, [found.entry for found in catalogue.solvers.values()])
    start = problem.start(torch.Generator().manual_seed(config.seed)).to(device, dtype)
    start = route.lift(start)
    task = Task(
        problem=problem,
        solver=entry.factory(config.solver),
        build_oracles=[partial(build_oracle, form, config.seed, start) for form in route.stages],
        **_stage_limits(config, len(route.stages)),
        start=start,
        recover=route.recover,
        projects=route.projects,
        budget=config.budget,
        evaluation=config.evaluation,
        optimum=None if reference.optimum is None else reference.optimum.value,
    )
    return Assembly(dataset, problem, route, reference, task)


def _stage_limits(config: RunConfig, stages: int) -> dict[str, float]:
    """Return where a stage ends: equal shares of the first limit the budget has, unless the passes are given."""
    if config.reformulation.stage_passes is not None:
        return {"stage_passes": config.reformulation.stage_passes}
    for name in ("passes", "seconds", "steps"):
        limit = getattr(config.budget, name)
        if limit is not None:
            return {"stage_passes": math.inf, f"stage_{name}": limit / stages}
    return {"stage_passes": _STAGE_PASSES}


def load_dataset(config: RunConfig, catalogue: Catalogue) -> Dataset:
    """Return the dataset as loaded; the last one is kept, since a sweep mostly stays on one."""
    key = canonical_json(plain(config)["dataset"])
    if key not in _last_dataset:
        dataset = catalogue.dataset(config.dataset.name).entry.factory(config.dataset)
        _last_dataset.clear()
        _last_dataset[key] = dataset
    return _last_dataset[key]


_last_dataset: dict[str, Dataset] = {}


def instance_of(config: RunConfig, dataset: Dataset) -> dict[str, object]:
    """Return what the optimum depends on."""
    values = plain(config)
    return {"data": dataset.sha256, "problem": values["problem"], "model": values["model"]}

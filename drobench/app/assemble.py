"""One run, in one direction: config, dataset, problem, reformulation, oracle, solver, task."""

from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from drobench.app.code import problem_code
from drobench.app.config import RunConfig
from drobench.app.optimum import Reference, find_optimum
from drobench.app.prepare import Prepared
from drobench.app.ranks import told_by_launcher
from drobench.app.stored_config import ScoredPart
from drobench.data.dataset import Dataset
from drobench.problem.problem import Problem
from drobench.reformulation.routes import Route, find_route
from drobench.registry import Catalogue, check_requirements
from drobench.registry.models import model_of
from drobench.registry.reformulations import reformulations_of
from drobench.training.task import Task, task_of
from drobench.training.trainer import device_of

DTYPES = {"float32": torch.float32, "float64": torch.float64}


@dataclass(frozen=True)
class Assembly:
    """A run, put together and ready to start."""

    dataset: Dataset
    problem: Problem
    route: Route
    reference: Reference
    task: Task


def assemble(prepared: Prepared, optima: Path, reference: Reference | None = None) -> Assembly:
    """Put a run together; `optima` is the cache of certified optima, `reference` an optimum that was found before."""
    config, catalogue = prepared.config, prepared.catalogue
    device = device_of(config.trainer, told_by_launcher("LOCAL_RANK", alone=0))
    dtype = DTYPES[config.trainer.dtype]

    loaded = prepared.usable_dataset()
    dataset = loaded.to(device, dtype)

    build_problem = catalogue.problem(config.problem.name).entry.factory
    model = model_of(config.model, catalogue)
    problem = build_problem(config.problem, dataset, model)

    solver = catalogue.solver(config.solver.name).entry
    route = find_route(problem.form, solver.accepts, config.reformulation, reformulations_of(catalogue))
    check_requirements(solver, route.form, [found.entry for found in catalogue.solvers.values()])

    if loaded.streamed:
        reference = Reference(None, "the rows stay in their file, and a reference solver needs them in memory")
    elif reference is None:
        exact_problem = build_problem(config.problem, loaded, model)
        reference = find_optimum(exact_problem, instance_of(config, loaded, catalogue), catalogue, optima)

    task = task_of(
        problem,
        route,
        solver.factory(config.solver),
        config.reformulation,
        config.budget,
        config.evaluation,
        seed=config.seed,
        optimum=None if reference.optimum is None else reference.optimum.value,
        device=device,
        dtype=dtype,
    )
    return Assembly(dataset, problem, route, reference, task)


def instance_of(config: RunConfig | ScoredPart, dataset: Dataset, catalogue: Catalogue) -> dict[str, object]:
    """Return what the optimum depends on: the code too, or an edited loss would be measured against an old optimum."""
    return {
        "data": dataset.sha256,
        "problem": asdict(config.problem),
        "model": asdict(config.model),
        "code": problem_code(config, catalogue),
    }

"""A task: what to solve, with what, how far, and how to look at it."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from drobench.objective.oracle import Oracle
from drobench.objective.oracles.build import build_oracle
from drobench.objective.sampling import Shard
from drobench.problem.problem import Problem
from drobench.reformulation.reformulation import ReformulationConfig
from drobench.reformulation.routes import Route
from drobench.solver.solver import Solver
from drobench.training.budget import BudgetConfig
from drobench.training.settings import EvaluationConfig

_STAGE_PASSES = 20.0


@dataclass(frozen=True)
class Task:
    """Everything a run needs, assembled: what to solve, with what, how far, and how to look at it."""

    problem: Problem
    solver: Solver[Any]
    build_oracles: Sequence[Callable[[Shard], Oracle]]
    """One per stage of the route; the solver starts each stage from the solution of the one before."""
    stage_passes: float
    """Passes spent in each stage but the last."""
    start: Tensor
    """In the solver's variables."""
    recover: Callable[[Tensor], Tensor]
    projects: bool
    """Whether `recover` projects, which counts once, at the end."""
    budget: BudgetConfig
    evaluation: EvaluationConfig
    optimum: float | None
    stage_seconds: float = math.inf
    """Solver seconds after which a stage is over as well."""
    stage_steps: float = math.inf
    """Steps after which it is over, too."""
    adapt_weight: bool = False
    """Whether the weight of a penalty for constraints follows the violation, from stage to stage."""
    stages_stall: bool = False
    """Whether a stage is over as soon as the solver says that it has stalled, the limits being the latest moment."""


def stage_limits(budget: BudgetConfig, stage_passes: float | None, stages: int) -> dict[str, float]:
    """Return where a stage ends: equal shares of the first limit the budget has, unless the passes are given."""
    if stage_passes is not None:
        return {"stage_passes": stage_passes}
    for name in ("passes", "seconds", "steps"):
        limit = getattr(budget, name)
        if limit is not None:
            return {"stage_passes": math.inf, f"stage_{name}": limit / stages}
    return {"stage_passes": _STAGE_PASSES}


def task_of(
    problem: Problem,
    route: Route,
    solver: Solver[Any],
    options: ReformulationConfig,
    budget: BudgetConfig,
    evaluation: EvaluationConfig,
    *,
    seed: int,
    optimum: float | None = None,
    device: torch.device | None = None,
    dtype: torch.dtype = torch.float64,
) -> Task:
    """Return the task of a solver at the end of its route from a problem; the seed is of start and sampling."""
    start = route.lift(problem.start(torch.Generator().manual_seed(seed)).to(device, dtype))
    return Task(
        problem=problem,
        solver=solver,
        build_oracles=[partial(build_oracle, form, seed, start) for form in route.stages],
        **stage_limits(budget, options.stage_passes, len(route.stages)),
        adapt_weight=options.adapt_alpha,
        stages_stall=options.stage_passes is None,
        start=start,
        recover=route.recover,
        projects=route.projects,
        budget=budget,
        evaluation=evaluation,
        optimum=optimum,
    )

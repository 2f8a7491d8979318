"""The optimal value of a problem instance, certified or not given at all.

A reference solver runs off the clock on the original problem. Its value is accepted only with a bound that is
recomputed here from the point it returned: for a `mu`-strongly convex objective and any subgradient `s` at `x`,
`value(x) - optimum <= |s|^2 / (2 mu)`. Accepted values are cached by content: a sweep solves each instance once.
"""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from drobench.objective.forms import Scored
from drobench.objective.oracle import build_oracle
from drobench.problem.problem import Problem
from drobench.reformulation.reformulation import ReformulationConfig
from drobench.reformulation.routes import NoRouteError, find_route
from drobench.registry import Catalogue, Registered, SolverEntry
from drobench.results.folders import write_atomically
from drobench.results.record import Optimum, run_id
from drobench.solver.communicator import SingleProcess

RELATIVE_TOLERANCE = 1e-6


@dataclass(frozen=True)
class Reference:
    """What is known of the optimum: a certified value, or the reason why there is none."""

    optimum: Optimum | None
    reason: str | None = None


def find_optimum(problem: Problem, instance: dict[str, Any], catalogue: Catalogue, cache: Path) -> Reference:
    """Return the certified optimum of `problem`, from the cache if this `instance` was solved before."""
    form = problem.form
    if not form.convex:
        return Reference(None, "the problem is not convex")
    solvers = [found for found in catalogue.solvers.values() if found.entry.exact]
    versions = [[found.distribution, found.version, found.entry.name] for found in solvers]
    file = cache / f"{run_id({'instance': instance, 'solvers': versions})}.json"
    if file.exists():
        return Reference(Optimum(**json.loads(file.read_text())))
    reasons = []
    for found in solvers:
        reference = _solve(form, problem.start(torch.Generator().manual_seed(0)), found)
        if reference.optimum is not None:
            content = {"value": reference.optimum.value, "method": reference.optimum.method}
            write_atomically(file, json.dumps({**content, "certificate": reference.optimum.certificate}))
            return reference
        reasons.append(f"{found.entry.name}: {reference.reason}")
    return Reference(None, "; ".join(reasons) or "no exact reference solver is installed")


def _solve(form: Scored, start: Tensor, found: Registered[SolverEntry]) -> Reference:
    try:
        route = find_route(form, found.entry.accepts, ReformulationConfig())
    except NoRouteError as error:
        return Reference(None, str(error))
    if any(step.relaxation for step in route.steps):
        return Reference(None, f"{found.entry.name} solves only a relaxation of this problem")
    solver = found.entry.factory(found.entry.config())
    first = route.lift(start)
    oracle, alone = build_oracle(route.form, 0, first), SingleProcess()
    with torch.no_grad():
        state = solver.step(solver.init(first, oracle, alone), oracle, alone)
        point = route.recover(solver.solution(state))
        value, bound = float(form.value(point)), gap_bound(form, point)
    scale = max(abs(value), 1e-12)
    if bound is None:
        return Reference(None, "the objective is not strongly convex (problem.l2=0), so no bound certifies a value")
    if not (math.isfinite(value) and bound <= RELATIVE_TOLERANCE * scale):
        return Reference(None, f"the best bound on the gap of {value:.9g} is {bound:.3g}, not small enough")
    certificate = {"kind": "strong convexity", "gap_bound": bound, "relative_tolerance": RELATIVE_TOLERANCE}
    return Reference(Optimum(value=value, method=found.entry.name, certificate=certificate))


def gap_bound(form: Scored, point: Tensor) -> float | None:
    """Return an upper bound on `value(point) - optimum`, or `None` where strong convexity does not give one."""
    strength = form.regularizer.strong_convexity
    if strength <= 0.0:
        return None
    subgradient = form.regularizer.least_subgradient(point, form.smooth_gradient(point))
    return float(subgradient.square().sum()) / (2.0 * strength)

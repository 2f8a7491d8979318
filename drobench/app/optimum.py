"""The optimal value of a problem instance, certified or not given at all.

A reference solver runs off the clock on the original problem. Its value is accepted only if the gap to a lower bound,
which is recomputed here from the point (and the adversary's reply or the multipliers) it returned, is small, and if
that point is feasible: the objective of an infeasible one may lie below the optimum. Accepted values are cached by
content: a sweep solves each instance once.
"""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from drobench.files import write_atomically
from drobench.objective.forms import Constrained, FiniteSum, NativeForm, RobustRisk
from drobench.objective.oracles.build import build_oracle
from drobench.problem.problem import Problem
from drobench.reformulation.certificates import lower_bound
from drobench.registry import Catalogue, Registered, SolverEntry
from drobench.results.parts import RELATIVE_TOLERANCE, certified_within
from drobench.results.record import Optimum, content_id
from drobench.solver.communicator import SingleProcess


@dataclass(frozen=True)
class Reference:
    """What is known of the optimum: a certified value, or the reason why there is none."""

    optimum: Optimum | None
    reason: str | None = None


def find_optimum(problem: Problem, instance: dict[str, Any], catalogue: Catalogue, cache: Path) -> Reference:
    """Return the certified optimum of `problem`, from the cache if this `instance` was solved before."""
    convex = convex_minorant(problem.form)
    if convex is None:
        return Reference(None, "the problem is not convex")
    if isinstance(convex, Constrained) and not convex.constraints.exact:
        return Reference(None, "the constraints are scored by rates, of which convex surrogates are only bounds")
    solvers = [found for found in catalogue.solvers.values() if found.entry.exact]
    versions = [[found.distribution, found.version, found.entry.name] for found in solvers]
    file = cache / f"{content_id({'instance': instance, 'solvers': versions})}.json"
    cached = _read(file)
    if cached is not None:
        return Reference(cached)
    reasons = []
    for found in solvers:
        reference = _solve(problem.form, convex, problem.start(torch.Generator().manual_seed(0)), found)
        if reference.optimum is not None:
            content = {name: getattr(reference.optimum, name) for name in ("value", "method", "certificate")}
            write_atomically(file, json.dumps({**content, "checksum": content_id(content)}))
            return reference
        reasons.append(f"{found.entry.name}: {reference.reason}")
    return Reference(None, "; ".join(reasons) or "no exact reference solver is installed")


def _read(file: Path) -> Optimum | None:
    """Return a cached optimum; a file that cannot be read, or was damaged, is as good as none and will be replaced."""
    try:
        content = json.loads(file.read_text())
        # Every gap is measured from this number, so that a single wrong digit in it would be in all results.
        if content.pop("checksum") != content_id(content):
            return None
        return Optimum(value=float(content["value"]), method=content["method"], certificate=content["certificate"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def convex_minorant(form: Any) -> NativeForm | None:
    """Return the form if it is convex, or a convex one that is never above it and may touch it at the optimum."""
    if isinstance(form, RobustRisk) and not form.convex and form.losses.convex:
        form = replace(form, ambiguity=form.ambiguity.minorant())
    return form if isinstance(form, NativeForm) and form.convex else None


def _solve(form: NativeForm, convex: NativeForm, start: Tensor, found: Registered[SolverEntry]) -> Reference:
    if not isinstance(convex, found.entry.accepts):
        return Reference(None, f"does not accept a {type(convex).__name__}")
    solver = found.entry.factory(found.entry.config())
    oracle, alone = build_oracle(convex, 0, start), SingleProcess()
    try:
        with torch.no_grad():
            state = solver.step(solver.init(start, oracle, alone), oracle, alone)
            point = solver.solution(state)
            # NativeForm on the original: where a minorant was solved, this is what shows whether the two touch.
            value = float(form.value(point))
            below = lower_bound(convex, point, getattr(state, "dual", None))
            violation = _largest_violation(form, point)
    except Exception as error:  # a reference that fails leaves the optimum unknown, not the run undone
        return Reference(None, f"{type(error).__name__}: {error}")
    if below is None:
        return Reference(None, f"no lower bound is known for a problem of this kind{_what_is_missing(convex)}")
    if not violation <= 0.0:
        return Reference(None, f"the point found violates a constraint by {violation:.3g}")
    gap = value - below
    if not gap <= certified_within(value):
        return Reference(None, f"the value {value:.9g} is certified only to {gap:.3g}")
    if -gap > certified_within(value):
        # Of a convex problem no bound is above a value.
        return Reference(
            None,
            f"the lower bound {below:.9g} is above the value {value:.9g}, so the problem is not as convex as it says, "
            "or a gradient or conjugate is wrong: hold the problem and its loss against `drobench check`",
        )
    certificate = {"kind": "duality gap", "lower_bound": below, "gap": gap, "relative_tolerance": RELATIVE_TOLERANCE}
    return Reference(Optimum(value=value, method=found.entry.name, certificate=certificate))


def _what_is_missing(convex: NativeForm) -> str:
    """Return what would make a bound known: a quadratic part, or for a form of a plugin one of its own."""
    if not isinstance(convex, RobustRisk | FiniteSum | Constrained):
        return f"; a {type(convex).__name__} can bring its own `lower_bound`"
    return " without problem.l2 > 0" if convex.regularizer.strong_convexity == 0.0 else ""


def _largest_violation(form: NativeForm, point: Tensor) -> float:
    """Return how far `point` is from satisfying the worst constraint, negative or zero where it does."""
    if not isinstance(form, Constrained):
        return 0.0
    values = [form.constraints.violations(point[None], slice(None))[0]]
    if form.constraints.cheap_count:
        values.append(form.constraints.cheap(point[None])[0][0])
    return float(torch.cat([*values, point.new_full((1,), -torch.inf)]).max())

"""What the one projection at the end costs against what it may cost."""

import math
from collections.abc import Callable, Iterable
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from benchmarks.studies.constrained_quadratic.instances import (
    build,
    curvature,
    excess,
    gap,
    largest_violation,
    run,
    smoothed,
    solver_of,
)
from drobench.reformulation.constraints import SmoothedConstraints

SEEDS = 5


class Corollary(NamedTuple):
    """Both sides of the three inequalities about a point and its projection."""

    violation: float
    violation_bound: float
    distance: float
    distance_bound: float
    gap: float
    gap_bound: float
    inside: bool
    """Whether the point is in the ball on which the objective's slope is known."""


def corollary(problem: Any, form: SmoothedConstraints, point: Tensor) -> Corollary:
    """Measure a point that was found on a smoothed penalty, and its projection."""
    total, steepest = float(problem.multipliers.sum()), problem.lipschitz / problem.rho
    off = excess(problem, form, point) + form.gamma * math.log(form.terms)
    nearest = problem.form.constraints.project(point)
    violation = max(0.0, largest_violation(problem, point))
    return Corollary(
        violation,
        off / (form.alpha - total),
        float((point - nearest).norm()),
        violation / problem.rho,
        gap(problem, nearest),
        off * max(1.0, (steepest - total) / (form.alpha - total)),
        float((point - problem.solution).norm()) <= problem.radius,
    )


def projection_table(small: bool = False) -> Iterable[str]:
    """Yield the table of what the last projection costs."""
    yield (
        "| alpha | gamma | M | active | violation | at most | distance to projection | at most | gap of projection "
        "| at most | worst ratios |"
    )
    yield "|---|---|---|---|---|---|---|---|---|---|---|"
    weights: dict[str, Callable[[Any], float]] = {
        "1.1 sum l": lambda problem: 1.1 * float(problem.multipliers.sum()),
        "2 sum l": lambda problem: 2.0 * float(problem.multipliers.sum()),
        "G / rho": lambda problem: problem.lipschitz / problem.rho,
    }
    sizes = product((0.1,), (20,), (1,)) if small else product((0.1, 0.01), (50, 800), (1, 5))
    for (name, weight), (gamma, constraints, active) in product(weights.items(), list(sizes)):
        found = [_projection_cell(weight, gamma, constraints, active, seed) for seed in range(1 if small else SEEDS)]
        assert all(one.inside for one in found), "the slope is known near the solution only"
        cells = " | ".join(f"{np.median(column):.2g}" for column in list(zip(*found, strict=True))[:6])
        yield f"| {name} | {gamma:g} | {constraints} | {active} | {cells} | {_worst(found)} |"


def _projection_cell(
    weight: Callable[[Any], float], gamma: float, constraints: int, active: int, seed: int
) -> Corollary:
    problem = build(250, constraints, active, seed)
    form = smoothed(problem, weight(problem), gamma)
    solver = solver_of("gcivr", step_size=1.0 / curvature(problem, form.alpha, gamma))
    point = next(point for point, oracle in run(problem, solver, form, seed) if oracle.passes >= 40.0)
    return corollary(problem, form, point)


def _worst(found: list[Corollary]) -> str:
    """Return the largest share of its bound that each of the three measured values took; zero is no share of zero."""
    shares = []
    for part in (0, 2, 4):
        pairs = [(one[part], one[part + 1]) for one in found]
        shares.append(max(0.0 if measured <= 1e-9 else measured / bound for measured, bound in pairs))
    return ", ".join(f"{share:.2g}" for share in shares)

"""How the cost of an accuracy grows with the number of constraints, and with the accuracy."""

from collections.abc import Iterable
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from benchmarks.studies.constrained_quadratic.instances import (
    CONDITION,
    build,
    curvature,
    gap,
    run,
    smoothed,
    solver_of,
)

# A gap of about a hundredth of that of the projected start, with the width that costs a good third of it.
TARGET, WIDTH = 0.02, 0.01
SOLVERS = ("gcivr", "fulltouch", "projected_sgd")
SEEDS = 5
# Looks at a run come at costs that grow by this factor; so many in a row have to be good.
_GROWTH, _SETTLED = 1.1, 5
_MOST_PASSES = 300.0


class Cost(NamedTuple):
    """What a run had asked for when its projected point was within the target to stay."""

    samples: int
    checks: int
    projections: int


def cost(problem: Any, solver: Any, form: Any, seed: int, target: float) -> Cost | None:
    """Return what it cost to come within the target and stay there for the next looks; `None`: too much."""
    due, reached, settled = 0.0, None, 0
    for point, oracle in run(problem, solver, form, seed):
        if oracle.passes < due:
            continue
        due = oracle.passes * _GROWTH
        settled = settled + 1 if gap(problem, problem.form.constraints.project(point)) <= target else 0
        if settled == 1:
            counters = oracle.counters
            # The projection at the end is one more than those on the way.
            reached = Cost(counters.sample_calls, counters.constraint_checks, counters.projections + 1)
        if settled == _SETTLED:
            return reached
        if oracle.passes > _MOST_PASSES:
            return None
    raise AssertionError("a run has no end of its own")


def sampling_table(small: bool = False) -> Iterable[str]:
    """Yield the table of what an accuracy costs."""
    yield (
        "| m | M | solver | sample calls | passes over the data | constraint checks | passes over the constraints "
        "| projections | reached |"
    )
    yield "|---|---|---|---|---|---|---|---|---|"
    sizes = product((50,), (20,)) if small else product((250, 1000, 4000), (50, 200, 800, 3200))
    for rows, constraints in sizes:
        problems = [build(rows, constraints, 5, seed) for seed in range(1 if small else SEEDS)]
        for name in SOLVERS:
            yield f"| {rows} | {constraints} | {name} {_costs(name, problems, TARGET, WIDTH)}"


def accuracy_table(small: bool = False) -> Iterable[str]:
    """Yield the table of what higher accuracies cost, with widths that shrink along."""
    yield (
        "| gap | gamma | solver | sample calls | passes over the data | constraint checks "
        "| passes over the constraints | projections | reached |"
    )
    yield "|---|---|---|---|---|---|---|---|---|"
    problems = [build(50, 20, 5, 0)] if small else [build(1000, 800, 5, seed) for seed in range(SEEDS)]
    for factor in (2.0,) if small else (2.0, 1.0, 0.5, 0.25):
        for name in SOLVERS:
            width = f"{factor * WIDTH:g}" if name == "gcivr" else "none"
            costs = _costs(name, problems, factor * TARGET, factor * WIDTH)
            yield f"| {factor * TARGET:g} | {width} | {name} {costs}"


def _costs(name: str, problems: list[Any], target: float, width: float) -> str:
    """Return the cells of one solver: medians and ranges over the instances on which it came within the target."""
    found = [_sampling_cell(name, problem, seed, target, width) for seed, problem in enumerate(problems)]
    reached = [one for one in found if one is not None]
    samples, checks, projections = ([one[part] for one in reached] for part in range(3))
    form = problems[0].form
    return (
        f"| {_spread(samples)} | {_spread(samples, form.samples)} | {_spread(checks)} "
        f"| {_spread(checks, form.constraints.count)} | {_spread(projections)} | {len(reached)} of {len(found)} |"
    )


def _sampling_cell(name: str, problem: Any, seed: int, target: float, width: float) -> Cost | None:
    alpha = problem.form.penalty
    if name == "gcivr":
        solver = solver_of(name, step_size=1.0 / curvature(problem, alpha, width))
        return cost(problem, solver, smoothed(problem, alpha, width), seed, target)
    # The published steps for strong convexity, 2 / (mu (k + 1)), from the k on at which they are at most 1 / L.
    solver = solver_of(name, step_size=1.0 / problem.smoothness, delay=round(2 * CONDITION), batch=32)
    return cost(problem, solver, problem.form, seed, target)


def _spread(numbers: list[int], unit: int = 1) -> str:
    """Return the median, and the range in brackets."""
    if not numbers:
        return "never"
    if max(numbers) == min(numbers):
        return f"{numbers[0] / unit:.3g}"
    middle, low, high = (_short(float(number) / unit) for number in (np.median(numbers), min(numbers), max(numbers)))
    return f"{middle} ({low} to {high})"


def _short(number: float) -> str:
    return f"{number:.3g}" if number < 1000.0 else f"{number:,.0f}"

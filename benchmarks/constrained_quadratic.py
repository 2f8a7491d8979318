"""What theory says of many constraints, measured on the problem of which everything is known.

    python -m benchmarks.constrained_quadratic [projection | penalty | sampling | accuracy]

prints the tables of docs/constrained-quadratic.md, or one of them: what the one projection at the end costs against
what it may cost, what weight makes the penalty exact, and how the cost of an accuracy grows with the number of
constraints. Everything is seeded, and costs are counted, not timed.
"""

import argparse
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from drobench.objective.composite import Composite
from drobench.objective.oracle import Oracle
from drobench.objective.oracles.build import build_oracle
from drobench.objective.predictor import ModelConfig
from drobench.reformulation.constraints import SmoothedConstraints
from drobench.reformulation.reformulation import ReformulationConfig
from drobench.reformulation.routes import find_route
from drobench.registry import load_catalogue
from drobench.solver import SingleProcess

FEATURES, CONDITION = 10, 10.0
WIDTHS = (0.1, 0.03, 0.01, 0.003, 0.001)
# A gap of about a hundredth of that of the projected start, with the width that costs a good third of it.
TARGET, WIDTH = 0.02, 0.01
SEEDS = 5
# Looks at a run come at costs that grow by this factor; so many in a row have to be good.
_GROWTH, _SETTLED = 1.1, 5
_MOST_PASSES = 300.0


def build(rows: int, constraints: int, active: int, seed: int) -> Any:
    """Return an instance on which the projection of the unconstrained minimiser is not the answer."""
    data, problem = load_catalogue().dataset("synthetic").entry, load_catalogue().problem("constrained_quadratic").entry
    dataset = data.factory(data.config(rows=rows, features=FEATURES, seed=seed))
    config = problem.config(constraints=constraints, active=active, condition=CONDITION)
    return problem.factory(config, dataset, ModelConfig(intercept=False))


def smoothed(problem: Any, alpha: float, gamma: float) -> SmoothedConstraints:
    """Return the smoothed penalty; nothing is projected."""
    options = ReformulationConfig(alpha=alpha, gamma=gamma, projection="none")
    form = find_route(problem.form, (Composite,), options).form
    assert isinstance(form, SmoothedConstraints)
    return form


def curvature(problem: Any, alpha: float, gamma: float) -> float:
    """Return `L` for steps `1 / L`: the objective's, and that of a penalty that is half on, `alpha^2 / (4 gamma)`."""
    return float(problem.smoothness + alpha**2 / (4.0 * gamma))


def largest_violation(problem: Any, point: Tensor) -> float:
    """Return `max_k c_k`, negative inside."""
    return float(problem.form.constraints.violations(point[None], slice(None)).max())


def gap(problem: Any, point: Tensor) -> float:
    """Return the objective less the optimum."""
    return float(problem.form.value(point)) - float(problem.optimal_value)


def minimiser(problem: Any, form: SmoothedConstraints) -> Tensor:
    """Return the minimiser of a smoothed penalty by Newton's method with halved steps."""
    point, constraints = problem.solution, problem.form.constraints
    for _ in range(200):
        gradient = form.smooth_gradient(point)
        violations = constraints.violations(point[None], slice(None))[0]
        exponents = form.alpha / form.gamma * torch.cat([violations, violations.new_zeros(1)])
        weights = torch.softmax(exponents, dim=0)[:-1]
        mean = weights @ constraints.normals
        spread = (constraints.normals * weights[:, None]).T @ constraints.normals - torch.outer(mean, mean)
        hessian = torch.diag(problem.form.objective.losses.curvatures) + form.alpha**2 / form.gamma * spread
        direction = torch.linalg.solve(hessian, gradient)
        slope, size = float(gradient @ direction), 1.0
        while size > 1e-10 and float(form.value(point - size * direction) - form.value(point)) > -1e-4 * size * slope:
            size *= 0.5
        if slope < 1e-20 or size <= 1e-10:
            return point
        point = point - size * direction
    return point


def excess(problem: Any, form: SmoothedConstraints, point: Tensor) -> float:
    """Return a number that `Psi(x) - min Psi` is not above, by strong convexity at what Newton's method found."""
    lowest = minimiser(problem, form)
    short = float(form.smooth_gradient(lowest).square().sum()) / (2.0 * problem.curvature)
    return float(form.value(point) - form.value(lowest)) + short


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


def run(problem: Any, solver: Any, form: Any, seed: int) -> Iterator[tuple[Tensor, Oracle]]:
    """Yield the solution and the oracle that counts, after every step."""
    start = problem.start(torch.Generator().manual_seed(seed))
    oracle, alone = build_oracle(form, seed, start), SingleProcess()
    state = solver.init(start, oracle, alone)
    while True:
        state = solver.step(state, oracle, alone)
        yield solver.solution(state), oracle


def solver_of(name: str, **settings: Any) -> Any:
    """Return a solver of the catalogue."""
    entry = load_catalogue().solver(name).entry
    return entry.factory(entry.config(**settings))


def projection_table() -> Iterable[str]:
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
    for name, weight in weights.items():
        for gamma in (0.1, 0.01):
            for constraints in (50, 800):
                for active in (1, 5):
                    found = [_projection_cell(weight, gamma, constraints, active, seed) for seed in range(SEEDS)]
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


def penalty_table() -> Iterable[str]:
    """Yield the table of what weight makes the penalty exact."""
    yield (
        "| alpha / sum l | gamma | largest c_k | predicted | objective less optimum | predicted "
        "| the same after projection |"
    )
    yield "|---|---|---|---|---|---|---|"
    problem = build(250, 200, 5, 0)
    total = float(problem.multipliers.sum())
    for ratio in (0.5, 0.9, 1.1, 2.0, problem.lipschitz / problem.rho / total):
        for gamma in WIDTHS:
            point = minimiser(problem, smoothed(problem, ratio * total, gamma))
            violation, low = predicted(problem, ratio * total, gamma)
            nearest = problem.form.constraints.project(point)
            name = f"{ratio:.3g}" if ratio <= 2.0 else f"{ratio:.3g} (G / rho)"
            yield (
                f"| {name} | {gamma:g} | {largest_violation(problem, point):+.2g} | {violation} "
                f"| {gap(problem, point):+.2g} | {low} | {gap(problem, nearest):.2g} |"
            )


def predicted(problem: Any, alpha: float, gamma: float) -> tuple[str, str]:
    """Return largest violation and gap at a smoothed minimiser to first order, which exist above the sum alone."""
    multipliers = problem.multipliers[problem.multipliers > 0]
    room = alpha - float(multipliers.sum())
    if room <= 0.0:
        return "none", "none"
    levels = gamma / alpha * torch.log(multipliers / room)
    return f"{float(levels.max()):+.2g}", f"{-float(multipliers @ levels):+.2g}"


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


def sampling_table() -> Iterable[str]:
    """Yield the table of what an accuracy costs."""
    yield (
        "| m | M | solver | sample calls | passes over the data | constraint checks | passes over the constraints "
        "| projections | reached |"
    )
    yield "|---|---|---|---|---|---|---|---|---|"
    for rows in (250, 1000, 4000):
        for constraints in (50, 200, 800, 3200):
            problems = [build(rows, constraints, 5, seed) for seed in range(SEEDS)]
            for name in ("gcivr", "fulltouch", "projected_sgd"):
                yield f"| {rows} | {constraints} | {name} {_costs(name, problems, TARGET, WIDTH)}"


def accuracy_table() -> Iterable[str]:
    """Yield the table of what higher accuracies cost, with widths that shrink along."""
    yield (
        "| gap | gamma | solver | sample calls | passes over the data | constraint checks "
        "| passes over the constraints | projections | reached |"
    )
    yield "|---|---|---|---|---|---|---|---|---|"
    problems = [build(1000, 800, 5, seed) for seed in range(SEEDS)]
    for factor in (2.0, 1.0, 0.5, 0.25):
        for name in ("gcivr", "fulltouch", "projected_sgd"):
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


TABLES = {
    "projection": projection_table,
    "penalty": penalty_table,
    "sampling": sampling_table,
    "accuracy": accuracy_table,
}


def main() -> None:
    """Print the tables asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", nargs="?", choices=sorted(TABLES))
    wanted = parser.parse_args().table
    # Sums in another order round differently.
    torch.set_num_threads(1)
    with torch.no_grad():
        for name, table in TABLES.items():
            if wanted in (None, name):
                for line in table():
                    print(line, flush=True)
                print()


if __name__ == "__main__":
    main()

"""Instances of the constrained quadratic, their smoothed penalties, and what is known of both."""

from collections.abc import Iterator
from typing import Any

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

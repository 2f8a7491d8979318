"""What weight makes the penalty exact."""

from collections.abc import Iterable
from typing import Any

import torch

from benchmarks.studies.constrained_quadratic.instances import build, gap, largest_violation, minimiser, smoothed

WIDTHS = (0.1, 0.03, 0.01, 0.003, 0.001)


def penalty_table(small: bool = False) -> Iterable[str]:
    """Yield the table of what weight makes the penalty exact."""
    yield (
        "| alpha / sum l | gamma | largest c_k | predicted | objective less optimum | predicted "
        "| the same after projection |"
    )
    yield "|---|---|---|---|---|---|---|"
    problem = build(50, 20, 2, 0) if small else build(250, 200, 5, 0)
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

"""Constraints on groups: all groups in one product against a loop over groups; a step of GCIVR against a plain step.

On the synthetic twins, which have the sizes of the real data: about 800 threshold groups of Communities and Crime, and
300 constraints on noisy groups of Adult.

    all groups    surrogate violations of every constraint and their Jacobian times a vector of multipliers
    a loop        the same, one group after the other: its members, their mean loss, the gradient of it
    a step        GCIVR with 10 sampled constraints, objective and rates on all rows, at two points
    a plain step  Adagrad on the mean loss of all rows
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from benchmarks.speed.side_by_side import Comparison, least, print_comparisons, repeats, timed
from drobench.objective.composite import Composite
from drobench.objective.forms import FiniteSum
from drobench.objective.oracles.build import build_oracle
from drobench.objective.predictor import ModelConfig
from drobench.objective.rate_constraints import RateConstraints
from drobench.reformulation.reformulation import ReformulationConfig
from drobench.reformulation.routes import find_route
from drobench.registry import load_catalogue
from drobench.solver import SingleProcess, Solver
from drobench_plugins.solvers.gcivr import Gcivr
from drobench_plugins.solvers.pieces.gcivr_config import GcivrConfig
from drobench_plugins.solvers.unconstrained import Unconstrained, UnconstrainedConfig

LEAST_SPEEDUP = 50.0
LARGEST_STEP = 3.0
SAMPLED = 10
STEPS, SMALL_STEPS = 100, 5
SMALL_ROWS = 400


def measure(small: bool = False) -> list[Comparison]:
    """Return the ratios; the first is that of the vectorised evaluation to the loop, so that small is good."""
    communities = _problem("intersectional_fairness", "communities_twin", small)
    adult = _problem("noisy_group_fairness", "adult_twin", small)
    with torch.no_grad():
        return [
            _all_groups(communities, small),
            _step("GCIVR step / plain step, Communities", communities, small),
            _step("GCIVR step / plain step, Adult", adult, small),
        ]


def _problem(name: str, dataset: str, small: bool) -> Any:
    catalogue = load_catalogue()
    data, problem = catalogue.dataset(dataset).entry, catalogue.problem(name).entry
    config = data.config(rows=SMALL_ROWS) if small else data.config()
    return problem.factory(problem.config(), data.factory(config), ModelConfig())


def _all_groups(problem: Any, small: bool) -> Comparison:
    constraints = problem.form.constraints
    assert isinstance(constraints, RateConstraints)
    point = 0.1 * torch.randn(constraints.dimension, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    multipliers = torch.full((constraints.count,), 1.0 / constraints.count, dtype=torch.float64)

    def together() -> tuple[Tensor, Tensor]:
        values, pullback = constraints.surrogates(point[None], slice(None))
        return values[0], pullback(multipliers[None, None])[0, 0]

    loop = _loop(constraints, point, multipliers)
    for ours, theirs in zip(together(), loop(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12)
    seconds = least([timed("together", together, times=10), timed("loop", loop)], repeats(small))
    what = f"all {constraints.count} groups at once / a loop over groups"
    return Comparison(what, seconds["together"], seconds["loop"], 1.0 / LEAST_SPEEDUP)


def _loop(constraints: RateConstraints, point: Tensor, multipliers: Tensor) -> Callable[[], tuple[Tensor, Tensor]]:
    rows = constraints.margins.signed_rows  # type: ignore[attr-defined]
    assert constraints.which is not None
    members = [torch.nonzero(constraints.members[group])[:, 0] for group in constraints.which.tolist()]

    def loop() -> tuple[Tensor, Tensor]:
        losses, slopes = constraints.surrogate.upper(rows @ point)
        overall, overall_gradient = losses.mean(), slopes @ rows / rows.shape[0]
        values, total = [], torch.zeros_like(point)
        for inside, multiplier in zip(members, multipliers, strict=True):
            values.append(losses[inside].mean() - overall - constraints.epsilon)
            gradient = slopes[inside] @ rows[inside] / inside.numel() - overall_gradient
            total = total + multiplier * gradient
        return torch.stack(values), total

    return loop


def _step(what: str, problem: Any, small: bool) -> Comparison:
    start, steps = problem.start(torch.Generator().manual_seed(0)), SMALL_STEPS if small else STEPS
    config = GcivrConfig(step_size=1e-3, whole_samples=True, constraint_batch=SAMPLED, epoch_length=10**9)
    ours = _steps(Gcivr(config), problem, Composite, start, steps)
    plain = _steps(Unconstrained(UnconstrainedConfig()), problem, FiniteSum, start, steps)
    seconds = least([timed("ours", ours), timed("plain", plain)], repeats(small))
    return Comparison(what, seconds["ours"] / steps, seconds["plain"] / steps, LARGEST_STEP)


def _steps(solver: Solver[Any], problem: Any, kind: type, start: Tensor, steps: int) -> Callable[[], None]:
    alone = SingleProcess()
    oracle: Any = build_oracle(find_route(problem.form, (kind,), ReformulationConfig(gamma=0.1)).form, 0, start)
    # The first step of GCIVR is a refresh on everything, which is not what is measured here.
    begun = solver.step(solver.init(start, oracle, alone), oracle, alone)

    def run() -> None:
        state = begun
        for _ in range(steps):
            state = solver.step(state, oracle, alone)

    return run


def main() -> None:
    """Measure and print."""
    print_comparisons(__doc__, measure)


if __name__ == "__main__":
    main()

"""Reference solver for convex problems: the whole original problem at once, to machine accuracy.

Smooth problems go to L-BFGS-B on the exact objective, where an l1 part is split into `x = u - v` with `u, v >= 0`.
Problems with kinks (CVaR, the worst group, balls that reach the worst case, Wasserstein) go to a conic interior-point
method, or where that would be too large to L-BFGS on smoothed objectives. One step of this solver is a whole solve. The
state also carries the adversary's reply where the point alone does not determine it; whoever uses the value recomputes
a bound from both.

References: Byrd, Lu, Nocedal, Zhu (1995) for L-BFGS-B; Goulart and Chen (2024) for Clarabel; Diamond and Boyd (2016)
for cvxpy; Tseng and Bertsekas (1993) for the method of multipliers.
"""

from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from drobench.objective.ambiguity_sets import Chi2Ball, KLBall
from drobench.objective.divergence_prices import DivergencePrice
from drobench.objective.group_adversary import GroupAdversary
from drobench.objective.power_divergences import CressieReadBall
from drobench.objective.tail_risks import SpectralRisk
from drobench.objective.wasserstein import WassersteinRisk
from drobench.objective.wasserstein_regression import WassersteinRegressionRisk
from drobench.registry import SolverEntry
from drobench.solver import Communicator, FiniteSum, ReferenceOracle, RobustRisk, Solver
from drobench_plugins.solvers.pieces.exact.accuracy import Accuracy
from drobench_plugins.solvers.pieces.exact.ball import at_kink, solve_ball
from drobench_plugins.solvers.pieces.exact.conic import MOST_CONIC_SAMPLES, has_cones, has_kinks
from drobench_plugins.solvers.pieces.exact.kinked import solve_kinked
from drobench_plugins.solvers.pieces.exact.smooth import WARM_ITERATIONS, solve_smooth
from drobench_plugins.solvers.pieces.exact.tail import (
    solve_mixture_smoothly,
    solve_price_smoothly,
    solve_tail,
    solve_tail_smoothly,
    tail_level,
)
from drobench_plugins.solvers.pieces.exact.transport import solve_regression_transport, solve_transport
from drobench_plugins.solvers.pieces.exact.worst_group import solve_worst_group, solve_worst_group_smoothly
from drobench_plugins.solvers.pieces.exact.written import solve_written


@dataclass
class ExactConvexConfig(Accuracy):
    """Accuracy of the reference."""


@dataclass(frozen=True)
class ExactConvexState:
    """The solution, once there is one, and the adversary's reply."""

    point: Tensor
    dual: Tensor | None
    solved: bool


class ExactConvex(Solver[ExactConvexState]):
    """See the module's text."""

    def __init__(self, config: ExactConvexConfig) -> None:
        self.config = config

    def init(self, start: Tensor, oracle: ReferenceOracle, communicator: Communicator) -> ExactConvexState:
        return ExactConvexState(start, None, solved=False)

    def step(self, state: ExactConvexState, oracle: ReferenceOracle, communicator: Communicator) -> ExactConvexState:
        if state.solved:
            return state
        point, dual = self._solve(oracle.materialise(), state.point)
        return ExactConvexState(point, dual, solved=True)

    def solution(self, state: ExactConvexState) -> Tensor:
        return state.point

    def ended(self, state: ExactConvexState) -> bool:
        return state.solved

    def _solve(self, form: Any, start: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return the solution and, where the point alone does not determine it, the adversary's reply."""
        accuracy = self.config
        if isinstance(form, WassersteinRisk):
            return solve_transport(form, accuracy)
        if isinstance(form, WassersteinRegressionRisk):
            return solve_regression_transport(form, accuracy)
        found = _solve_kinked_adversary(form, start, accuracy) if isinstance(form, RobustRisk) else None
        if found is not None:
            return found
        if has_kinks(form.losses):
            if isinstance(form, RobustRisk) and isinstance(form.ambiguity, KLBall | Chi2Ball | CressieReadBall):
                return solve_ball(form, accuracy)
            return solve_kinked(form, accuracy), None
        # Where all losses are equal, as at the origin, a ball has a kink: start from plain training instead.
        plain = FiniteSum(form.losses, form.regularizer)
        first = solve_smooth(plain, start, replace(accuracy, iterations=WARM_ITERATIONS))
        point = solve_smooth(form, first, accuracy)
        if isinstance(form, RobustRisk) and at_kink(form, point):
            return solve_ball(form, accuracy)
        return point, None


def _solve_kinked_adversary(form: RobustRisk, start: Tensor, accuracy: Accuracy) -> tuple[Tensor, Tensor] | None:
    """Return solution and reply where the adversary has kinks wherever the losses are; `None` for all others."""
    few, ambiguity = form.losses.samples <= MOST_CONIC_SAMPLES and has_cones(form.losses), form.ambiguity
    level = tail_level(ambiguity, form.losses.samples)
    if level is not None:
        return (solve_tail if few else solve_tail_smoothly)(form, level, accuracy)
    if isinstance(ambiguity, SpectralRisk):
        if few:
            return solve_written(form, accuracy)
        return solve_mixture_smoothly(form, ambiguity.parts(form.losses.samples), accuracy)
    if isinstance(ambiguity, DivergencePrice) and ambiguity.slopes == "jump":
        if has_kinks(form.losses):
            return solve_written(form, accuracy)
        return solve_price_smoothly(form, ambiguity, accuracy)
    if isinstance(ambiguity, GroupAdversary) and ambiguity.worst_only:
        if few:
            return solve_worst_group(form, ambiguity, accuracy)
        return solve_worst_group_smoothly(form, ambiguity, start, accuracy)
    return None


def entry() -> SolverEntry:
    """Return the catalogue entry."""
    return SolverEntry(
        name="exact_convex",
        summary="Reference: L-BFGS or a conic solver on the whole convex problem, to machine accuracy.",
        reference="Byrd, Lu, Nocedal, Zhu (1995); Goulart, Chen (2024); Diamond, Boyd (2016)",
        config=ExactConvexConfig,
        factory=ExactConvex,
        accepts=(RobustRisk, WassersteinRisk, WassersteinRegressionRisk, FiniteSum),
        exact=True,
        goal_gap=1e-9,
        one_process="it hands the whole problem to a library, and every process would compute the same",
    )

"""`ball_reference`: the exact optimum of a smooth convex risk over a ball.

With a multiplier `k >= 0` for the ball, x(k) = argmin of risk(x) + ((l2 + k) / 2) |x|^2 has a norm that falls with k.
Either x(0) is in the ball, or k is the root of |x(k)| = radius. Each x(k) is found by L-BFGS, the root by Brent's
method. drobench does not trust the result: it recomputes a lower bound from the point.

State: the point and whether it is solved. Cost of the one step: a look at the whole problem.
References: Byrd, Lu, Nocedal, Zhu (1995); Brent (1973).
"""

from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import brentq, minimize
from torch import Tensor

from drobench import SolverEntry
from drobench.solver import Communicator, DrobenchError, ReferenceOracle, RobustRisk, Solver, require_positive
from norm_ball_learning.ball import RidgeOnBall


@dataclass
class BallReferenceConfig:
    """Accuracy of the reference."""

    tolerance: float = 1e-11
    """Largest gradient component at which L-BFGS may stop."""

    def __post_init__(self) -> None:
        require_positive(self, "tolerance")


@dataclass(frozen=True)
class BallReferenceState:
    """The point, before and after the one step."""

    point: Tensor
    solved: bool


class BallReference(Solver[BallReferenceState]):
    """See the module's text."""

    def __init__(self, config: BallReferenceConfig) -> None:
        self.config = config

    def init(self, start: Tensor, oracle: ReferenceOracle, communicator: Communicator) -> BallReferenceState:
        regularizer = oracle.materialise().regularizer
        if not isinstance(regularizer, RidgeOnBall):
            raise DrobenchError(f"ball_reference solves problems over a ball; found a {type(regularizer).__name__}.")
        return BallReferenceState(start, solved=False)

    def step(
        self, state: BallReferenceState, oracle: ReferenceOracle, communicator: Communicator
    ) -> BallReferenceState:
        if state.solved:
            return state
        return BallReferenceState(_solve(oracle.materialise(), state.point, self.config.tolerance), solved=True)

    def solution(self, state: BallReferenceState) -> Tensor:
        return state.point


def _solve(form: RobustRisk, start: Tensor, tolerance: float) -> Tensor:
    ball = form.regularizer
    assert isinstance(ball, RidgeOnBall)
    last = start.to(torch.float64).cpu().numpy()

    def minimiser(multiplier: float) -> np.ndarray:
        nonlocal last

        def penalised(variables: np.ndarray) -> tuple[float, np.ndarray]:
            point = torch.from_numpy(variables).to(start)
            risk = form.ambiguity.worst_case(form.losses.values(point))
            value = float(risk) + 0.5 * (ball.l2 + multiplier) * float(point.dot(point))
            gradient = form.smooth_gradient(point) + (ball.l2 + multiplier) * point
            return value, gradient.to(torch.float64).cpu().numpy()

        options = {"gtol": tolerance, "ftol": 0.0, "maxiter": 20_000, "maxfun": 200_000}
        last = minimize(penalised, last, jac=True, method="L-BFGS-B", options=options).x
        return last

    solution = minimiser(0.0)
    if np.linalg.norm(solution) > ball.radius:
        origin = form.losses.origin()
        # By strong convexity |x(k)| <= |gradient at 0| / (l2 + k), which is inside the ball for this k.
        largest = float(form.smooth_gradient(origin).norm()) / ball.radius
        multiplier = brentq(lambda k: float(np.linalg.norm(minimiser(k))) - ball.radius, 0.0, largest, xtol=1e-14)
        solution = minimiser(multiplier)
        solution = solution * (ball.radius / np.linalg.norm(solution))
    return torch.from_numpy(solution).to(start)


def entry() -> SolverEntry:
    """Return the catalogue entry."""
    return SolverEntry(
        name="ball_reference",
        summary="Reference: the exact optimum of a smooth convex risk over a ball.",
        reference="Byrd, Lu, Nocedal, Zhu (1995); Brent (1973)",
        config=BallReferenceConfig,
        factory=BallReference,
        accepts=(RobustRisk,),
        exact=True,
        one_process="it hands the whole problem to a library, and every process would compute the same",
    )

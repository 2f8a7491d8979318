"""Reference solver for convex problems: the whole problem at once, to machine accuracy.

L-BFGS-B on the full objective (a limited-memory quasi-Newton method). An l1 part is split into `x = u - v` with
`u, v >= 0`, which makes it smooth. One step of this solver is a whole solve; it reads the problem through
`oracle.materialise()` and is meant to run off the clock. The value is believed only with a bound that the caller
recomputes from the returned point.

Reference: Byrd, Lu, Nocedal, Zhu, "A limited memory algorithm for bound constrained optimization" (1995).
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from drobench.errors import DrobenchError, require_positive
from drobench.objective.composite import Composite
from drobench.objective.forms import FiniteSum
from drobench.objective.regularizers import ElasticNet, Zero
from drobench.registry import SolverEntry
from drobench.solver import Communicator, Solver


@dataclass
class ExactConvexConfig:
    """Accuracy of the reference."""

    tolerance: float = 1e-12
    """Largest gradient component at which L-BFGS may stop."""
    iterations: int = 20000

    def __post_init__(self) -> None:
        require_positive(self, "tolerance", "iterations")


@dataclass(frozen=True)
class ExactConvexState:
    """The solution, once there is one."""

    point: Tensor
    solved: bool


class ExactConvex(Solver[ExactConvexState]):
    """See the module's text."""

    def __init__(self, config: ExactConvexConfig) -> None:
        self.config = config

    def init(self, start: Tensor, oracle: Any, communicator: Communicator) -> ExactConvexState:
        return ExactConvexState(start, solved=False)

    def step(self, state: ExactConvexState, oracle: Any, communicator: Communicator) -> ExactConvexState:
        form = oracle.materialise()
        if not isinstance(form.regularizer, ElasticNet | Zero):
            raise DrobenchError(f"exact_convex knows no {type(form.regularizer).__name__}; it needs l1 and l2 parts.")
        return replace(state, point=_minimise(form, state.point, self.config), solved=True)

    def solution(self, state: ExactConvexState) -> Tensor:
        return state.point


def _minimise(form: Composite | FiniteSum, start: Tensor, config: ExactConvexConfig) -> Tensor:
    from scipy.optimize import minimize  # noqa: PLC0415  # a third of a second that no other solver needs

    l1 = getattr(form.regularizer, "l1", 0.0)
    l2 = getattr(form.regularizer, "l2", 0.0)

    def smooth(point: Tensor) -> tuple[float, np.ndarray]:
        value = form.value(point) - l1 * point.abs().sum()
        gradient = form.smooth_gradient(point) + l2 * point
        return float(value), gradient.to(torch.float64).cpu().numpy()

    def whole(variables: np.ndarray) -> tuple[float, np.ndarray]:
        return smooth(torch.from_numpy(variables).to(start))

    def split(variables: np.ndarray) -> tuple[float, np.ndarray]:
        positive, negative = np.split(variables, 2)
        value, gradient = whole(positive - negative)
        return value + l1 * float(variables.sum()), np.concatenate([gradient, -gradient]) + l1

    first = start.to(torch.float64).cpu().numpy()
    options = {"gtol": config.tolerance, "ftol": 0.0, "maxiter": config.iterations, "maxfun": 10 * config.iterations}
    if l1 == 0.0:
        solution = minimize(whole, first, jac=True, method="L-BFGS-B", options=options).x
    else:
        variables = np.concatenate([first.clip(min=0.0), (-first).clip(min=0.0)])
        bounds = [(0.0, None)] * variables.size
        found = minimize(split, variables, jac=True, method="L-BFGS-B", bounds=bounds, options=options).x
        positive, negative = np.split(found, 2)
        solution = positive - negative
    return torch.from_numpy(solution).to(start)


def entry() -> SolverEntry:
    """Return the catalogue entry."""
    return SolverEntry(
        name="exact_convex",
        summary="Reference: L-BFGS on the whole convex problem, to machine accuracy.",
        reference="Byrd, Lu, Nocedal, Zhu (SIAM J. Scientific Computing 1995)",
        config=ExactConvexConfig,
        factory=ExactConvex,
        accepts=(Composite, FiniteSum),
        exact=True,
    )

"""Newton's method, damped, on the exact objective.

    z = argmin  <Phi'(x), z - x> + (z - x)^T H (z - x) / 2 + r(z),      H = Phi''(x), made positive where it is not
    x <- x + t (z - x),     t = 1, or shorter until the objective falls enough (Armijo's rule)

`H` is a matrix up to `largest_matrix` variables: one weighted Gram matrix of the data, in the same sweep as value and
gradient. Beyond, and for models that have products with vectors only, the step is found by conjugate gradients, each
product a sweep of its own. An l1 part, a bound or a cone enters through its proximal map, in a problem without data
(`drobench.solver.metric_prox`).

State: the last accepted point with what was measured there, and the factor of the metric (d^2 numbers). Cost of a step:
m oracle calls for each trial, and with conjugate gradients m for each product. The method ends where no step goes down.

References: Nocedal, Wright, "Numerical Optimization" (2006), sections 3.3, 3.4 and 7.1; Lee, Sun, Saunders, "Proximal
Newton-type methods for minimizing composite functions" (SIAM Journal on Optimization, 2014).
Deviations: of negative eigenvalues the size is taken, so that the step is one of descent where the objective is not
convex; a dual variable is set to its best value wherever the objective is measured.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from drobench.registry import SolverEntry
from drobench.solver import (
    Capability,
    Communicator,
    Composite,
    CompositeOracle,
    DrobenchError,
    Measured,
    Rows,
    Solver,
    backtrack,
    check_products,
    direction,
    hessian,
    hessian_product,
    measured,
    metric_factor,
    metric_step,
    require_positive,
    rounding,
    settle,
)

# Below this share of what smoothing may change, progress on a smoothed problem says nothing about the problem.
_STALL = 0.1


@dataclass(kw_only=True)
class NewtonConfig:
    """Hyperparameters of Newton's method."""

    largest_matrix: int = 2000
    """Variables up to which the Hessian is a matrix; beyond, steps come from products with vectors."""
    most_products: int = 50
    """Products that one step may ask for, where there is no matrix."""
    sufficient: float = 1e-4
    """Share of the predicted decrease that a step has to bring (Armijo's rule)."""

    def __post_init__(self) -> None:
        require_positive(self, "largest_matrix", "most_products", "sufficient")


@dataclass(frozen=True)
class NewtonState:
    """Everything the method carries from step to step."""

    point: Tensor
    accepted: Measured | None
    factor: Tensor | None
    """Of the metric at the accepted point; `None` where there is no matrix."""
    first_size: float
    """Of the gradient at the start, against which conjugate gradients measure theirs."""
    best_point: Tensor
    """Where the objective of the problem itself, without any smoothing, is lowest; at first, the start."""
    best_original: float
    gained: float
    """By how much the last step lowered the objective."""
    smoothing_error: float
    """By how much smoothing can change the objective that is measured."""
    ended: bool


class Newton(Solver[NewtonState]):
    """See the module's text."""

    def __init__(self, config: NewtonConfig) -> None:
        self.config = config

    def init(self, start: Tensor, oracle: CompositeOracle, communicator: Communicator) -> NewtonState:
        if not self._has_matrix(oracle):
            check_products(oracle, "newton", self.config.largest_matrix, "lbfgs")
        start_values = start, math.inf, math.inf, oracle.smoothing_error
        return NewtonState(start, None, None, 0.0, *start_values, ended=False)

    def step(self, state: NewtonState, oracle: CompositeOracle, communicator: Communicator) -> NewtonState:
        if state.ended:
            return state
        rows = oracle.draw()
        if state.accepted is None:
            found = self._measure(state.point, rows, oracle, communicator)
            return self._accept(state, found, rows, oracle, communicator)
        here = state.accepted
        gradient = direction(here.estimates, oracle)
        if not bool(gradient.isfinite().all()):
            raise DrobenchError(
                "newton: the gradient is not finite where the objective is. Use solver=gcivr, or scale the data."
            )
        target = self._target(state, gradient, rows, oracle, communicator)
        move = target - here.point
        rise = oracle.regularizer_value(target) - oracle.regularizer_value(here.point)
        slope = float(gradient.dot(move) + rise)
        if oracle.regularizer_is_smooth:
            slope = float((gradient + oracle.regularizer_gradient(here.point)).dot(move))
        # A decrease below the last digits of the objective cannot be measured.
        if not slope < -0.5 * rounding(here.value, here.point.dtype):
            return replace(state, ended=True)

        def trial(length: float) -> Measured:
            return self._measure(here.point + length * move, rows, oracle, communicator)

        length, found = backtrack(trial, here, slope, sufficient=self.config.sufficient)
        if length == 0.0:
            return replace(state, ended=True)
        return self._accept(state, found, rows, oracle, communicator)

    def solution(self, state: NewtonState) -> Tensor:
        return state.best_point

    def stalled(self, state: NewtonState) -> bool:
        return state.gained < _STALL * state.smoothing_error

    def resting(self, state: NewtonState) -> bool:
        """As soon as this stage has taken a step: one that only measures where the last ended would be for nothing."""
        return state.ended or state.gained < math.inf

    def sharpen(self, state: NewtonState, oracle: CompositeOracle, communicator: Communicator) -> NewtonState:
        """Begin anew from what was accepted, without forgetting the best of all stages."""
        fresh = self.init(state.point, oracle, communicator)
        if not oracle.comparable:
            return fresh
        return replace(fresh, best_point=state.best_point, best_original=state.best_original)

    def ended(self, state: NewtonState) -> bool:
        return state.ended

    def _measure(self, point: Tensor, rows: Rows, oracle: CompositeOracle, communicator: Communicator) -> Measured:
        """Measure on all rows; a dual variable takes its best value there."""
        settled = settle(oracle, communicator, point, rows)
        return measured(oracle, settled.point, settled.estimates, original=settled.original)

    def _accept(
        self, state: NewtonState, found: Measured, rows: Rows, oracle: CompositeOracle, communicator: Communicator
    ) -> NewtonState:
        """Return the state at a point, with the matrix there, which is a part of the sweep that measured it."""
        factor = None
        if self._has_matrix(oracle):
            matrix = hessian(oracle, communicator, found.point, found.estimates, rows)
            factor = metric_factor(oracle, matrix, found.point)
        size = state.first_size or float(direction(found.estimates, oracle).norm())
        best = (state.best_point, state.best_original)
        if found.original < state.best_original:
            best = (found.point, found.original)
        gained = math.inf if state.accepted is None else state.accepted.value - found.value
        return NewtonState(found.point, found, factor, size, *best, gained, oracle.smoothing_error, ended=False)

    def _target(
        self, state: NewtonState, gradient: Tensor, rows: Rows, oracle: CompositeOracle, communicator: Communicator
    ) -> Tensor:
        assert state.accepted is not None
        point, estimates = state.accepted.point, state.accepted.estimates
        if state.factor is not None:
            return metric_step(oracle, point, gradient, state.factor)
        slope = gradient + oracle.regularizer_gradient(point)
        curvature = oracle.regularizer_curvature(point)

        def product(vector: Tensor) -> Tensor:
            return hessian_product(oracle, communicator, point, estimates, rows, vector) + curvature * vector

        size = float(slope.norm())
        accuracy = min(0.5, math.sqrt(size / max(state.first_size, size)))
        return point + _conjugate_gradients(product, slope, accuracy * size, self.config.most_products)

    def _has_matrix(self, oracle: CompositeOracle) -> bool:
        return oracle.has_hessian and oracle.dimension <= self.config.largest_matrix


def _conjugate_gradients(product: Callable[[Tensor], Tensor], slope: Tensor, tolerance: float, most: int) -> Tensor:
    """Return an approximate solution of `H step = -slope`, stopped at the first sign of negative curvature."""
    step, rest = torch.zeros_like(slope), -slope
    towards, square = rest, float(rest.dot(rest))
    for _ in range(most):
        if math.sqrt(square) <= tolerance:
            break
        bent = product(towards)
        curvature = float(towards.dot(bent))
        if not curvature > 0.0:
            # Before the first step there is the gradient alone, which goes down.
            return step if bool(step.any()) else towards
        length = square / curvature
        step, rest = step + length * towards, rest - length * bent
        before, square = square, float(rest.dot(rest))
        towards = rest + square / before * towards
    return step


def entry() -> SolverEntry:
    """Return the catalogue entry."""
    return SolverEntry(
        name="newton",
        summary="Damped Newton steps on all rows, by a matrix or by products with vectors.",
        reference="Nocedal, Wright (2006); Lee, Sun, Saunders (SIAM Journal on Optimization 2014)",
        config=NewtonConfig,
        factory=Newton,
        accepts=(Composite,),
        requires=(Capability.SECOND_DERIVATIVES,),
        rate="linear",
    )

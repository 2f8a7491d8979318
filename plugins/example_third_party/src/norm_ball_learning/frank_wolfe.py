"""Frank-Wolfe (conditional gradients) on a composite objective `r(x) + Phi(x)`.

Update:      s <- a minimiser of <Phi'(x), s> + r(s)
             x <- (1 - a) x + a s,   a = 2 / (t + 2) in step t = 0, 1, ...
State:       the point, the number of steps, the duality gap at the point before
Cost:        all samples (and constraints) once, and one linear minimisation, in each step
Reference:   Frank, Wolfe (1956); Jaggi, "Revisiting Frank-Wolfe" (ICML 2013), Algorithm 1; Bach, "Duality between
             subgradient and conditional gradient methods" (SIAM J. Optim. 2015) for an `r` that is no indicator
Deviations:  The oracle offers the proximal map of `r`, not its linear minimisation. The latter is the limit of the
             former at far points, prox_{eta r}(-eta Phi'(x)) for large eta: it minimises
             <Phi'(x), s> + r(s) + |s|^2 / (2 eta). For a Euclidean ball this is exact from some eta on. It counts as a
             projection.

The gap `<Phi'(x), x - s> + r(x) - r(s)` bounds how far a convex objective is above its optimum, and comes for free.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from drobench import SolverEntry
from drobench.solver import Communicator, Composite, CompositeOracle, DrobenchError, Solver, direction, refresh

# What is left of a far point, relative to its distance, where the objective holds nothing back.
_UNHELD = 0.05


@dataclass
class FrankWolfeConfig:
    """Frank-Wolfe has no hyperparameter but the offset of its step sizes `2 / (t + offset)`."""

    offset: int = 2

    def __post_init__(self) -> None:
        if self.offset < 2:
            raise DrobenchError(f"FrankWolfeConfig.offset must be at least 2; found {self.offset}. Change `offset=`.")


@dataclass(frozen=True)
class FrankWolfeState:
    """Everything Frank-Wolfe carries from step to step."""

    point: Tensor
    steps: int
    duality_gap: float
    """At the point before the last step; infinite before the first."""


class FrankWolfe(Solver[FrankWolfeState]):
    """See the module's text."""

    def __init__(self, config: FrankWolfeConfig) -> None:
        self.config = config

    def init(self, start: Tensor, oracle: CompositeOracle, communicator: Communicator) -> FrankWolfeState:
        for probe in (torch.ones_like(start), -torch.ones_like(start)):
            held = oracle.prox(_far(start) * probe, _far(start))
            if float(held.norm()) > _UNHELD * _far(start) * float(probe.norm()):
                raise DrobenchError(
                    "frank_wolfe needs a problem over a bounded set, or with a quadratic regularizer that is not tiny: "
                    "otherwise its linear minimisation has no solution. Use problem=ball_classification, or raise "
                    "problem.l2."
                )
        return FrankWolfeState(start, 0, math.inf)

    def step(self, state: FrankWolfeState, oracle: CompositeOracle, communicator: Communicator) -> FrankWolfeState:
        point = state.point
        estimates = refresh(oracle, communicator, point, oracle.draw())
        gradient = direction(estimates, oracle)
        corner = linear_minimiser(gradient, point, oracle)
        means = (estimates.inner_value, estimates.loss_value, estimates.shift)
        # With the same means, the two values differ by r(point) - r(corner).
        held = oracle.value(point, *means) - oracle.value(corner, *means)
        gap = float(gradient.dot(point - corner) + held)
        weight = 2.0 / (state.steps + self.config.offset)
        return FrankWolfeState(torch.lerp(point, corner, weight), state.steps + 1, gap)

    def solution(self, state: FrankWolfeState) -> Tensor:
        return state.point


def linear_minimiser(gradient: Tensor, point: Tensor, oracle: CompositeOracle) -> Tensor:
    """Return a minimiser of `<gradient, s> + r(s)`."""
    step = _far(point) * (1.0 + float(point.norm())) / max(float(gradient.norm()), torch.finfo(point.dtype).tiny)
    return oracle.prox(-step * gradient, step)


def _far(point: Tensor) -> float:
    """As far as rounding allows: further out, the digits that tell one point of the set from another are lost."""
    return torch.finfo(point.dtype).eps ** -0.5


def calls_per_step(_config: FrankWolfeConfig, oracle: CompositeOracle) -> set[int]:
    """Return what a step costs."""
    return {oracle.samples + oracle.constraints}


def entry() -> SolverEntry:
    """Return the catalogue entry."""
    return SolverEntry(
        name="frank_wolfe",
        summary="Frank-Wolfe on the composite form: linear minimisation instead of projection.",
        reference="Frank, Wolfe (1956); Jaggi (ICML 2013), Algorithm 1; Bach (SIAM J. Optim. 2015)",
        config=FrankWolfeConfig,
        factory=FrankWolfe,
        accepts=(Composite,),
        calls_per_step=calls_per_step,
        goal_gap=1e-2,
        rate=1.0,
    )

"""Stochastic gradient descent with a single projection, at the end.

    x <- prox_{eta_k r}(x - eta_k [grad f_S(x) + alpha sigma(c(x) / gamma) grad c(x)]),    c = max_k c_k

which descends along `f(x) + alpha gamma ln(1 + exp(c(x) / gamma))`, a smoothed exact penalty, with `sigma` the logistic
function; `gamma = 0` is the exact penalty itself. A weight `alpha` above `G / rho` (see `penalised_steps`) makes the
distance of the result from the feasible set, and so what the final projection can spoil, a matter of `gamma`.

The final projection is not a step: it is that of the run's reformulation, timed and counted once, and happens by
default where the constraints can project (`reformulation.projection` asks for it elsewhere).

State: the point, the number of steps, two running means. Cost of a step: S oracle calls and a check of all M
constraints, whose subgradient is the mean slope of those that attain the maximum.

Reference: Mahdavi, Yang, Jin, Zhu, Yi, "Stochastic gradient descent with only one projection" (NeurIPS 2012), the
method for strongly convex objectives. Deviations: iterates are not kept in a ball around the feasible set, and the mean
is over the last half to three quarters of the steps with weights k.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from drobench.registry import SolverEntry
from drobench.solver import (
    Capability,
    Communicator,
    Constrained,
    ConstrainedOracle,
    Solver,
    require_non_negative,
    require_positive,
)
from drobench_plugins.solvers.pieces.penalised_steps import (
    PenalisedConfig,
    objective_gradient,
    penalty_of,
    worst_constraint,
)
from drobench_plugins.solvers.pieces.suffix_mean import SuffixMean, extend, no_mean


@dataclass
class OneProjectionSgdConfig(PenalisedConfig):
    """Hyperparameters of descent with one projection."""

    penalty: float | None = None
    """alpha; null: one that the problem knows to be exact, or 2."""
    gamma: float = 0.01
    """Width of the smoothing; 0: none."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, "penalty")
        require_non_negative(self, "gamma")


@dataclass(frozen=True)
class OneProjectionSgdState:
    """Everything descent on a penalty carries from step to step."""

    point: Tensor
    steps: int
    mean: SuffixMean


class OneProjectionSgd(Solver[OneProjectionSgdState]):
    """See the module's text."""

    def __init__(self, config: OneProjectionSgdConfig) -> None:
        self.config = config

    def init(self, start: Tensor, oracle: ConstrainedOracle, communicator: Communicator) -> OneProjectionSgdState:
        return OneProjectionSgdState(start, 0, no_mean(start))

    def step(
        self, state: OneProjectionSgdState, oracle: ConstrainedOracle, communicator: Communicator
    ) -> OneProjectionSgdState:
        count = state.steps + 1
        step_size = self.config.step_at(count)
        gradient = objective_gradient(oracle, communicator, state.point, self.config)
        violation, slope = worst_constraint(oracle, communicator, state.point)
        weight = penalty_of(self.config.penalty, oracle) * self._share(violation)
        point = oracle.prox(state.point - step_size * (gradient + weight * slope), step_size)
        return OneProjectionSgdState(point, count, extend(state.mean, point, self.config.weight_at(count)))

    def _share(self, violation: float) -> float:
        """Return `sigma(violation / gamma)`, or the indicator of a violation where nothing is smoothed."""
        if self.config.gamma == 0.0:
            return math.nan if math.isnan(violation) else float(violation > 0.0)
        return float(torch.sigmoid(torch.tensor(violation / self.config.gamma, dtype=torch.float64)))

    def solution(self, state: OneProjectionSgdState) -> Tensor:
        average = self.average(state)
        return state.point if self.config.output == "last" or average is None else average

    def average(self, state: OneProjectionSgdState) -> Tensor | None:
        return state.mean.value


def calls_per_step(config: PenalisedConfig, oracle: ConstrainedOracle) -> set[int]:
    """Return the samples of the draw and all constraints."""
    return {min(config.batch or oracle.samples, oracle.samples) + oracle.constraints}


def entry() -> SolverEntry:
    """Return the catalogue entry."""
    return SolverEntry(
        name="one_projection_sgd",
        summary="Stochastic gradient descent on a smoothed exact penalty, with one projection at the end.",
        reference="Mahdavi, Yang, Jin, Zhu, Yi (NeurIPS 2012)",
        config=OneProjectionSgdConfig,
        factory=OneProjectionSgd,
        accepts=(Constrained,),
        requires=(
            Capability.CONSTRAINTS,
            Capability.ONLY_NUMBERED_CONSTRAINTS,
        ),
        # The rate of the reference for convex problems.
        rate=0.5,
        goal_gap=1e-2,
        calls_per_step=calls_per_step,
    )

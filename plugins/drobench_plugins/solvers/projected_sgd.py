"""Projected stochastic gradient descent: a projection on the feasible set in every step.

    x <- P(prox_{eta_k r}(x - eta_k grad f_S(x)))

The yardstick of the methods that avoid projections. `P` is the nearest point that satisfies all constraints, which the
constraints must be able to find; such a step can cost more than all else together, and is counted.

State: the point, the number of steps, two running means. Cost of a step: S oracle calls and one projection.

Reference: Nemirovski, Juditsky, Lan, Shapiro (SIAM Journal on Optimization 2009); the mean of the later iterates:
Rakhlin, Shamir, Sridharan (ICML 2012).
"""

from dataclasses import dataclass

from torch import Tensor

from drobench.registry import SolverEntry
from drobench.solver import Capability, Communicator, Constrained, ConstrainedOracle, Solver
from drobench_plugins.solvers.pieces.penalised_steps import PenalisedConfig, objective_gradient
from drobench_plugins.solvers.pieces.suffix_mean import SuffixMean, extend, no_mean


@dataclass
class ProjectedSgdConfig(PenalisedConfig):
    """Hyperparameters of projected descent."""


@dataclass(frozen=True)
class ProjectedSgdState:
    """Everything projected descent carries from step to step."""

    point: Tensor
    steps: int
    mean: SuffixMean


class ProjectedSgd(Solver[ProjectedSgdState]):
    """See the module's text."""

    def __init__(self, config: ProjectedSgdConfig) -> None:
        self.config = config

    def init(self, start: Tensor, oracle: ConstrainedOracle, communicator: Communicator) -> ProjectedSgdState:
        return ProjectedSgdState(start, 0, no_mean(start))

    def step(
        self, state: ProjectedSgdState, oracle: ConstrainedOracle, communicator: Communicator
    ) -> ProjectedSgdState:
        count = state.steps + 1
        step_size = self.config.step_at(count)
        gradient = objective_gradient(oracle, communicator, state.point, self.config)
        point = oracle.project(oracle.prox(state.point - step_size * gradient, step_size))
        return ProjectedSgdState(point, count, extend(state.mean, point, self.config.weight_at(count)))

    def solution(self, state: ProjectedSgdState) -> Tensor:
        average = self.average(state)
        return state.point if self.config.output == "last" or average is None else average

    def average(self, state: ProjectedSgdState) -> Tensor | None:
        return state.mean.value


def entry() -> SolverEntry:
    """Return the catalogue entry."""
    return SolverEntry(
        name="projected_sgd",
        summary="Stochastic gradient descent with a projection on the feasible set in every step.",
        reference="Nemirovski, Juditsky, Lan, Shapiro (SIAM Journal on Optimization 2009)",
        config=ProjectedSgdConfig,
        factory=ProjectedSgd,
        accepts=(Constrained,),
        requires=(Capability.PROJECTION,),
        calls_per_step=lambda config, oracle: {min(config.batch or oracle.samples, oracle.samples)},
    )

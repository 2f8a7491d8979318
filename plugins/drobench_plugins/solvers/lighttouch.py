"""LightTouch: stochastic descent on the exact penalty that looks at two constraints in a step. Reconstructed.

The maximum over constraints is a game: an adversary chooses constraint `i` with probability `p_i`, and learns where to
put his probability from what he sees of the constraints, one at a time.

    i ~ p:        x' <- prox_{eta_t r}(x - eta_t [grad f_S(x) + alpha 1{c_i(x) > 0} grad c_i(x)])
    j ~ uniform:  D = alpha (u + M e_j (max(0, c_j(x)) - u_j)),   u_j <- max(0, c_j(x))
                  p <- p exp(eta_p D) / norm

`D` estimates the vector of all penalties without bias, with what was last seen of each constraint, `u`, taking out the
noise. The mean of the later iterates is what the method stands for, and one projection at the end, that of the run's
reformulation, makes it feasible.

State: the point, `p` and `u` (2 M numbers: the method saves checks, not memory, and each step works through both),
the number of steps, two running means. Cost of a step: S oracle calls and 2 constraint checks; M checks once before the
first step.

Reference: Cotter, Gupta, Pfeifer, "A light touch for heavily constrained SGD" (COLT 2016), LightTouch. Reconstructed
from its published structure: step sizes are ours.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from drobench.registry import SolverEntry
from drobench.solver import Capability, Communicator, Constrained, ConstrainedOracle, Solver, require_positive
from drobench_plugins.solvers.pieces.penalised_steps import (
    PenalisedConfig,
    all_constraints,
    objective_gradient,
    one_constraint,
    penalty_of,
)
from drobench_plugins.solvers.pieces.suffix_mean import SuffixMean, extend, no_mean

ONE_PROCESS = "a step looks at a few constraints and works through all probabilities, which leaves nothing to divide"


@dataclass
class LightTouchConfig(PenalisedConfig):
    """Hyperparameters of LightTouch."""

    step_size: float = 0.1
    penalty: float | None = None
    """alpha; null: one that the problem knows to be exact, or 2."""
    adversary_step: float = 0.1
    """eta_p of the first step; it shrinks as the steps on the parameters do."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, "penalty", "adversary_step")


@dataclass(frozen=True)
class LightTouchState:
    """Everything LightTouch carries from step to step."""

    point: Tensor
    steps: int
    mean: SuffixMean
    probabilities: Tensor
    """`(M,)`, p."""
    seen: Tensor
    """`(M,)`, u: the violation of each constraint when it was last looked at."""


class LightTouch(Solver[LightTouchState]):
    """See the module's text."""

    def __init__(self, config: LightTouchConfig) -> None:
        self.config = config

    def init(self, start: Tensor, oracle: ConstrainedOracle, communicator: Communicator) -> LightTouchState:
        seen = violations(oracle, start)
        return LightTouchState(start, 0, no_mean(start), torch.full_like(seen, 1.0 / oracle.constraints), seen)

    def step(self, state: LightTouchState, oracle: ConstrainedOracle, communicator: Communicator) -> LightTouchState:
        count = state.steps + 1
        step_size, alpha = self.config.step_at(count), penalty_of(self.config.penalty, oracle)
        gradient = objective_gradient(oracle, communicator, state.point, self.config)
        gradient = gradient + alpha * slope_of_one(draw_by(state.probabilities, oracle), state.point, oracle)
        number = int(oracle.generator.integers(oracle.constraints))
        found = oracle.surrogates(state.point[None], one_constraint(number, oracle))[0][0, 0].clamp(min=0.0)
        estimate = state.seen.clone()
        estimate[number] += oracle.constraints * (found - state.seen[number])
        seen = state.seen.clone()
        seen[number] = found
        adversary_step = self.config.adversary_step * step_size / self.config.step_size
        point = oracle.prox(state.point - step_size * gradient, step_size)
        return LightTouchState(
            point,
            count,
            extend(state.mean, point, self.config.weight_at(count)),
            ascend(state.probabilities, alpha * adversary_step * estimate),
            seen,
        )

    def solution(self, state: LightTouchState) -> Tensor:
        average = self.average(state)
        return state.point if self.config.output == "last" or average is None else average

    def average(self, state: LightTouchState) -> Tensor | None:
        return state.mean.value


def violations(oracle: ConstrainedOracle, point: Tensor) -> Tensor:
    """Return `max(0, c_k)` of all constraints."""
    return oracle.surrogates(point[None], all_constraints(oracle))[0][0].clamp(min=0.0)


def draw_by(probabilities: Tensor, oracle: ConstrainedOracle) -> int:
    """Draw a constraint by the adversary's probabilities."""
    sums = probabilities.cumsum(0)
    threshold = oracle.generator.random() * float(sums[-1])
    return min(int((sums <= threshold).sum()), oracle.constraints - 1)


def slope_of_one(number: int, point: Tensor, oracle: ConstrainedOracle) -> Tensor:
    """Return the slope of a constraint where it is violated; else zero. Either way this is one check."""
    value, pullback = oracle.surrogates(point[None], one_constraint(number, oracle))
    return pullback((value > 0).to(point.dtype)[:, None])[0, 0]


def ascend(probabilities: Tensor, exponents: Tensor) -> Tensor:
    """Return `p exp(exponents) / norm`, by logarithms so that nothing overflows."""
    smallest = torch.finfo(probabilities.dtype).tiny
    return torch.softmax(probabilities.clamp(min=smallest).log() + exponents, dim=0)


def entry() -> SolverEntry:
    """Return the catalogue entry."""
    return SolverEntry(
        name="lighttouch",
        summary="Stochastic descent on the exact penalty with two constraint checks a step.",
        reference="Cotter, Gupta, Pfeifer (COLT 2016), LightTouch",
        config=LightTouchConfig,
        factory=LightTouch,
        accepts=(Constrained,),
        requires=(
            Capability.CONSTRAINTS,
            Capability.ONLY_NUMBERED_CONSTRAINTS,
        ),
        reconstructed=True,
        one_process=ONE_PROCESS,
        goal_gap=3e-2,
        calls_per_step=lambda config, oracle: {min(config.batch or oracle.samples, oracle.samples) + 2},
    )

"""COVER: recursive momentum for composites, after STORM. Reconstructed: see below.

    y <- g_S(x) + (1 - b_k) (y - g_S(x_prev)),    z and w alike, for the Jacobian of g and the gradient of h
    x <- prox_{a_k r}(x - a_k (z^T f'(y) + w))

with `a_k = a (1 + (k - 1) / delay)^{-1/3}` and `b_k = c k^{-2/3}` after `b_1 = 1`. No pass over all rows is ever
needed: `b_k = 1` would be a plain mini-batch method, `b_k = 0` the recursion of GCIVR without refreshes.
State: the point and the previous point, the estimates (p + p d + d numbers), the number of steps. Cost of a step: 2 S
oracle calls; of the first, S.

Reference: Qi, Guo, Xu, Jin, Yang, "An online method for a class of distributionally robust optimization with non-convex
objectives" (NeurIPS 2021), COVER, for the KL penalty; the estimator is that of Cutkosky and Orabona (STORM, 2019).
Reconstructed: the original text was not at hand; the powers of k are those of the analysis, constants and the delay are
ours. Deviations: any composite; an inner value below what the drawn rows prove it must exceed begins anew, with
`b_k = 1`; no restarts (RECOVER).
"""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from drobench.registry import SolverEntry
from drobench.solver import (
    Communicator,
    Composite,
    CompositeOracle,
    Estimates,
    SettingError,
    Solver,
    StepConfig,
    descend,
    extended_mean,
    first_step,
    require_positive,
    sample,
    sample_pair,
)


@dataclass(kw_only=True)
class CoverConfig(StepConfig):
    """Hyperparameters of COVER; `step_size` is a."""

    delay: int = 100
    """Steps before the step size begins to decay in earnest."""
    mixing: float = 0.5
    """c, at most 1: how much of a draw enters the estimates. What is left of the noise in the end is in proportion."""
    batch: int | None = None
    """S; null: 4 sqrt(m), and at most 128, of the samples and of the constraints. After as many passes, fewer steps of
    larger draws leave less noise, as long as they are enough to arrive."""
    replacement: bool = False
    """Whether rows are drawn with replacement."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, "delay", "mixing", "batch")
        if self.mixing > 1.0:
            raise SettingError(f"CoverConfig.mixing must be at most 1; found {self.mixing}. Change `mixing=`.")


@dataclass(frozen=True)
class CoverState:
    """Everything COVER carries from step to step."""

    point: Tensor
    previous: Tensor
    estimates: Estimates | None
    """At the previous point; none before the first step."""
    steps: int
    mean: Tensor
    step_size: float


class Cover(Solver[CoverState]):
    """See the module's text."""

    def __init__(self, config: CoverConfig) -> None:
        self.config = config

    def init(self, start: Tensor, oracle: CompositeOracle, communicator: Communicator) -> CoverState:
        step_size = first_step(self.config, oracle, communicator, start)
        return CoverState(start, start, None, 0, torch.zeros_like(start), step_size)

    def step(self, state: CoverState, oracle: CompositeOracle, communicator: Communicator) -> CoverState:
        count = state.steps + 1
        estimates = self._measure(state, oracle, communicator, self.config.mixing * count ** (-2.0 / 3.0))
        step_size = state.step_size * (1.0 + state.steps / self.config.delay) ** (-1.0 / 3.0)
        point = oracle.prox(descend(state.point, estimates, oracle, step_size), step_size)
        mean = extended_mean(state.mean, point, count)
        return CoverState(point, state.point, estimates, count, mean, state.step_size)

    def _measure(self, state: CoverState, oracle: CompositeOracle, communicator: Communicator, mix: float) -> Estimates:
        sizes = (batch_of(self.config, population) for population in (oracle.samples, oracle.constraints))
        rows = oracle.draw(*sizes, replacement=self.config.replacement)
        old = state.estimates
        if old is None:
            return sample(oracle, communicator, state.point, rows, None)
        points = torch.stack([state.point, state.previous])
        here, there, floors = sample_pair(oracle, communicator, points, rows, old.shift)
        value = oracle.rescale(old.inner_value, old.shift, here.shift)
        jacobian = oracle.rescale(old.inner_jacobian, old.shift, here.shift)
        moved = replace(
            here,
            inner_value=here.inner_value + (1.0 - mix) * (value - there.inner_value),
            inner_jacobian=here.inner_jacobian + (1.0 - mix) * (jacobian - there.inner_jacobian),
            loss_gradient=here.loss_gradient + (1.0 - mix) * (old.loss_gradient - there.loss_gradient),
        )
        return moved if oracle.admits(moved.inner_value, rows, here.shift, floors) else here

    def solution(self, state: CoverState) -> Tensor:
        return state.point

    def average(self, state: CoverState) -> Tensor | None:
        return state.mean if state.steps else None


def batch_of(config: CoverConfig, population: int) -> int:
    """Return how many of `population` rows a step draws."""
    return config.batch or max(1, min(128, round(4.0 * math.sqrt(population))))


def _calls(config: CoverConfig, oracle: CompositeOracle) -> set[int]:
    drawn = sum(min(batch_of(config, size), size) for size in (oracle.samples, oracle.constraints))
    return {drawn, 2 * drawn}


def entry() -> SolverEntry:
    """Return the catalogue entry."""
    return SolverEntry(
        name="cover",
        summary="Recursive momentum (STORM) for composites, without any pass over all rows.",
        reference="Qi, Guo, Xu, Jin, Yang (NeurIPS 2021), COVER; schedules reconstructed",
        config=CoverConfig,
        factory=Cover,
        accepts=(Composite,),
        reconstructed=True,
        calls_per_step=_calls,
    )

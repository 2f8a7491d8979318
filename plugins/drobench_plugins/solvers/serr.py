"""SERR: the extragradient method with random reshuffling, for saddle problems.

In every epoch all rows, in a new random order, are cut into batches `S`; each batch makes one step of two halves:

    v <- P(u - eta F_S(u))
    u <- P(u - eta F_S(v))                 the same rows at both points

on the joint variable `u = (x, w)` of minimiser and adversary, where `F_S` estimates `(grad_x L, -grad_w L)` and `P` is
the projection. Steps on each variable are measured in its own scale, which is 1 for the saddle form of the reference
(Wasserstein logistic regression) and 1/m for weights on m samples.

State: the joint variable, the order of the rows of this epoch (m numbers), two running means. Cost of a step: 2 S
oracle calls and two projections.

Reference: Yu, Lin, Mazumdar, Jordan, "Fast distributionally robust learning with variance-reduced min-max optimization"
(AISTATS 2022), which averages the second half of the epochs. Deviations: the mean is over the last half to three
quarters of all steps, since the number of epochs is not known beforehand; where the batch does not divide the number of
rows, the last and smaller batch of an epoch has a proportionally smaller step.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from drobench.registry import SolverEntry
from drobench.solver import Communicator, MinMax, MinMaxOracle, Rows, Solver, require_one_of, require_positive
from drobench_plugins.solvers.pieces.saddle_steps import chosen_samples, pooled_operator, project_step
from drobench_plugins.solvers.pieces.suffix_mean import SuffixMean, extend, no_mean


@dataclass
class SerrConfig:
    """Hyperparameters of SERR."""

    step_size: float = 0.5
    """eta."""
    batch: int = 8
    output: str = "average"
    """`average`, of the later steps, or `last`."""

    def __post_init__(self) -> None:
        require_one_of(self, "output", ("average", "last"))
        require_positive(self, "step_size", "batch")


@dataclass(frozen=True)
class SerrState:
    """Everything SERR carries from step to step."""

    # Every step.
    joint: Tensor
    mean: SuffixMean
    position: int
    """Rows of this epoch that have had their turn; the number of all rows: the epoch is over."""
    # Every epoch.
    order: Tensor


class Serr(Solver[SerrState]):
    """See the module's text."""

    def __init__(self, config: SerrConfig) -> None:
        self.config = config

    def init(self, start: Tensor, oracle: MinMaxOracle, communicator: Communicator) -> SerrState:
        order = torch.arange(oracle.samples, device=oracle.device)
        return SerrState(start, no_mean(start), oracle.samples, order)

    def step(self, state: SerrState, oracle: MinMaxOracle, communicator: Communicator) -> SerrState:
        order, position = state.order, state.position
        if position == oracle.samples:
            order, position = torch.from_numpy(oracle.generator.permutation(oracle.samples)).to(oracle.device), 0
        batch = min(self.config.batch, oracle.samples)
        numbers = order[position : position + batch]
        rows = chosen_samples(oracle, numbers)
        step_size = self.config.step_size * numbers.numel() / batch
        half = self._move(state.joint, state.joint, rows, step_size, oracle, communicator)
        joint = self._move(state.joint, half, rows, step_size, oracle, communicator)
        return SerrState(joint, extend(state.mean, joint), position + numbers.numel(), order)

    @staticmethod
    def _move(
        base: Tensor, at: Tensor, rows: Rows, step_size: float, oracle: MinMaxOracle, communicator: Communicator
    ) -> Tensor:
        return project_step(oracle, base, pooled_operator(oracle, communicator, at, rows), step_size)

    def solution(self, state: SerrState) -> Tensor:
        average = self.average(state)
        return state.joint if self.config.output == "last" or average is None else average

    def average(self, state: SerrState) -> Tensor | None:
        return state.mean.value


def _calls_per_step(config: SerrConfig, oracle: MinMaxOracle) -> set[int]:
    batch = min(config.batch, oracle.samples)
    rest = oracle.samples % batch
    return {2 * batch, 2 * rest} if rest else {2 * batch}


def entry() -> SolverEntry:
    """Return the catalogue entry."""
    return SolverEntry(
        name="serr",
        summary="Extragradient steps on minimiser and adversary together, over reshuffled rows.",
        reference="Yu, Lin, Mazumdar, Jordan (AISTATS 2022), SERR",
        config=SerrConfig,
        factory=Serr,
        accepts=(MinMax,),
        goal_gap=3e-2,
        calls_per_step=_calls_per_step,
    )

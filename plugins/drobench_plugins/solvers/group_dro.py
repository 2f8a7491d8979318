"""Group DRO: the weights of the groups rise with their losses, then the parameters descend on the weighted losses.

    s_g <- mean loss of the drawn rows of group g                           rows of every group, or of all rows
    q_g <- q_g exp(b_k (s_g + C / sqrt(m_g))), divided by the sum           C: the adjustment for small groups
    x   <- x - a_k sum q_g grad s_g                                         with the new weights q, on the same rows

with `a_k = a (1 + (k - 1) / delay)^{-1/2}` and `b_k` alike, or both constant. Under a KL price `gamma` of the weights
the exponent is divided by `1 + b_k gamma`. From a uniform draw of all rows `s_g = (m / m_g)` times the part of the
group in the mean of the draw, which is unbiased, and zero for a group without a row.

State: the joint variable of parameters and weights, the number of steps, two running means. Cost of a step: S oracle
calls and one projection (of the weights on their simplex); with several processes, two exchanges: of `s` and of the
gradient.

Reference: Sagawa, Koh, Hashimoto, Liang, "Distributionally robust neural networks for group shifts" (ICLR 2020),
Algorithm 1, and section 3.3 for the adjustment.
Deviations: a step draws the same number of rows of every group, where the algorithm draws one row of a random group,
which in the mean is the same with steps of 1/G the size; step sizes fall, since constant ones do not converge; the
regularizer enters by its gradient; the mean is over the last half to three quarters of the steps.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from drobench.registry import SolverEntry
from drobench.solver import (
    Communicator,
    GroupedMinMax,
    GroupedMinMaxOracle,
    Rows,
    Solver,
    require_non_negative,
    require_one_of,
    require_positive,
)
from drobench_plugins.solvers.pieces.saddle_steps import pooled
from drobench_plugins.solvers.pieces.suffix_mean import SuffixMean, extend, no_mean


@dataclass
class GroupDroConfig:
    """Hyperparameters of group DRO."""

    step_size: float = 0.5
    """a."""
    adversary_step: float = 0.1
    """b, the step on the logarithms of the weights."""
    delay: int | None = 100
    """How long steps keep their size: step k has the factor `(1 + (k - 1) / delay)^{-1/2}`; null: for ever."""
    batch: int = 8
    """Rows of a draw. Stratified, the groups have equal shares of it, and at least one row each."""
    stratified: bool = True
    """Draw the same number of rows of every group; else uniformly from all rows."""
    adjustment: float = 0.0
    """C: how much a group of one sample is raised; it falls with the root of the size."""
    replacement: bool = False
    output: str = "average"
    """`average`, of the later steps, or `last`."""

    def __post_init__(self) -> None:
        require_one_of(self, "output", ("average", "last"))
        require_positive(self, "step_size", "adversary_step", "delay", "batch")
        require_non_negative(self, "adjustment")


@dataclass(frozen=True)
class GroupDroState:
    """Everything group DRO carries from step to step."""

    joint: Tensor
    steps: int
    mean: SuffixMean


class GroupDro(Solver[GroupDroState]):
    """See the module's text."""

    def __init__(self, config: GroupDroConfig) -> None:
        self.config = config

    def init(self, start: Tensor, oracle: GroupedMinMaxOracle, communicator: Communicator) -> GroupDroState:
        return GroupDroState(start, 0, no_mean(start))

    def step(self, state: GroupDroState, oracle: GroupedMinMaxOracle, communicator: Communicator) -> GroupDroState:
        config = self.config
        decay = 1.0 if config.delay is None else (1.0 + state.steps / config.delay) ** -0.5
        rows = self._draw(oracle)
        losses, gradient = oracle.group_losses(state.joint, rows)
        raised = pooled(losses, rows, communicator)
        if config.adjustment:
            raised = raised + config.adjustment * oracle.group_sizes.to(raised.dtype).rsqrt()
        parameters = oracle.dimension - oracle.groups
        weights = oracle.raise_weights(state.joint, raised, config.adversary_step * decay)[parameters:]
        downhill = pooled(gradient(weights), rows, communicator)
        joint = torch.cat([state.joint[:parameters] - config.step_size * decay * downhill, weights])
        return GroupDroState(joint, state.steps + 1, extend(state.mean, joint))

    def _draw(self, oracle: GroupedMinMaxOracle) -> Rows:
        if self.config.stratified:
            counts = [_rows_of_each(self.config, oracle.groups)] * oracle.groups
            return oracle.draw_groups(counts, replacement=self.config.replacement)
        return oracle.draw(self.config.batch, replacement=self.config.replacement)

    def solution(self, state: GroupDroState) -> Tensor:
        average = self.average(state)
        return state.joint if self.config.output == "last" or average is None else average

    def average(self, state: GroupDroState) -> Tensor | None:
        return state.mean.value


def _rows_of_each(config: GroupDroConfig, groups: int) -> int:
    return max(1, config.batch // groups)


def _calls_per_step(config: GroupDroConfig, oracle: GroupedMinMaxOracle) -> set[int]:
    if not config.stratified:
        return {min(config.batch, oracle.samples)}
    each = _rows_of_each(config, oracle.groups)
    return {each * oracle.groups if config.replacement else int(oracle.group_sizes.clamp(max=each).sum())}


def entry() -> SolverEntry:
    """Return the catalogue entry."""
    return SolverEntry(
        name="group_dro",
        summary="Exponentiated ascent on the weights of groups, then descent on their weighted losses.",
        reference="Sagawa, Koh, Hashimoto, Liang (ICLR 2020), Algorithm 1",
        config=GroupDroConfig,
        factory=GroupDro,
        accepts=(GroupedMinMax,),
        goal_gap=1e-2,
        calls_per_step=_calls_per_step,
    )

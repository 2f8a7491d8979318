"""SEVR: the extragradient method with variance reduction, for saddle problems. Reconstructed.

Epoch `s` begins with a snapshot `u~` and the exact operator `F(u~)` there, and takes `K_s` steps

    v <- P(u - eta F(u~))
    u <- P(u - eta [F(u~) + F_S(v) - F_S(u~)])

with a fresh draw `S` for each; `K_{s+1} = growth K_s`, and the last `u` is the next snapshot. `F_S` estimates
`(grad_x L, -grad_w L)` on the joint variable `u = (x, w)`, `P` is the projection. Steps on each variable are measured
in its own scale, as in `serr`.

State: the joint variable, the snapshot and its operator, two running means. Cost of a step: 2 S oracle calls and two
projections; the first step of an epoch costs the m calls of the snapshot besides.

Reference: Yu, Lin, Mazumdar, Jordan, "Fast distributionally robust learning with variance-reduced min-max optimization"
(AISTATS 2022). The method is a reconstruction: the released code does not contain it, and the doubling of the epochs is
inferred from its bound. The mean is taken over the last half to three quarters of all steps.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from drobench.registry import SolverEntry
from drobench.solver import Communicator, MinMax, MinMaxOracle, Solver, require_one_of, require_positive
from drobench_plugins.solvers.pieces.saddle_steps import pooled_operator, project_step
from drobench_plugins.solvers.pieces.suffix_mean import SuffixMean, extend, no_mean


@dataclass
class SevrConfig:
    """Hyperparameters of SEVR."""

    step_size: float = 0.5
    """eta."""
    batch: int = 8
    first_epoch: int = 4
    """K_1, steps of the first epoch."""
    growth: float = 2.0
    """How much longer each epoch is than the one before."""
    longest_epoch: int | None = None
    """Steps after which a snapshot is due at the latest; null: epochs go on growing."""
    replacement: bool = False
    output: str = "last"
    """`last`, or `average` of the later steps."""

    def __post_init__(self) -> None:
        require_one_of(self, "output", ("average", "last"))
        require_positive(self, "step_size", "batch", "first_epoch", "growth", "longest_epoch")


@dataclass(frozen=True)
class SevrState:
    """Everything SEVR carries from step to step."""

    # Every step.
    joint: Tensor
    mean: SuffixMean
    left: int
    """Steps until the next snapshot."""
    # Every epoch.
    epochs: int
    snapshot: Tensor
    snapshot_operator: Tensor


class Sevr(Solver[SevrState]):
    """See the module's text."""

    def __init__(self, config: SevrConfig) -> None:
        self.config = config

    def init(self, start: Tensor, oracle: MinMaxOracle, communicator: Communicator) -> SevrState:
        return SevrState(start, no_mean(start), 0, 0, start, torch.zeros_like(start))

    def step(self, state: SevrState, oracle: MinMaxOracle, communicator: Communicator) -> SevrState:
        snapshot, exact, left, epochs = state.snapshot, state.snapshot_operator, state.left, state.epochs
        if left == 0:
            snapshot, left, epochs = state.joint, self._length(epochs), epochs + 1
            exact = pooled_operator(oracle, communicator, snapshot, oracle.draw())
        step_size = self.config.step_size
        half = project_step(oracle, state.joint, exact, step_size)
        rows = oracle.draw(self.config.batch, replacement=self.config.replacement)
        here = pooled_operator(oracle, communicator, half, rows)
        there = pooled_operator(oracle, communicator, snapshot, rows)
        joint = project_step(oracle, state.joint, exact + here - there, step_size)
        return SevrState(joint, extend(state.mean, joint), left - 1, epochs, snapshot, exact)

    def _length(self, epochs: int) -> int:
        """Return the number of steps of the epoch after `epochs` others."""
        longest = self.config.longest_epoch
        # A float, so that an epoch nobody will see the end of is not a number of a thousand digits.
        length = self.config.first_epoch * self.config.growth ** min(epochs, 60)
        return max(1, int(length if longest is None else min(length, longest)))

    def solution(self, state: SevrState) -> Tensor:
        average = self.average(state)
        return state.joint if self.config.output == "last" or average is None else average

    def average(self, state: SevrState) -> Tensor | None:
        return state.mean.value


def _calls_per_step(config: SevrConfig, oracle: MinMaxOracle) -> set[int]:
    step = 2 * min(config.batch, oracle.samples)
    return {step, step + oracle.samples}


def entry() -> SolverEntry:
    """Return the catalogue entry."""
    return SolverEntry(
        name="sevr",
        summary="Extragradient steps on minimiser and adversary together, with snapshots that take out the noise.",
        reference="Yu, Lin, Mazumdar, Jordan (AISTATS 2022), SEVR",
        config=SevrConfig,
        factory=Sevr,
        accepts=(MinMax,),
        goal_gap=1e-2,
        reconstructed=True,
        calls_per_step=_calls_per_step,
    )

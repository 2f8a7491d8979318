"""Stochastic primal-dual descent: a step down for the parameters, a step up for the adversary, each in its geometry.

    x <- x - a_k grad_x L_S(x, q)
    q <- argmax <grad_q, q> - D(q) - B(q, q_old) / b_k           D: the adversary's penalty, B: the distance he moves by

with `a_k` and `b_k` that fall like `k^{-1/2}` and a draw `S` of the rows for both. The form knows which geometry suits
its adversary: for weights under a KL penalty `B` is the relative entropy, so that `q` becomes proportional to
`exp((ln q + b_k s) / (1 + b_k gamma))` with the estimate `s_i = (m / S) f_i` on the draw; on a chi-square ball or a cap
`B` is Euclidean and the step ends with a projection.

State: the joint variable, the number of steps, two running means. Cost of a step: S oracle calls and one projection,
which works on all m weights.

References: Nemirovski, Juditsky, Lan, Shapiro (SIAM Journal on Optimization 2009); for robust risks Namkoong and Duchi
(NeurIPS 2016). Deviations: the draw is uniform rather than by the weights, the regularizer enters by its gradient, and
the mean is over the last half to three quarters of the steps.
"""

from dataclasses import dataclass

from torch import Tensor

from drobench.registry import SolverEntry
from drobench.solver import Capability, Communicator, MinMax, MinMaxOracle, Solver, require_one_of, require_positive
from drobench_plugins.solvers.pieces.saddle_steps import pooled_operator
from drobench_plugins.solvers.pieces.suffix_mean import SuffixMean, extend, no_mean


@dataclass
class PrimalDualConfig:
    """Hyperparameters of the primal-dual method."""

    step_size: float = 0.5
    """a."""
    adversary_step: float = 0.3
    """b for one drawn row, in units of the adversary's variables (weights on m samples: 1/m). It grows with the draw,
    since what a draw says about each of its rows shrinks as much."""
    delay: int = 100
    """How long steps keep their size: step k has the factor `(1 + (k - 1) / delay)^{-1/2}`; 1 is as published."""
    batch: int = 8
    replacement: bool = False
    output: str = "average"
    """`average`, of the later steps, or `last`."""

    def __post_init__(self) -> None:
        require_one_of(self, "output", ("average", "last"))
        require_positive(self, "step_size", "adversary_step", "batch", "delay")


@dataclass(frozen=True)
class PrimalDualState:
    """Everything the primal-dual method carries from step to step."""

    joint: Tensor
    steps: int
    mean: SuffixMean


class PrimalDual(Solver[PrimalDualState]):
    """See the module's text."""

    def __init__(self, config: PrimalDualConfig) -> None:
        self.config = config

    def init(self, start: Tensor, oracle: MinMaxOracle, communicator: Communicator) -> PrimalDualState:
        return PrimalDualState(start, 0, no_mean(start))

    def step(self, state: PrimalDualState, oracle: MinMaxOracle, communicator: Communicator) -> PrimalDualState:
        batch = min(self.config.batch, oracle.samples)
        decay = (1.0 + state.steps / self.config.delay) ** -0.5
        rows = oracle.draw(batch, replacement=self.config.replacement)
        against = pooled_operator(oracle, communicator, state.joint, rows)
        adversary_step = self.config.adversary_step * batch * decay
        joint = oracle.mirror_step(state.joint, against, self.config.step_size * decay, adversary_step)
        return PrimalDualState(joint, state.steps + 1, extend(state.mean, joint))

    def solution(self, state: PrimalDualState) -> Tensor:
        average = self.average(state)
        return state.joint if self.config.output == "last" or average is None else average

    def average(self, state: PrimalDualState) -> Tensor | None:
        return state.mean.value


def entry() -> SolverEntry:
    """Return the catalogue entry."""
    return SolverEntry(
        name="primal_dual",
        summary="Stochastic descent on the parameters and mirror ascent on the adversary's weights, averaged.",
        reference="Namkoong and Duchi (NeurIPS 2016)",
        config=PrimalDualConfig,
        factory=PrimalDual,
        accepts=(MinMax,),
        requires=(Capability.MIRROR_STEP,),
        goal_gap=1e-2,
        calls_per_step=lambda config, oracle: {min(config.batch, oracle.samples)},
    )

"""SCGD: stochastic compositional gradient descent.

    y <- (1 - b_k) y + b_k g_S(x)
    x <- prox_{a_k r}(x - a_k (g'_S(x)^T f'(y) + h'_S(x)))

with `a_k = a (1 + (k - 1) / delay)^{-3/4}`, `b_k = k^{-1/2}`, and the exponents -1 and -2/3 for strongly convex
problems; `delay = 1` is the published schedule `a k^{-3/4}`, a larger one begins to decay later.
State: the point, the tracked inner value `y` and its shift, the number of steps. Cost of a step: S oracle calls.

Reference: Wang, Fang, Liu, "Stochastic compositional gradient descent" (Mathematical Programming, 2017), Algorithm 1.
Deviations: one draw serves value and Jacobian; the shift of exponentials is fixed at the first step (and raised only
if an exponential would overflow).
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from drobench.registry import SolverEntry
from drobench.solver import (
    Communicator,
    Composite,
    CompositeOracle,
    Estimates,
    Solver,
    StepConfig,
    descend,
    extended_mean,
    require_one_of,
    require_positive,
    sample,
    step_by_rule,
)


@dataclass(kw_only=True)
class ScgdConfig(StepConfig):
    """Hyperparameters of SCGD; `step_size` is a."""

    decay: str = "convex"
    """`convex` (exponents -3/4 and -1/2) or `strongly_convex` (-1 and -2/3)."""
    delay: int = 100
    """Steps before the step size begins to decay in earnest."""
    batch: int = 32
    """S, of the samples and of the constraints."""
    replacement: bool = False
    """Whether rows are drawn with replacement."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_one_of(self, "decay", ("convex", "strongly_convex"))
        require_positive(self, "batch", "delay")


@dataclass(frozen=True)
class ScgdState:
    """Everything SCGD carries from step to step."""

    point: Tensor
    steps: int
    mean: Tensor
    step_size: float
    # The tracked inner value and the shift it is expressed at; none before the first step.
    inner_value: Tensor | None
    shift: Tensor | None


class Scgd(Solver[ScgdState]):
    """See the module's text."""

    def __init__(self, config: ScgdConfig) -> None:
        self.config = config

    def init(self, start: Tensor, oracle: CompositeOracle, communicator: Communicator) -> ScgdState:
        # Not capped by what the form says is safe: steps that decay may begin beyond it.
        step_size = step_by_rule(self.config, oracle, communicator, start)
        return ScgdState(start, 0, torch.zeros_like(start), step_size, None, None)

    def step(self, state: ScgdState, oracle: CompositeOracle, communicator: Communicator) -> ScgdState:
        count = state.steps + 1
        move, mix = self._weights(count)
        rows = oracle.draw(self.config.batch, self.config.batch, replacement=self.config.replacement)
        measured = sample(oracle, communicator, state.point, rows, state.shift)
        inner_value = measured.inner_value
        if state.inner_value is not None and state.shift is not None:
            kept = oracle.rescale(state.inner_value, state.shift, measured.shift)
            inner_value = (1.0 - mix) * kept + mix * inner_value
        tracked = Estimates(
            inner_value, measured.inner_jacobian, measured.loss_value, measured.loss_gradient, measured.shift
        )
        step_size = state.step_size * move
        point = oracle.prox(descend(state.point, tracked, oracle, step_size), step_size)
        return replace(
            state,
            point=point,
            steps=count,
            mean=extended_mean(state.mean, point, count),
            inner_value=inner_value,
            shift=measured.shift,
        )

    def _weights(self, count: int) -> tuple[float, float]:
        delayed = 1.0 + (count - 1) / self.config.delay
        if self.config.decay == "convex":
            return delayed**-0.75, count**-0.5
        return 1.0 / delayed, count ** (-2.0 / 3.0)

    def solution(self, state: ScgdState) -> Tensor:
        return state.point

    def average(self, state: ScgdState) -> Tensor | None:
        return state.mean if state.steps else None


def entry() -> SolverEntry:
    """Return the catalogue entry."""
    return SolverEntry(
        name="scgd",
        summary="Stochastic compositional gradient descent with a tracked inner value.",
        reference="Wang, Fang, Liu (Mathematical Programming 2017), Algorithm 1",
        config=ScgdConfig,
        factory=Scgd,
        accepts=(Composite,),
        # The rate of the reference for convex problems; strongly convex ones are faster.
        rate=0.25,
        calls_per_step=lambda config, oracle: {
            min(config.batch, oracle.samples) + min(config.batch, oracle.constraints)
        },
    )

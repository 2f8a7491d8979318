"""Proximal gradient descent on all rows: the yardstick that every stochastic method has to beat.

    x <- prox_{eta r}(x - eta (g'(x)^T f'(g(x)) + h'(x))),    means over everything

State: the point, the step size, and the lowest point so far with what was measured there. Cost of a step: m oracle
calls.

Reference: Beck, Teboulle, "A fast iterative shrinkage-thresholding algorithm for linear inverse problems" (SIAM Journal
on Imaging Sciences, 2009), where it is called ISTA.
Deviations: the step size `1 / L` comes from the curvature at the start; a step that goes up is taken back, and the step
size is halved for good.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from drobench.errors import require_positive
from drobench.objective.composite import Composite
from drobench.objective.oracles.composite import CompositeOracle
from drobench.registry import SolverEntry
from drobench.solver import Communicator, Solver
from drobench.solver.curvature import largest_curvature
from drobench.solver.estimators import Estimates, descend, refresh


@dataclass
class ProxGradientConfig:
    """Hyperparameters of proximal gradient descent."""

    step_size: float | None = None
    """eta; null: `step_scale / L` with L by power iteration at the start."""
    step_scale: float = 1.0
    monotone: bool = True
    """Take back a step that goes up, and halve the step size."""

    def __post_init__(self) -> None:
        require_positive(self, "step_size", "step_scale")


@dataclass(frozen=True)
class Accepted:
    """The lowest point so far, and what was measured there."""

    value: float
    point: Tensor
    estimates: Estimates


@dataclass(frozen=True)
class ProxGradientState:
    """Everything the method carries from step to step."""

    point: Tensor
    step_size: float
    accepted: Accepted | None


class ProxGradient(Solver[ProxGradientState]):
    """See the module's text."""

    def __init__(self, config: ProxGradientConfig) -> None:
        self.config = config

    def init(self, start: Tensor, oracle: CompositeOracle, communicator: Communicator) -> ProxGradientState:
        step_size = self.config.step_size
        if step_size is None:
            curvature = largest_curvature(oracle, communicator, start)
            step_size = min(self.config.step_scale / curvature, oracle.largest_step)
        return ProxGradientState(start, step_size, None)

    def step(self, state: ProxGradientState, oracle: CompositeOracle, communicator: Communicator) -> ProxGradientState:
        estimates = refresh(oracle, communicator, state.point, oracle.draw())
        value = float(oracle.value(state.point, estimates.inner_value, estimates.loss_value, estimates.shift))
        best = state.accepted
        if best is not None and self.config.monotone and not value <= best.value + _rounding(state.point, best.value):
            state, estimates = replace(state, point=best.point, step_size=0.5 * state.step_size), best.estimates
        else:
            best = Accepted(value, state.point, estimates)
        point = oracle.prox(descend(state.point, estimates, oracle, state.step_size), state.step_size)
        return ProxGradientState(point, state.step_size, best)

    def solution(self, state: ProxGradientState) -> Tensor:
        return state.point


def _rounding(point: Tensor, value: float) -> float:
    """Near the optimum values differ by rounding only, which says nothing about the step size."""
    return torch.finfo(point.dtype).eps ** 0.75 * (1.0 + abs(value))


def entry() -> SolverEntry:
    """Return the catalogue entry."""
    return SolverEntry(
        name="prox_gradient",
        summary="Proximal gradient descent on all rows.",
        reference="Beck, Teboulle (SIAM Journal on Imaging Sciences 2009)",
        config=ProxGradientConfig,
        factory=ProxGradient,
        accepts=(Composite,),
        rate="linear",
        calls_per_step=lambda _config, oracle: {oracle.samples + oracle.constraints},
    )

"""Proximal gradient descent on all rows: the yardstick that every stochastic method has to beat.

    x <- prox_{eta r}(x - eta (g'(x)^T f'(g(x)) + h'(x))),    means over everything

State: the point, the step size, and the lowest point so far with what was measured there. Cost of a step: m oracle
calls.

Reference: Beck, Teboulle, "A fast iterative shrinkage-thresholding algorithm for linear inverse problems" (SIAM Journal
on Imaging Sciences, 2009), where it is called ISTA.
Deviations: the step size `1 / L` comes from the curvature at the start; a step that goes up is taken back, and the step
size is halved for good.
"""

from dataclasses import dataclass

from torch import Tensor

from drobench.registry import SolverEntry
from drobench.solver import (
    Communicator,
    Composite,
    CompositeOracle,
    Safeguard,
    Solver,
    StepConfig,
    descend,
    first_step,
    guarded_step,
    measured,
    settle,
    watch,
)


@dataclass(kw_only=True)
class ProxGradientConfig(StepConfig):
    """Hyperparameters of proximal gradient descent."""

    monotone: bool = True
    """Take back a step that goes up, and halve the step size; return only what was measured, never above the start."""


@dataclass(frozen=True)
class ProxGradientState:
    """Everything the method carries from step to step."""

    point: Tensor
    safeguard: Safeguard


class ProxGradient(Solver[ProxGradientState]):
    """See the module's text."""

    def __init__(self, config: ProxGradientConfig) -> None:
        self.config = config

    def init(self, start: Tensor, oracle: CompositeOracle, communicator: Communicator) -> ProxGradientState:
        return ProxGradientState(start, watch(self._first_step(start, oracle, communicator), start=start))

    def _first_step(self, start: Tensor, oracle: CompositeOracle, communicator: Communicator) -> float:
        if not self.config.monotone:
            return first_step(self.config, oracle, communicator, start)
        return guarded_step(self.config, oracle, communicator, start, scaled=False)[0]

    def step(self, state: ProxGradientState, oracle: CompositeOracle, communicator: Communicator) -> ProxGradientState:
        settled = settle(oracle, communicator, state.point, oracle.draw())
        found = measured(oracle, settled.point, settled.estimates, original=settled.original)
        safeguard, place = state.safeguard.judge(found, undo=self.config.monotone)
        step_size = safeguard.step_size
        point = oracle.prox(descend(place.point, place.estimates, oracle, step_size), step_size)
        return ProxGradientState(point, safeguard)

    def solution(self, state: ProxGradientState) -> Tensor:
        kept = state.safeguard.best_point
        return kept if self.config.monotone and kept is not None else state.point


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
        config_changes=("monotone returned the last iterate, and returns the best of those measured on all rows",),
        calls_per_step=lambda _config, oracle: {oracle.samples + oracle.constraints},
    )

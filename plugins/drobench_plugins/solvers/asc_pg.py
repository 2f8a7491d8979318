"""ASC-PG: accelerated stochastic compositional proximal gradient.

    x+ <- prox_{a_k r}(x - a_k (g'_S(x)^T f'(y) + h'_S(x)))
    z  <- (1 - 1 / b_k) x + x+ / b_k
    y  <- (1 - b_k) y + b_k g_S'(z)

The inner value is measured where the line through the last two points has been extrapolated to: the weighted mean of
such points is the present one, so that `y` follows `g(x)` with an error of second order. The weights are
`a_k = a (1 + (k - 1) / delay)^{-5/9}` and `b_k = k^{-4/9}`; for strongly convex problems the exponents are -1 and -4/5.
`delay = 1` is the published schedule.
Under exponentials of much noise (small gamma, few rows, large steps) the extrapolated values are far above `g(x)`, and
the method is slow.

State: the point, the tracked inner value `y` and its shift, the number of steps. Cost of a step: 2 S oracle calls.

Reference: Wang, Liu, Fang, "Accelerating stochastic composition optimization" (JMLR 2017), Algorithm 1.
Deviations: the first `y` is measured at the start; the shift of exponentials is fixed at the first step and raised only
if an exponential would overflow. Composites whose temperature is itself a variable (KL balls) are refused: `1 / b_k`
steps ahead it is at its bound or far away, and the exponentials there say nothing about those at the point.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from drobench.registry import SolverEntry
from drobench.solver import (
    Capability,
    Communicator,
    Composite,
    CompositeOracle,
    Rows,
    descend,
    extended_mean,
    first_step,
    sample,
)
from drobench_plugins.solvers.scgd import Scgd, ScgdConfig, ScgdState


@dataclass(kw_only=True)
class AscPgConfig(ScgdConfig):
    """Hyperparameters of ASC-PG: those of SCGD, with the exponents above for `decay`."""


class AscPg(Scgd):
    """See the module's text."""

    def init(self, start: Tensor, oracle: CompositeOracle, communicator: Communicator) -> ScgdState:
        step_size = first_step(self.config, oracle, communicator, start)
        return ScgdState(start, 0, torch.zeros_like(start), step_size, None, None)

    def step(self, state: ScgdState, oracle: CompositeOracle, communicator: Communicator) -> ScgdState:
        count = state.steps + 1
        move, mix = self._weights(count)
        slopes = sample(oracle, communicator, state.point, self._draw(oracle), state.shift)
        tracked = slopes
        if state.inner_value is not None and state.shift is not None:
            tracked = replace(slopes, inner_value=oracle.rescale(state.inner_value, state.shift, slopes.shift))
        step_size = state.step_size * move
        point = oracle.prox(descend(state.point, tracked, oracle, step_size), step_size)
        ahead = (1.0 - 1.0 / mix) * state.point + point / mix
        values = sample(oracle, communicator, ahead, self._draw(oracle), tracked.shift)
        kept = oracle.rescale(tracked.inner_value, tracked.shift, values.shift)
        return ScgdState(
            point=point,
            steps=count,
            mean=extended_mean(state.mean, point, count),
            step_size=state.step_size,
            inner_value=(1.0 - mix) * kept + mix * values.inner_value,
            shift=values.shift,
        )

    def _draw(self, oracle: CompositeOracle) -> Rows:
        return oracle.draw(self.config.batch, self.config.batch, replacement=self.config.replacement)

    def _weights(self, count: int) -> tuple[float, float]:
        delayed = 1.0 + (count - 1) / self.config.delay
        if self.config.decay == "convex":
            return delayed ** (-5.0 / 9.0), count ** (-4.0 / 9.0)
        return 1.0 / delayed, count**-0.8


def entry() -> SolverEntry:
    """Return the catalogue entry."""
    return SolverEntry(
        name="asc_pg",
        summary="Stochastic compositional proximal gradient with an extrapolated inner value.",
        reference="Wang, Liu, Fang (JMLR 2017), Algorithm 1",
        config=AscPgConfig,
        factory=AscPg,
        accepts=(Composite,),
        requires=(Capability.FIXED_TEMPERATURE,),
        calls_per_step=lambda config, oracle: {
            2 * (min(config.batch, oracle.samples) + min(config.batch, oracle.constraints))
        },
    )

"""Accelerated proximal gradient descent on all rows (FISTA), with restarts and a step size that follows the curvature.

    x_k     = prox_{eta r}(y - eta Phi'(y)),    Phi' = g'(y)^T f'(g(y)) + h'(y),   means over everything
    t_k     = (1 + sqrt(1 + 4 t_{k-1}^2)) / 2
    y_+     = x_k + (t_{k-1} - 1) / t_k (x_k - x_{k-1}),    with t = 1 before, where <y - x_k, x_k - x_{k-1}> > 0

The objective and its gradient are measured at the extrapolated points `y` alone: that is one pass a step, and it is
these points that the method returns. Between two of them the gradient shows a curvature `|v|^2 / <v, y_+ - y>`,
`v = Phi'(y_+) - Phi'(y)`, which for convex `Phi` is never above the largest one; the step size is at most its inverse,
and grows by a constant factor otherwise. So nothing is spent on trials.

State: the point where the next step begins with what was measured there, the last proximal point, `t`, the step size,
and the lowest point so far. Cost of a step: m oracle calls; before the first step m for the start, beside those for its
curvature.

References: Beck, Teboulle, "A fast iterative shrinkage-thresholding algorithm for linear inverse problems" (SIAM
Journal on Imaging Sciences, 2009), section 4; O'Donoghue, Candes, "Adaptive restart for accelerated gradient schemes"
(Foundations of Computational Mathematics, 2015), section 3.2, gradient scheme.
Deviations: the step size is judged by gradients between successive points instead of by trials, and may grow; a step
that goes up is taken back and the momentum with it, and where there was none the step size is halved; an extrapolated
point outside the domain of `r` is replaced by the nearest one inside; where the form has a scalar dual variable (KL and
chi-square balls, CVaR), it is set to its best value wherever the objective is measured.
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
    Measured,
    Safeguard,
    SettingError,
    Solver,
    StepConfig,
    descend,
    direction,
    first_step,
    guarded_step,
    measured,
    rounding,
    settle,
    watch,
)

# One pair of points may be an odd one: by how much it shortens the step at most.
_SHORTEST = 0.1


@dataclass(kw_only=True)
class AcceleratedGradientConfig(StepConfig):
    """Hyperparameters of accelerated proximal gradient descent."""

    monotone: bool = True
    """Take back a step that goes up, with the momentum or else half of the step size; return only what was measured,
    never above the start."""
    growth: float = 1.5
    """Factor by which the step size grows with every step that goes down, as far as the curvature lets it; 1: never."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1.0 <= self.growth < 2.0:
            raise SettingError(
                f"{type(self).__name__}.growth must be in [1, 2); found {self.growth}. Change `growth=`."
            )


@dataclass(frozen=True)
class AcceleratedGradientState:
    """Everything the method carries from step to step."""

    place: Measured
    """Where the next step begins, and what was measured there."""
    before: Tensor
    """The last proximal point, from which the momentum comes; after a restart, `place`."""
    momentum: float
    """`t`; 1: none."""
    safeguard: Safeguard


class AcceleratedGradient(Solver[AcceleratedGradientState]):
    """See the module's text."""

    def __init__(self, config: AcceleratedGradientConfig) -> None:
        self.config = config

    def init(self, start: Tensor, oracle: CompositeOracle, communicator: Communicator) -> AcceleratedGradientState:
        found = self._measure(start, oracle, communicator)
        # The curvature depends on the dual variables, and is to be that of their best values.
        if self.config.monotone:
            step_size, _, _ = guarded_step(self.config, oracle, communicator, found.point, scaled=False)
        else:
            step_size = first_step(self.config, oracle, communicator, found.point)
        safeguard, _ = watch(step_size, math.inf, start, oracle.smoothing_error).judge(found)
        return AcceleratedGradientState(found, found.point, 1.0, safeguard)

    def step(
        self, state: AcceleratedGradientState, oracle: CompositeOracle, communicator: Communicator
    ) -> AcceleratedGradientState:
        place, before = state.place, state.before
        step_size = state.safeguard.step_size
        point = oracle.prox(descend(place.point, place.estimates, oracle, step_size), step_size)
        against = float((place.point - point).dot(point - before)) > 0.0
        momentum = 1.0 if against else state.momentum
        grown = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * momentum * momentum))
        share = (momentum - 1.0) / grown
        found = self._measure(_ahead(point, before, share, oracle), oracle, communicator)
        # Where there was momentum, a rise says nothing about the step size.
        undo = self.config.monotone and share == 0.0
        safeguard, _ = state.safeguard.judge(found, recovery=self.config.growth, undo=undo)
        allowed = _allowed_step(place, found, step_size, oracle)
        safeguard = replace(safeguard, step_size=min(safeguard.step_size, allowed))
        accepted = safeguard.accepted
        if self.config.monotone and accepted is not None and accepted is not found:
            return AcceleratedGradientState(accepted, accepted.point, 1.0, safeguard)
        return AcceleratedGradientState(found, point, grown, safeguard)

    def _measure(self, point: Tensor, oracle: CompositeOracle, communicator: Communicator) -> Measured:
        settled = settle(oracle, communicator, point, oracle.draw())
        return measured(oracle, settled.point, settled.estimates, original=settled.original)

    def solution(self, state: AcceleratedGradientState) -> Tensor:
        kept = state.safeguard.best_point
        return kept if self.config.monotone and kept is not None else state.before

    def resting(self, state: AcceleratedGradientState) -> bool:
        return not self.config.monotone or state.safeguard.judged

    def stalled(self, state: AcceleratedGradientState) -> bool:
        return self.config.monotone and state.safeguard.stalled

    def sharpen(
        self, state: AcceleratedGradientState, oracle: CompositeOracle, communicator: Communicator
    ) -> AcceleratedGradientState:
        """Go on from what was accepted, with the same step size and momentum; the best is that of all stages."""
        last = state.safeguard
        if not self.config.monotone or last.accepted is None or not oracle.comparable:
            return super().sharpen(state, oracle, communicator)
        found = self._measure(last.accepted.point, oracle, communicator)
        fresh = watch(last.step_size, math.inf, last.best_point, oracle.smoothing_error)
        safeguard, _ = replace(fresh, best_original=last.best_original).judge(found)
        return AcceleratedGradientState(found, state.before, state.momentum, safeguard)


def _ahead(point: Tensor, before: Tensor, share: float, oracle: CompositeOracle) -> Tensor:
    """Return the extrapolated point, or the nearest one in the domain of `r`."""
    if share == 0.0:
        return point
    ahead = torch.add(point, point - before, alpha=share)
    return ahead if bool(oracle.regularizer_value(ahead).isfinite()) else oracle.prox(ahead, 0.0)


def _allowed_step(place: Measured, found: Measured, step_size: float, oracle: CompositeOracle) -> float:
    """Return the longest step that the curvature between two points allows after one of `step_size`."""
    move = found.point - place.point
    change = direction(found.estimates, oracle) - direction(place.estimates, oracle)
    size, along, growth = torch.stack([move.dot(move), move.dot(change), change.dot(change)]).tolist()
    # Below the last digits of the objective the change of the gradient may be rounding; nothing follows, either way,
    # from what is no number.
    if not (abs(along) > rounding(place.value, move.dtype) and math.isfinite(growth) and growth > 0.0):
        return math.inf
    # Where the gradient turns back there is no curvature of a convex function, but still one that is large.
    longest = along / growth if along > 0.0 else math.sqrt(size / growth)
    return max(longest, _SHORTEST * step_size)


def entry() -> SolverEntry:
    """Return the catalogue entry."""
    return SolverEntry(
        name="accelerated_gradient",
        summary="Accelerated proximal gradient descent (FISTA) on all rows, with restarts.",
        reference="Beck, Teboulle (SIAM J. Imaging Sciences 2009); O'Donoghue, Candes (Found. Comput. Math. 2015)",
        config=AcceleratedGradientConfig,
        factory=AcceleratedGradient,
        accepts=(Composite,),
        rate="linear",
        goal_gap=1e-8,
        goal_passes=60.0,
        calls_per_step=lambda _config, oracle: {oracle.samples + oracle.constraints},
    )

"""Limited-memory BFGS on the exact objective, with proximal steps where the regularizer has kinks or bounds.

    smooth r    z = x - H (Phi'(x) + r'(x)),                                  H = B^-1 from the last moves
    other r     z = argmin <Phi'(x), z - x> + (z - x)^T B (z - x) / 2 + r(z),   by iterations that ask for no data
    x <- x + t (z - x),    t from a line search on Phi + r over all rows

State: the place that was accepted last, the line search that has begun there, the point that it tries next, the pairs
of moves and changes of the gradient, and the solution: of all points that were measured, the best by the objective of
the problem itself. Cost of a step: m oracle calls, since each trial of a search is a step of its own; most searches
accept their first. The proximal maps of the iterations within are counted as projections where they are such.

The method ends by itself where the decrease that its model predicts, or that it finds in ten steps, is nothing that the
numbers could show: at an optimum, after one search where the start is one.

Reference: Liu, Nocedal, "On the limited memory BFGS method for large scale optimization" (Mathematical Programming,
1989), algorithm 2.1; for other r: Lee, Sun, Saunders, "Proximal Newton-type methods for minimizing composite functions"
(SIAM Journal on Optimization, 2014), algorithm 1.
Deviations: the first move has at most the length 1; a pair with too little curvature is left out; a search without
success forgets the pairs, and the next one goes along a plain (proximal) gradient step with the last curvature; a dual
variable is set to its best value wherever the objective is measured, and pairs are differences of such points, so that
the parameters move as on the objective without that variable; a stage of a continuation begins with the pairs of the
one before.
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
    SettingError,
    Solver,
    direction,
    measured,
    require_one_of,
    require_positive,
    rounding,
    settle,
)
from drobench_plugins.solvers.pieces.curvature_pairs import CurvaturePairs, no_pairs
from drobench_plugins.solvers.pieces.line_state import Line, SearchRule, search
from drobench_plugins.solvers.pieces.scaled_step import scaled_step

# A prediction is of first order only, and where curvatures differ much it is far below what is still to be had.
_SHARE_OF_ROUNDING = 0.01
_MOST_IDLE = 10
# Below this share of what smoothing may change, progress on a smoothed problem says nothing about the problem.
_STALL = 0.1


@dataclass(kw_only=True)
class LbfgsConfig:
    """Hyperparameters of L-BFGS."""

    memory: int = 20
    """Pairs of moves and changes of the gradient that are remembered."""
    line_search: str = "armijo"
    """`armijo`: enough decrease. `strong_wolfe`: also a flatter slope, for smooth regularizers; costs more passes."""
    sufficient: float = 1e-4
    """Share of the predicted decrease that a trial must reach."""
    flat: float = 0.9
    """Share of the slope at the beginning that `strong_wolfe` leaves at most."""
    most_trials: int = 20
    """Trials of a search before the pairs are forgotten."""
    least_cosine: float = 1e-10
    """Cosine between move and change of the gradient below which a pair is left out."""
    inner_tolerance: float = 0.1
    """For other than smooth regularizers: residual of the scaled proximal step over that of a plain one."""
    inner_iterations: int = 200
    """Iterations of a scaled proximal step at most."""

    def __post_init__(self) -> None:
        require_one_of(self, "line_search", ("armijo", "strong_wolfe"))
        require_positive(self, "memory", "sufficient", "flat", "most_trials", "least_cosine")
        require_positive(self, "inner_tolerance", "inner_iterations")
        if not self.sufficient < self.flat < 1.0:
            raise SettingError(
                f"LbfgsConfig needs sufficient < flat < 1, or no length need satisfy both conditions; found "
                f"sufficient={self.sufficient} and flat={self.flat}."
            )


@dataclass(frozen=True)
class Place:
    """A point with what was measured there."""

    point: Tensor
    value: float
    gradient: Tensor
    """Of `Phi`, and of a smooth `r` too."""
    original: float
    """The objective of the problem itself, without any smoothing."""


@dataclass(frozen=True)
class LbfgsState:
    """Everything the method carries from step to step."""

    # Change with each step.
    point: Tensor
    """Where the next step measures."""
    best_point: Tensor
    """Where the objective of the problem itself is lowest, of all that was measured; at first, the start."""
    best_original: float = math.inf
    # Change where a trial is accepted.
    pairs: CurvaturePairs | None = None
    """`None` before anything was measured."""
    lowest_value: float = math.inf
    idle: int = 0
    """Accepted trials since the last that was the lowest."""
    gained: float = math.inf
    """By how much the last accepted trial was below the place before."""
    place: Place | None = None
    target: Tensor | None = None
    """Where a step of length 1 from `place` leads."""
    line: Line | None = None
    over: bool = False
    # Changes with each stage of a continuation.
    smoothing_error: float = 0.0
    """By how much smoothing can change the objective that is measured."""


class Lbfgs(Solver[LbfgsState]):
    """See the module's text."""

    def __init__(self, config: LbfgsConfig) -> None:
        self.config = config

    def init(self, start: Tensor, oracle: CompositeOracle, communicator: Communicator) -> LbfgsState:
        # Where the start is outside the domain of r, the search begins at the nearest point inside.
        inside = bool(oracle.regularizer_value(start).isfinite())
        point = start if inside else oracle.prox(start, 0.0)
        return LbfgsState(point, start, smoothing_error=oracle.smoothing_error)

    def step(self, state: LbfgsState, oracle: CompositeOracle, communicator: Communicator) -> LbfgsState:
        if state.over:
            return state
        found = self._measure(state.point, oracle, communicator)
        if found.original < state.best_original:
            state = replace(state, best_point=found.point, best_original=found.original)
        if state.place is None:
            return self._begin(state, found, oracle)
        assert state.target is not None
        assert state.line is not None
        assert state.pairs is not None
        move, rule = state.target - state.place.point, self._rule(oracle)
        slope = float(move.dot(found.gradient)) if rule.flat is not None else math.nan
        line = state.line.tried(found.value, slope, found.point.dtype, rule)
        if line is None:
            return self._accept(state, found, oracle)
        if line.trials < self.config.most_trials:
            return replace(state, point=torch.add(state.place.point, move, alpha=line.length), line=line)
        if not state.pairs.count:
            return replace(state, over=True)
        return self._aim(replace(state, pairs=no_pairs(found.point, self.config.memory, state.pairs.scale)), oracle)

    def solution(self, state: LbfgsState) -> Tensor:
        return state.best_point

    def ended(self, state: LbfgsState) -> bool:
        return state.over

    def stalled(self, state: LbfgsState) -> bool:
        return state.gained < _STALL * state.smoothing_error

    def resting(self, state: LbfgsState) -> bool:
        """As soon as this stage has accepted a point: one that begins where the last began would be lost."""
        return state.gained < math.inf

    def sharpen(self, state: LbfgsState, oracle: CompositeOracle, communicator: Communicator) -> LbfgsState:
        """Go on from what was accepted, with the curvature known so far; the best is that of all stages."""
        if state.place is None or not oracle.comparable:
            return super().sharpen(state, oracle, communicator)
        fresh = self.init(state.place.point, oracle, communicator)
        return replace(fresh, best_point=state.best_point, best_original=state.best_original, pairs=state.pairs)

    def _measure(self, point: Tensor, oracle: CompositeOracle, communicator: Communicator) -> Place:
        """Measure on all rows; a dual variable takes its best value there."""
        settled = settle(oracle, communicator, point, oracle.draw())
        found = measured(oracle, settled.point, settled.estimates, original=settled.original)
        gradient = direction(found.estimates, oracle)
        if oracle.regularizer_is_smooth:
            gradient = gradient + oracle.regularizer_gradient(found.point)
        return Place(found.point, found.value, gradient, found.original)

    def _rule(self, oracle: CompositeOracle) -> SearchRule:
        # A kink has no slope to be compared.
        wolfe = self.config.line_search == "strong_wolfe" and oracle.regularizer_is_smooth
        return SearchRule(self.config.sufficient, self.config.flat if wolfe else None)

    def _begin(self, state: LbfgsState, found: Place, oracle: CompositeOracle) -> LbfgsState:
        """Return the state after the measurement of the start."""
        size = float(found.gradient.norm())
        if not (math.isfinite(found.value) and math.isfinite(size)):
            # No direction leads from here to a number.
            return replace(state, over=True)
        pairs = state.pairs or no_pairs(found.point, self.config.memory, size or 1.0)
        return self._aim(replace(state, pairs=pairs, lowest_value=found.value, place=found), oracle)

    def _accept(self, state: LbfgsState, found: Place, oracle: CompositeOracle) -> LbfgsState:
        assert state.place is not None
        assert state.pairs is not None
        # A dual variable moves to where it is best, and the move with it: both ends are points that were measured.
        move, change = found.point - state.place.point, found.gradient - state.place.gradient
        pairs = state.pairs.extended(move, change, self.config.least_cosine)
        gained = state.place.value - found.value
        state = replace(state, pairs=pairs, place=found, idle=state.idle + 1, gained=gained)
        if found.value < state.lowest_value:
            state = replace(state, lowest_value=found.value, idle=0)
        return replace(state, over=True) if state.idle > _MOST_IDLE else self._aim(state, oracle)

    def _aim(self, state: LbfgsState, oracle: CompositeOracle) -> LbfgsState:
        """Return the state with a new search, which the next step begins."""
        place, pairs, config = state.place, state.pairs, self.config
        assert place is not None
        assert pairs is not None
        if oracle.regularizer_is_smooth:
            move = pairs.solve(place.gradient).neg_()
            target, slope = place.point + move, float(move.dot(place.gradient))
        else:
            target, slope = scaled_step(
                oracle, place.point, place.gradient, pairs, config.inner_tolerance, config.inner_iterations
            )
        if -slope > _SHARE_OF_ROUNDING * rounding(place.value, place.point.dtype):
            return replace(state, target=target, point=target, line=search(place.value, slope))
        if not pairs.count:
            return replace(state, over=True)
        # Rounding may have spoilt the pairs: a plain step says whether this is an optimum.
        return self._aim(replace(state, pairs=no_pairs(place.point, config.memory, pairs.scale)), oracle)


def entry() -> SolverEntry:
    """Return the catalogue entry."""
    return SolverEntry(
        name="lbfgs",
        summary="Limited-memory BFGS on all rows, with proximal steps where the regularizer is not smooth.",
        reference="Liu, Nocedal (Mathematical Programming 1989); Lee, Sun, Saunders (SIAM J. Optimization 2014)",
        config=LbfgsConfig,
        factory=Lbfgs,
        accepts=(Composite,),
        rate="linear",
        goal_gap=1e-8,
        goal_passes=60.0,
        calls_per_step=lambda _config, oracle: {0, oracle.samples + oracle.constraints},
    )

"""GCIVR in the metric of the Hessian, with draws of the rows that matter, and batches that grow.

    look     y, z, w and the value on all rows and, in the same sweep, the Hessian H: the metric P      begin_epoch
    step     x_prev, x = x, argmin_v <z^T f'(y) + w, v - x> + (v - x)^T P (v - x) / (2 eta) + r(v)      step
    draw     S rows by their leverage in P, each counting with 1 / (m q_i)
             y += mean_S [g(x) - g(x_prev)],  z and w alike                                             advance

An epoch is a look, one step from what it found (a Newton step), and `inner_steps` steps after a draw each. The Hessian
of a composite holds the worst-case distribution, so that leverage favours the rows that the adversary cares about, and
those of rare categories too: gradients of means are then off by about `sqrt(d / S)` of the last move, whatever the
data. Draws of less than ten rows a variable, or of more than a quarter of all rows, are not worth it: there epochs are
Newton steps alone.

Where there are many rows the first looks are at fresh draws of some, each `growth` times as large as the one before.
The step from each is tried on other fresh rows, a quarter as many, at both of its ends, and undone if it goes up there.
All this takes half a pass, and leads to about the accuracy of the largest draw before all rows have been looked at.

With more than `largest_matrix` variables, or where a model has products with vectors only, P is a Nystrom sketch from
`rank` products on some rows, half a pass in all, and draws are by the worst-case distribution.

State: point and previous point, estimates, metric (d^2 numbers, or d times `rank`), chances of the rows (m numbers),
the safeguard with the last accepted measurement. Cost of an epoch: m + 2 S inner_steps oracle calls, S counting rows
that come several times once.

What is returned was measured on all rows, and has the lowest objective of the problem itself, the start's at first.
Where the first looks are at draws, and none has been at all rows yet, it is the last point that was tried with success.

References: Haddadpour, Kamani, Mahdavi, Karbasi (ICLR 2022), Algorithm 1, for the estimates; Frangella, Rathore, Zhao,
Udell, "PROMISE: preconditioned stochastic optimization methods by incorporating scalable curvature estimates" (JMLR
2024), for sketched metrics in variance-reduced methods, which are not compositional.
"""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from drobench.registry import SolverEntry
from drobench.solver import (
    Capability,
    Communicator,
    Composite,
    CompositeOracle,
    Measured,
    Rows,
    Safeguard,
    SettingError,
    Sketch,
    Solver,
    WeightedDraws,
    advance,
    check_products,
    direction,
    hessian,
    hessian_product,
    leverage_draws,
    measured,
    metric_factor,
    metric_step,
    refresh,
    require_non_negative,
    require_one_of,
    require_positive,
    sample_pair,
    settle,
    sketch,
    watch,
    weighted_draws,
)

# Rows of a draw for each variable, and their largest share of all.
_ROWS_PER_VARIABLE, _LARGEST_SHARE = 10, 0.25
_BATCH_SHARE = 0.1
# The first look, where it is not at all rows: at least so many, and so many for each variable.
_FIRST_ROWS, _FIRST_PER_VARIABLE = 1000, 20
# Of all rows: a look at more of them costs about as much as one at all, and says less.
_LARGEST_LOOK = 0.3
# Of the rows of such a look: fresh ones on which the step from there is tried.
_TRIED_SHARE = 0.25
# What a sketch costs of its look, unless its rows would be too few to know so many directions; then as much again.
_SKETCH_PASSES, _ROWS_PER_PRODUCT = 0.5, 2
# The step size after one that failed grows back to the whole step, which is right near the optimum.
_RECOVERY = 1.9


@dataclass(kw_only=True)
class PreconditionedGcivrConfig:
    """Hyperparameters of preconditioned GCIVR."""

    inner_steps: int = 2
    """Steps of an epoch after its first, each after a draw; 0: Newton steps alone."""
    batch: int | None = None
    """S, draws before each of these; null: a tenth of the rows, at least ten for each variable, and no such steps where
    that is more than a quarter of all."""
    sampling: str = "weighted"
    """`weighted`: rows are drawn by their leverage in the metric, or by the worst-case distribution where that is not
    known. `uniform`: all alike."""
    first_batch: int | None = None
    """Rows of the first look; null: 20 for each variable and at least 1000, or all rows where there are constraints or
    dual variables. More than three tenths of the rows are always all of them."""
    growth: float = 4.0
    """By how much looks grow until they are at all rows."""
    largest_matrix: int = 2000
    """Variables up to which the metric is the Hessian; beyond, it is a sketch."""
    rank: int = 50
    """Of the sketch: products with vectors that it is made of; less where these would be more than a pass."""

    def __post_init__(self) -> None:
        require_non_negative(self, "inner_steps")
        require_positive(self, "batch", "first_batch", "largest_matrix", "rank")
        require_one_of(self, "sampling", ("weighted", "uniform"))
        if not 1.0 < self.growth < math.inf:
            raise SettingError(
                f"{type(self).__name__}.growth must be a number above 1, or looks would never reach all rows; found "
                f"{self.growth}. Change `growth=`."
            )


@dataclass(frozen=True)
class StepMetric:
    """`P`: a triangular factor or a sketch."""

    factor: Tensor | None
    sketch: Sketch | None

    def step(self, oracle: CompositeOracle, point: Tensor, gradient: Tensor, length: float) -> Tensor:
        """Return the proximal step from `point`, where the smooth part has this gradient."""
        if self.factor is not None:
            return metric_step(oracle, point, gradient, self.factor, length)
        assert self.sketch is not None
        return point - length * self.sketch.solve(gradient + oracle.regularizer_gradient(point))


@dataclass(frozen=True)
class PreconditionedState:
    """Everything the method carries from step to step."""

    # Every step.
    point: Tensor
    previous: Tensor
    position: int
    """Step within the epoch; 0 means that it is time for a look."""
    # Every epoch.
    here: Measured | None
    """The accepted look at which the epoch began, with estimates that follow the steps."""
    looked: int
    """Rows of the last look; 0 before the first."""
    safeguard: Safeguard
    metric: StepMetric | None
    draws: WeightedDraws | None


class PreconditionedGcivr(Solver[PreconditionedState]):
    """See the module's text."""

    def __init__(self, config: PreconditionedGcivrConfig) -> None:
        self.config = config

    def init(self, start: Tensor, oracle: CompositeOracle, communicator: Communicator) -> PreconditionedState:
        if not self._has_matrix(oracle):
            check_products(oracle, "preconditioned_gcivr", self.config.largest_matrix, "lbfgs")
        safeguard = watch(1.0, 1.0, start, oracle.smoothing_error)
        return PreconditionedState(start, start, 0, None, 0, safeguard, None, None)

    def step(
        self, state: PreconditionedState, oracle: CompositeOracle, communicator: Communicator
    ) -> PreconditionedState:
        sound = False
        if state.position > 0 and state.looked < oracle.samples:
            return self._try(state, oracle, communicator)
        if state.position > 0 and state.here is not None:
            rows = self._draw(state, oracle)
            moved = state.here.estimates, oracle, communicator, state.point, state.previous, rows
            estimates, sound = advance(*moved)
            state = replace(state, here=replace(state.here, estimates=estimates))
        if not sound:
            state = self.begin_epoch(state, oracle, communicator)
        assert state.here is not None
        assert state.metric is not None
        gradient = direction(state.here.estimates, oracle)
        point = state.metric.step(oracle, state.point, gradient, state.safeguard.step_size)
        position = (state.position + 1) % self._length(state, oracle)
        return replace(state, point=point, previous=state.point, position=position)

    def begin_epoch(
        self, state: PreconditionedState, oracle: CompositeOracle, communicator: Communicator
    ) -> PreconditionedState:
        looked = self._next_look(state, oracle)
        if looked < oracle.samples:
            return self._look_at_some(state, looked, oracle, communicator)
        rows = oracle.draw()
        settled = settle(oracle, communicator, state.point, rows)
        found = measured(oracle, settled.point, settled.estimates, original=settled.original)
        # Near the optimum the whole step is right, whatever has failed before.
        before = replace(state.safeguard, largest=state.safeguard.ceiling)
        safeguard, place = before.judge(found, recovery=_RECOVERY)
        state = replace(state, point=place.point, position=0, here=place, looked=max(looked, 1), safeguard=safeguard)
        if place is not found and state.metric is not None:
            return state
        looked_at = oracle, communicator, place.point, place.estimates, rows
        weighted = self.config.sampling == "weighted" and oracle.weighs_rows and self._batch(oracle) is not None
        if self._has_matrix(oracle) and oracle.has_leverages:
            metric = self._matrix(place, rows, oracle, communicator)
            assert metric.factor is not None
            return replace(state, metric=metric, draws=leverage_draws(*looked_at, metric.factor) if weighted else None)
        draws = weighted_draws(*looked_at) if weighted else None
        return replace(state, metric=self._metric(place, rows, draws, looked, oracle, communicator), draws=draws)

    def solution(self, state: PreconditionedState) -> Tensor:
        assert state.safeguard.best_point is not None
        return state.safeguard.best_point

    def stalled(self, state: PreconditionedState) -> bool:
        return state.safeguard.stalled

    def resting(self, state: PreconditionedState) -> bool:
        """Right after an epoch of this stage was judged: one that nobody has judged would be lost."""
        return state.safeguard.judged and state.position <= 1

    def sharpen(
        self, state: PreconditionedState, oracle: CompositeOracle, communicator: Communicator
    ) -> PreconditionedState:
        """Begin anew from what was accepted, without forgetting the best of all stages."""
        before = state.safeguard
        if before.accepted is None or not oracle.comparable:
            return super().sharpen(state, oracle, communicator)
        fresh = self.init(before.accepted.point, oracle, communicator)
        safeguard = replace(fresh.safeguard, best_point=before.best_point, best_original=before.best_original)
        return replace(fresh, safeguard=safeguard, looked=state.looked)

    def _look_at_some(
        self, state: PreconditionedState, looked: int, oracle: CompositeOracle, communicator: Communicator
    ) -> PreconditionedState:
        """Look at fresh rows; where the step from there leads to is tried afterwards, on others."""
        rows = oracle.draw(looked)
        place = measured(oracle, state.point, refresh(oracle, communicator, state.point, rows))
        metric = self._metric(place, rows, None, looked, oracle, communicator)
        return replace(state, position=0, here=place, looked=looked, metric=metric)

    def _try(
        self, state: PreconditionedState, oracle: CompositeOracle, communicator: Communicator
    ) -> PreconditionedState:
        """Compare a point with the one it came from, on fresh rows; what is higher there is undone."""
        assert state.here is not None
        rows = oracle.draw(max(1, int(_TRIED_SHARE * state.looked)))
        points = state.point, state.previous
        pair = sample_pair(oracle, communicator, torch.stack(points), rows, state.here.estimates.shift)[:2]
        there, before = (measured(oracle, *each).value for each in zip(points, pair, strict=True))
        safeguard = state.safeguard
        if there <= before:
            safeguard = replace(safeguard, step_size=min(1.0, _RECOVERY * safeguard.step_size))
            # What an earlier stage has measured on all rows is not given up for this.
            if math.isinf(safeguard.best_original):
                safeguard = replace(safeguard, best_point=state.point)
            return replace(state, position=0, safeguard=safeguard)
        safeguard = replace(safeguard, step_size=0.5 * safeguard.step_size)
        return replace(state, point=state.previous, position=0, safeguard=safeguard)

    def _metric(
        self,
        place: Measured,
        rows: Rows,
        draws: WeightedDraws | None,
        looked: int,
        oracle: CompositeOracle,
        communicator: Communicator,
    ) -> StepMetric:
        """Return the metric at a point that was just measured on `rows`."""
        if self._has_matrix(oracle):
            return self._matrix(place, rows, oracle, communicator)
        rank = min(self.config.rank, max(1, math.isqrt(looked // _ROWS_PER_PRODUCT)))
        size = max(_ROWS_PER_PRODUCT * rank, int(_SKETCH_PASSES * looked / rank))
        some = oracle.draw(size, size) if draws is None else draws.draw(oracle, size)

        def product(vector: Tensor) -> Tensor:
            return hessian_product(oracle, communicator, place.point, place.estimates, some, vector)

        ridge = float(oracle.regularizer_curvature(place.point).mean())
        return StepMetric(None, sketch(product, place.point, rank, oracle.generator, ridge))

    def _matrix(self, place: Measured, rows: Rows, oracle: CompositeOracle, communicator: Communicator) -> StepMetric:
        matrix = hessian(oracle, communicator, place.point, place.estimates, rows)
        return StepMetric(metric_factor(oracle, matrix, place.point), None)

    def _draw(self, state: PreconditionedState, oracle: CompositeOracle) -> Rows:
        size = self._batch(oracle)
        assert size is not None
        return oracle.draw(size, size) if state.draws is None else state.draws.draw(oracle, size)

    def _length(self, state: PreconditionedState, oracle: CompositeOracle) -> int:
        """Return the number of steps of the epoch."""
        if state.looked < oracle.samples:
            return 2
        return 1 if self._batch(oracle) is None else 1 + self.config.inner_steps

    def _batch(self, oracle: CompositeOracle) -> int | None:
        """Return S, or `None` where draws are not worth it."""
        if self.config.batch is not None or not self.config.inner_steps:
            return self.config.batch
        size = max(int(_BATCH_SHARE * oracle.samples), _ROWS_PER_VARIABLE * self._variables(oracle))
        return size if size <= _LARGEST_SHARE * oracle.samples else None

    def _next_look(self, state: PreconditionedState, oracle: CompositeOracle) -> int:
        """Return at how many rows to look next."""
        everything = oracle.samples
        if state.looked:
            size = math.ceil(self.config.growth * state.looked)
        elif self.config.first_batch is not None:
            size = self.config.first_batch
        elif oracle.settles or oracle.constraints:
            return everything
        else:
            size = max(_FIRST_ROWS, _FIRST_PER_VARIABLE * self._variables(oracle))
        return size if size <= _LARGEST_LOOK * everything else everything

    def _variables(self, oracle: CompositeOracle) -> int:
        """Return how many directions the metric knows."""
        return oracle.dimension if self._has_matrix(oracle) else min(self.config.rank, oracle.dimension)

    def _has_matrix(self, oracle: CompositeOracle) -> bool:
        return oracle.has_hessian and oracle.dimension <= self.config.largest_matrix


def entry() -> SolverEntry:
    """Return the catalogue entry."""
    return SolverEntry(
        name="preconditioned_gcivr",
        summary="GCIVR in the metric of the Hessian, with draws by leverage and batches that grow.",
        reference="Haddadpour, Kamani, Mahdavi, Karbasi (ICLR 2022); Frangella, Rathore, Zhao, Udell (JMLR 2024)",
        config=PreconditionedGcivrConfig,
        factory=PreconditionedGcivr,
        accepts=(Composite,),
        requires=(Capability.SECOND_DERIVATIVES,),
        rate="linear",
        goal_gap=1e-8,
        goal_passes=60.0,
    )

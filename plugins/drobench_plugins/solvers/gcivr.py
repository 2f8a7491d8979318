"""GCIVR: generalized composite incremental variance reduction.

Method for `min r(x) + mean h_i(x) + f(mean g_i(x))`: recursive estimates of inner value, inner Jacobian and loss
gradient, reset on a large batch at the start of every epoch, and one proximal step per estimate. Algorithm 1, with the
step size that its printed update lacks, and the refresh at the epoch's first point:

    for epochs t = 1, 2, ...
        y = mean_B g(x),  z = mean_B g'(x),  w = mean_B h'(x)                                       begin_epoch
        tau times:  x_prev, x = x, prox_{eta r}(x - eta (z^T f'(y) + w))                            step
                    y += mean_S [g(x) - g(x_prev)],  z and w alike                                  advance

State: the point and the previous point, the estimates (p + p d + d numbers), the position in the epoch, what is
remembered of the iterates, the last accepted measurement. Cost of an epoch: B + 2 S (tau - 1) oracle calls.

Reference: Haddadpour, Kamani, Mahdavi, Karbasi, "Learning Distributionally Robust Models at Scale via Composite
Optimization", ICLR 2022, Algorithm 1; after Zhang and Xiao's CIVR (2019). Recipes of its theorems, corrected, are the
experiments `theorem_*`: strong convexity by `schedule=square_root` and `restarts`, no convexity by `schedule=adaptive`
and `output=random`, the step size of both by `step_rule=theorem`.

Deviations from the printed algorithm, all of them configurable:
    - constant schedule S = sqrt(m)/2, tau = 2 sqrt(m), eta = 1/L instead of tau = S = sqrt(m) (same cost, steadier);
    - monotone safeguard: an epoch that ends above the accepted objective is undone and the step size is halved, or cut
      more where failures follow one another or are large; it grows back by `recovery` with every accepted epoch, up to
      where it started. What is returned was measured on all rows, and is never above the start in the objective of the
      problem itself; before the first such measurement it is the start;
    - where the form has a scalar dual variable (KL and chi-square balls, CVaR), every refresh on all rows sets it to
      its best value for the losses just measured, and steps have a length of their own for it, such that it curves
      like the parameters;
    - with `sampling=weighted` rows are drawn by the worst-case distribution of the last refresh on all rows;
    - a stage of a continuation that gains less in an epoch than a tenth of what its smoothing may change is over;
    - an epoch ends early when the inner value falls below what the sampled rows prove it must exceed.
"""

from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from drobench.registry import SolverEntry
from drobench.solver import (
    Communicator,
    Composite,
    CompositeOracle,
    Draw,
    Epoch,
    EpochMethod,
    Estimates,
    Rows,
    Safeguard,
    Solver,
    Trail,
    WeightedDraws,
    advance,
    check_weighted,
    curvature_share,
    descend,
    guarded_step,
    measured,
    no_trail,
    refresh,
    settle,
    step_by_rule,
    watch,
    weighted_draws,
    with_restarts,
)
from drobench_plugins.solvers.pieces.gcivr_config import GcivrConfig

# Passes above which the curvature is not measured again in a later stage, and how short a step may get instead.
_DEAR, _SMALLEST_RATIO = 1.0, 0.1


@dataclass(frozen=True)
class GcivrState:
    """Everything GCIVR carries from step to step."""

    # Every step.
    point: Tensor
    previous: Tensor
    estimates: Estimates | None
    position: int
    """Step within the epoch; 0 means that the estimates are to be measured afresh."""
    trail: Trail
    # Every epoch.
    epoch: int
    """Epochs begun."""
    sizes: Epoch
    safeguard: Safeguard
    # Every stage of a continuation.
    dual_scale: float = 1.0
    """How much longer steps are for a dual variable than for the parameters."""
    # Every refresh on all rows that is accepted.
    draws: WeightedDraws | None = None


class Gcivr(EpochMethod[GcivrState]):
    """See the module's text."""

    def __init__(self, config: GcivrConfig) -> None:
        self.config, self.monotone = config, config.monotone

    def init(self, start: Tensor, oracle: CompositeOracle, communicator: Communicator) -> GcivrState:
        return self._begin(start, oracle, communicator, None)

    def _begin(
        self,
        start: Tensor,
        oracle: CompositeOracle,
        communicator: Communicator,
        known: tuple[float, float, float] | None,
    ) -> GcivrState:
        """Return the first state of a stage, with a `known` step size, its ceiling and scale, or one from the data."""
        if self.config.sampling == "weighted":
            check_weighted(oracle, type(self).__name__.lower())
        trail = no_trail(start, average=self.config.average)
        sizes = self.config.epoch(0, oracle.samples, oracle.constraints)
        point, found, draws = start, None, None
        if self.monotone and oracle.settles and sizes.refresh is None:
            # The curvature depends on the dual variables, and is to be that of their best values.
            rows = self.draw(oracle, communicator, None, None)
            settled = settle(oracle, communicator, start, rows)
            found = measured(oracle, settled.point, settled.estimates, trail, settled.original)
            point = settled.point
            draws = self._weighted(point, found.estimates, rows, oracle, communicator)
        if known is not None:
            step_size, ceiling, scale = known
        elif self.monotone:
            step_size, ceiling, scale = guarded_step(self.config, oracle, communicator, point)
        else:
            ceiling, scale = step_by_rule(self.config, oracle, communicator, point), 1.0
            step_size = ceiling if self.config.step_size is not None else min(ceiling, oracle.largest_step)
        safeguard = watch(step_size, ceiling, start, oracle.smoothing_error)
        if found is not None:
            safeguard, _ = safeguard.judge(found)
        estimates = None if found is None else found.estimates
        return GcivrState(point, point, estimates, 0, trail, 0, Epoch(1, None, 1, 1), safeguard, scale, draws)

    def step(self, state: GcivrState, oracle: CompositeOracle, communicator: Communicator) -> GcivrState:
        estimates, sound = state.estimates, False
        if state.position > 0 and estimates is not None:
            rows = self._draw(state, oracle, communicator)
            estimates, sound = advance(estimates, oracle, communicator, state.point, state.previous, rows)
        if not sound:
            state = self.begin_epoch(state, oracle, communicator)
            estimates = state.estimates
        assert estimates is not None
        step_size = state.safeguard.step_size
        point = self.descend(state.point, estimates, oracle, step_size)
        if state.dual_scale == 1.0:
            point = oracle.prox(point, step_size)
        else:
            point[-oracle.scaled_duals :].lerp_(state.point[-oracle.scaled_duals :], 1.0 - state.dual_scale)
            point = oracle.scaled_prox(point, step_size, state.dual_scale)
        trail = state.trail.extend(point, oracle.generator, choose=self.config.output == "random")
        position = (state.position + 1) % state.sizes.length
        # Spelled out: `dataclasses.replace` would be a tenth of a short step.
        return GcivrState(
            point,
            state.point,
            estimates,
            position,
            trail,
            state.epoch,
            state.sizes,
            state.safeguard,
            state.dual_scale,
            state.draws,
        )

    def begin_epoch(self, state: GcivrState, oracle: CompositeOracle, communicator: Communicator) -> GcivrState:
        sizes = self.config.epoch(state.epoch, oracle.samples, oracle.constraints)
        if state.epoch == 0 and state.estimates is not None:
            # Measured when the method began.
            return replace(state, position=0, epoch=1, sizes=sizes)
        rows = self.draw(oracle, communicator, sizes.refresh, sizes.refresh)
        state = replace(state, position=0, epoch=state.epoch + 1, sizes=sizes)
        if sizes.refresh is not None or not (self.monotone or self.config.output == "best_snapshot"):
            estimates = refresh(oracle, communicator, state.point, rows)
            draws = (
                self._weighted(state.point, estimates, rows, oracle, communicator) if sizes.refresh is None else None
            )
            return replace(state, estimates=estimates, draws=draws)
        settled = settle(oracle, communicator, state.point, rows)
        found = measured(oracle, settled.point, settled.estimates, state.trail, settled.original)
        safeguard, place = state.safeguard.judge(found, recovery=self.config.recovery, undo=self.monotone)
        assert place.trail is not None
        draws = state.draws
        if place is found:
            draws = self._weighted(found.point, found.estimates, rows, oracle, communicator)
        return replace(
            state, point=place.point, estimates=place.estimates, trail=place.trail, safeguard=safeguard, draws=draws
        )

    def begin_stage(self, state: GcivrState) -> GcivrState:
        if self.config.output == "last":
            return state
        point, safeguard = self.solution(state), state.safeguard
        if self.config.output == "random":
            # It may lie above what the safeguard has accepted, which says nothing about the step size.
            safeguard = replace(safeguard, accepted=None)
        trail = no_trail(point, average=self.config.average)
        return replace(state, point=point, previous=point, safeguard=safeguard, trail=trail)

    def solution(self, state: GcivrState) -> Tensor:
        if self.config.output == "random":
            return state.trail.chosen
        best = state.safeguard.accepted
        if self.config.output == "best_snapshot":
            return state.point if best is None else best.point
        kept = state.safeguard.best_point
        return kept if self.monotone and state.sizes.refresh is None and kept is not None else state.point

    def stalled(self, state: GcivrState) -> bool:
        return self.monotone and state.safeguard.stalled

    def resting(self, state: GcivrState) -> bool:
        """Right after an epoch of this stage was judged: one that nobody has judged would be lost."""
        if not self.monotone or state.sizes.refresh is not None:
            return True
        return state.safeguard.judged and state.position == 1 % state.sizes.length

    def sharpen(self, state: GcivrState, oracle: CompositeOracle, communicator: Communicator) -> GcivrState:
        """Begin anew from what was accepted, without forgetting the best of all stages."""
        before = state.safeguard
        accepted = before.accepted
        if not self.monotone or self.config.output != "last" or accepted is None or not oracle.comparable:
            return super().sharpen(state, oracle, communicator)
        known = None
        if curvature_share(oracle) > _DEAR and before.smoothing_error > 0.0:
            # On small data another look at the curvature costs as much as an epoch.
            ratio = min(max(oracle.smoothing_error / before.smoothing_error, _SMALLEST_RATIO), 1.0)
            known = min(ratio * before.step_size, oracle.largest_step), before.ceiling, state.dual_scale
        fresh = self._begin(accepted.point, oracle, communicator, known)
        safeguard = fresh.safeguard
        if before.best_original <= safeguard.best_original:
            safeguard = replace(safeguard, best_point=before.best_point, best_original=before.best_original)
        return replace(fresh, safeguard=safeguard, trail=accepted.trail or fresh.trail)

    def average(self, state: GcivrState) -> Tensor | None:
        return state.trail.mean if state.trail.visited else None

    def draw(
        self, oracle: CompositeOracle, communicator: Communicator, samples: int | None, constraints: int | None
    ) -> Draw:
        """Return a draw of so many rows, or of all; clients have their own way."""
        return oracle.draw(samples, constraints, replacement=self.config.replacement)

    def _draw(self, state: GcivrState, oracle: CompositeOracle, communicator: Communicator) -> Draw:
        """Return the rows of a step."""
        sizes = state.sizes
        if state.draws is not None and sizes.batch is not None:
            return state.draws.draw(oracle, sizes.batch)
        return self.draw(oracle, communicator, sizes.batch, sizes.constraint_batch)

    def _weighted(
        self, point: Tensor, estimates: Estimates, rows: Draw, oracle: CompositeOracle, communicator: Communicator
    ) -> WeightedDraws | None:
        """Return draws by the worst-case distribution at what was just measured on all rows, if they are wanted."""
        if self.config.sampling != "weighted":
            return None
        assert isinstance(rows, Rows)
        return weighted_draws(oracle, communicator, point, estimates, rows)

    def descend(self, point: Tensor, estimates: Estimates, oracle: CompositeOracle, step_size: float) -> Tensor:
        """Return `point - step_size (z^T f'(y) + w)`."""
        return descend(point, estimates, oracle, step_size)


def build(config: GcivrConfig) -> Solver[Any]:
    """Return the method, in stages where the settings ask for them."""
    return with_restarts(Gcivr(config), config)


def entry() -> SolverEntry:
    """Return the catalogue entry."""
    return SolverEntry(
        name="gcivr",
        summary="Composite variance reduction with recursive estimates and proximal steps.",
        reference="Haddadpour, Kamani, Mahdavi, Karbasi (ICLR 2022), Algorithm 1",
        config=GcivrConfig,
        factory=build,
        accepts=(Composite,),
        # On strongly convex problems, with refreshes on all rows.
        rate="linear",
        config_changes=(
            "output=last with monotone was the last iterate, and is the best of those measured on all rows",
        ),
    )

"""GCIVR: generalized composite incremental variance reduction.

Method for `min r(x) + mean h_i(x) + f(mean g_i(x))`: recursive estimates of inner value, inner Jacobian and loss
gradient, reset on a large batch at the start of every epoch, and one proximal step per estimate.

    refresh  y = mean_B g(x),  z = mean_B g'(x),  w = mean_B h'(x)
    advance  y += mean_S [g(x) - g(x_prev)],  z and w alike
    step     x <- prox_{eta r}(x - eta (z^T f'(y) + w))

State: the point and the previous point, the estimates (p + p d + d numbers), position in the epoch, step size, and the
last accepted snapshot. Cost of an epoch: B + 2 S (tau - 1) oracle calls.

Recipes of the theorems, all off by default; complete ones are the experiments `theorem_*`.
    - Strong convexity: `schedule=square_root` and `restarts` stages of T = max(1, ceil(5 / (sqrt(m) mu eta))) epochs
      each, a stage from the output of the one before. With `output=last` that is one long run of K T epochs.
    - No convexity: `schedule=adaptive`, `output=random`.
    - `step_rule=theorem`: eta = 1 / (L_Phi + sqrt(L_Phi^2 + 3 G_0)) with the constants at the start; see
      `drobench.solver.smoothness`.

Reference: Haddadpour, Kamani, Mahdavi, Karbasi, "Learning Distributionally Robust Models at Scale via Composite
Optimization", ICLR 2022, Algorithm 1; after Zhang and Xiao's CIVR (2019).

Deviations from the printed algorithm, all of them configurable:
    - the step size multiplies the gradient (the printed update has none) and the refresh is at the epoch's first point;
    - constant schedule S = sqrt(m)/2, tau = 2 sqrt(m), eta = 1/L instead of tau = S = sqrt(m) (same cost, steadier);
    - monotone safeguard: an epoch that ends above the accepted objective is undone and the step size is halved; it
      grows back by `recovery` with every accepted epoch, up to where it started;
    - an epoch ends early when the inner value falls below what the sampled rows prove it must exceed.
"""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from drobench.errors import SettingError, require_non_negative, require_one_of, require_positive
from drobench.objective.composite import Composite
from drobench.objective.oracles.composite import CompositeOracle
from drobench.registry import SolverEntry
from drobench.solver import Communicator, Solver
from drobench.solver.curvature import largest_curvature
from drobench.solver.estimators import Draw, Estimates, advance, descend, refresh
from drobench.solver.smoothness import measure_smoothness

# Per accepted epoch, how much the memory of a failed step size fades.
_RELAXATION = 1.1


@dataclass
class GcivrConfig:
    """Hyperparameters of GCIVR; `null` means the rule described at each."""

    schedule: str = "constant"
    """`constant`: tau, S and B as set below. `square_root`: tau = S = sqrt(m), B = m. `adaptive`: q_t = min(growth t +
    initial, sqrt(m)), tau = S = q_t, B = q_t^2."""
    step_size: float | None = None
    """eta; null: by `step_rule`."""
    step_rule: str = "curvature"
    """`curvature`: 1 / L with the largest curvature L at the start. `theorem`: what the descent lemma allows."""
    step_scale: float = 1.0
    """Factor of what `step_rule` gives."""
    restarts: int | None = None
    """K, stages of the strongly convex recipe, after which no more data are asked for; null: one stage without end."""
    stage_epochs: int | None = None
    """T, epochs of a stage; null: max(1, ceil(5 / (sqrt(m) mu eta)))."""
    strong_convexity: float | None = None
    """mu of that rule; null: the regularizer's, such as `problem.l2`."""
    epoch_length: int | None = None
    """tau of the constant schedule; null: 2 sqrt(m)."""
    batch: int | None = None
    """S of the constant schedule; null: sqrt(m) / 2."""
    constraint_batch: int | None = None
    """The same for constraints, where the problem has them; null: `batch`, and without that sqrt(M) / 2 of all M."""
    whole_samples: bool = False
    """Under constraints, evaluate the objective on all samples in every step, and draw only constraints."""
    refresh_batch: int | None = None
    """B of the constant schedule; null: all rows."""
    growth: float = 2.0
    initial: float = 5.0
    monotone: bool = True
    """Undo an epoch that ends higher than it began, and halve the step size; needs refreshes on all rows."""
    recovery: float = 1.5
    """Factor by which an accepted epoch lets a halved step size grow back, up to the first one; 1: never."""
    output: str = "last"
    """`last`, `random` (uniform over all iterates, as the theory has it) or `best_snapshot` (lowest full objective)."""
    average: bool = False
    """Also keep the running mean of the iterates."""
    replacement: bool = False

    def __post_init__(self) -> None:
        require_one_of(self, "schedule", ("constant", "square_root", "adaptive"))
        require_one_of(self, "step_rule", ("curvature", "theorem"))
        require_one_of(self, "output", ("last", "random", "best_snapshot"))
        require_positive(self, "step_size", "step_scale", "epoch_length", "batch", "refresh_batch", "initial")
        require_positive(self, "constraint_batch", "restarts", "stage_epochs", "strong_convexity")
        self._check_restarts()
        if not 1.0 <= self.recovery < 2.0:
            raise SettingError(f"GcivrConfig.recovery must be in [1, 2); found {self.recovery}. Change `recovery=`.")
        require_non_negative(self, "growth")
        if self.output == "best_snapshot" and self.schedule == "constant" and self.refresh_batch is not None:
            raise SettingError(
                "GcivrConfig.output=best_snapshot compares full objectives, which refresh_batch="
                f"{self.refresh_batch} never measures. Use refresh_batch=null or another output."
            )

    def _check_restarts(self) -> None:
        if self.restarts is None:
            given = [name for name in ("stage_epochs", "strong_convexity") if getattr(self, name) is not None]
            if given:
                raise SettingError(
                    f"GcivrConfig.{given[0]} is about the stages of `restarts=`, which is not set. Set it, or leave "
                    f"`{given[0]}=` out."
                )
        elif self.schedule == "adaptive":
            raise SettingError(
                "GcivrConfig.restarts needs epochs that are all alike; found schedule=adaptive. Use "
                "schedule=square_root, or leave `restarts=` out."
            )


@dataclass(frozen=True)
class Trail:
    """What is remembered of the iterates besides the last one."""

    visited: int
    chosen: Tensor
    """A uniformly random iterate (reservoir sampling)."""
    mean: Tensor | None


@dataclass(frozen=True)
class Snapshot:
    """A point whose full objective was measured and accepted."""

    value: float
    point: Tensor
    estimates: Estimates
    trail: Trail


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
    epoch_length: int
    batch: int | None
    """Rows drawn in a step; `None`: all of them."""
    constraint_batch: int | None
    step_size: float
    first_step_size: float
    largest_step_size: float
    """Up to where the step size may grow back: below one that failed, and slowly forgotten."""
    # At every refresh on all rows.
    accepted: Snapshot | None
    # Every stage.
    stage: int
    """Stages that are over."""
    stage_epochs: int
    """T; 0 without restarts."""
    stage_end: int
    """The number of epochs at which this stage is over."""


class Sizes(NamedTuple):
    """How long an epoch is and how much it draws."""

    epoch_length: int
    refresh: int | None
    """Rows of a refresh; `None`: all."""
    step: int | None
    """Rows of a step; `None`: by the rule of the constant schedule."""

    def batch(self, asked: int | None, population: int) -> int:
        """Return how many of `population` rows a step draws; the constant schedule draws as many as are asked for."""
        return self.step or asked or max(1, math.floor(0.5 * math.sqrt(population)))


class Gcivr(Solver[GcivrState]):
    """See the module's text."""

    def __init__(self, config: GcivrConfig) -> None:
        self.config = config

    def init(self, start: Tensor, oracle: CompositeOracle, communicator: Communicator) -> GcivrState:
        step_size = self.config.step_size
        if step_size is None:
            step_size = self.config.step_scale * self._step_by_rule(start, oracle, communicator)
        first = min(step_size, oracle.largest_step) if self.config.step_size is None else step_size
        stage_epochs = self._stage_epochs(first, oracle)
        return GcivrState(
            point=start,
            previous=start,
            estimates=None,
            position=0,
            trail=self._no_trail(start),
            epoch=0,
            epoch_length=1,
            batch=1,
            constraint_batch=1,
            step_size=first,
            first_step_size=step_size,
            largest_step_size=step_size,
            accepted=None,
            stage=0,
            stage_epochs=stage_epochs,
            stage_end=stage_epochs,
        )

    def _step_by_rule(self, start: Tensor, oracle: CompositeOracle, communicator: Communicator) -> float:
        if self.config.step_rule == "curvature":
            return 1.0 / largest_curvature(oracle, communicator, start)
        if oracle.constraints:
            raise SettingError(
                "solver.step_rule=theorem needs the constants of single samples, and this problem averages over "
                f"{oracle.constraints} constraints. Use step_rule=curvature or set solver.step_size."
            )
        return measure_smoothness(oracle, communicator, start).largest_step

    def _stage_epochs(self, step_size: float, oracle: CompositeOracle) -> int:
        """Return T, or 0 without restarts."""
        if self.config.restarts is None or self.config.stage_epochs is not None:
            return self.config.stage_epochs or 0
        strength = self.config.strong_convexity or oracle.strong_convexity
        if strength == 0.0:
            raise SettingError(
                "solver.restarts derives the length of a stage from the strong convexity of the objective, and none is "
                "known of this problem's regularizer. Set problem.l2 above 0, solver.strong_convexity or "
                "solver.stage_epochs."
            )
        root = math.sqrt(max(oracle.samples, oracle.constraints))
        return max(1, math.ceil(5.0 / (root * strength * step_size)))

    def step(self, state: GcivrState, oracle: CompositeOracle, communicator: Communicator) -> GcivrState:
        if self.config.restarts is not None and state.stage >= self.config.restarts:
            if self.ended(state):
                return state
            # All stages are over, and the safeguard has not yet seen where the last epoch led.
            return replace(self._begin_epoch(state, oracle, communicator), stage=state.stage + 1)
        sound, estimates = False, state.estimates
        if state.position > 0 and estimates is not None:
            rows = self._draw(oracle, communicator, state.batch, state.constraint_batch)
            estimates, sound = advance(estimates, oracle, communicator, state.point, state.previous, rows)
        if not sound:
            state = self._begin_epoch(state, oracle, communicator)
            estimates = state.estimates
        assert estimates is not None
        point = oracle.prox(self._descend(state.point, estimates, oracle, state.step_size), state.step_size)
        # Spelled out: `dataclasses.replace` would be a tenth of a short step.
        moved = GcivrState(
            point=point,
            previous=state.point,
            estimates=estimates,
            position=(state.position + 1) % state.epoch_length,
            trail=self._extend(state.trail, point, oracle),
            epoch=state.epoch,
            epoch_length=state.epoch_length,
            batch=state.batch,
            constraint_batch=state.constraint_batch,
            step_size=state.step_size,
            first_step_size=state.first_step_size,
            largest_step_size=state.largest_step_size,
            accepted=state.accepted,
            stage=state.stage,
            stage_epochs=state.stage_epochs,
            stage_end=state.stage_end,
        )
        return self._end_stage(moved) if state.stage_epochs and moved.position == 0 else moved

    def _end_stage(self, state: GcivrState) -> GcivrState:
        """Start the next stage from the output of this one, if this one is over."""
        if state.epoch < state.stage_end:
            return state
        state = replace(state, stage=state.stage + 1, stage_end=state.epoch + state.stage_epochs)
        if self.config.output == "last":
            return state
        point = self.solution(state)
        # A random iterate may lie above what the safeguard has accepted, which says nothing about the step size.
        accepted = state.accepted if self.config.output == "best_snapshot" else None
        return replace(state, point=point, previous=point, accepted=accepted, trail=self._no_trail(point))

    def solution(self, state: GcivrState) -> Tensor:
        if self.config.output == "random":
            return state.trail.chosen
        if self.config.output == "best_snapshot" and state.accepted is not None:
            return state.accepted.point
        return state.point

    def ended(self, state: GcivrState) -> bool:
        stages = self.config.restarts
        if stages is None or state.stage < stages:
            return False
        return state.stage > stages or not self.config.monotone or state.accepted is None

    def average(self, state: GcivrState) -> Tensor | None:
        return state.trail.mean if state.trail.visited else None

    def _draw(
        self, oracle: CompositeOracle, communicator: Communicator, samples: int | None, constraints: int | None
    ) -> Draw:
        return oracle.draw(samples, constraints, replacement=self.config.replacement)

    def _descend(self, point: Tensor, estimates: Estimates, oracle: CompositeOracle, step_size: float) -> Tensor:
        return descend(point, estimates, oracle, step_size)

    def _begin_epoch(self, state: GcivrState, oracle: CompositeOracle, communicator: Communicator) -> GcivrState:
        """Measure the estimates afresh; with the safeguard, first see whether the last epoch went down."""
        sizes = self._sizes(state.epoch, max(oracle.samples, oracle.constraints))
        everything = sizes.refresh is None or sizes.refresh >= max(oracle.samples, oracle.constraints)
        rows = self._draw(oracle, communicator, sizes.refresh, sizes.refresh)
        estimates = refresh(oracle, communicator, state.point, rows)
        whole = self.config.whole_samples and oracle.constraints > 0
        state = replace(
            state,
            estimates=estimates,
            position=0,
            epoch=state.epoch + 1,
            epoch_length=sizes.epoch_length,
            batch=None if whole else sizes.batch(self.config.batch, oracle.samples),
            constraint_batch=sizes.batch(self.config.constraint_batch or self.config.batch, oracle.constraints),
        )
        if not everything or not (self.config.monotone or self.config.output == "best_snapshot"):
            return state
        value = float(oracle.value(state.point, estimates.inner_value, estimates.loss_value, estimates.shift))
        best = state.accepted
        accepted = Snapshot(value, state.point, estimates, state.trail)
        if best is None:
            return replace(state, accepted=accepted) if math.isfinite(value) else state
        # Near the optimum values differ by rounding only, which says nothing about the step size.
        rounding = torch.finfo(state.point.dtype).eps ** 0.75 * (1.0 + abs(best.value))
        if value < best.value - rounding:
            # Curvature met on the way may be behind us: a step size halved there must not stay small for ever.
            largest = min(state.first_step_size, _RELAXATION * state.largest_step_size)
            step_size = min(largest, self.config.recovery * state.step_size)
            return replace(state, accepted=accepted, step_size=step_size, largest_step_size=largest)
        if value <= best.value + rounding:
            return replace(state, accepted=accepted)
        if not self.config.monotone:
            return state
        return replace(
            state,
            point=best.point,
            estimates=best.estimates,
            trail=best.trail,
            step_size=0.5 * state.step_size,
            # What has just failed is not tried again soon, or the point would leave the optimum every few epochs.
            largest_step_size=0.8 * state.step_size,
        )

    def _sizes(self, epoch: int, population: int) -> "Sizes":
        """Return the sizes of the epoch, counted from zero, for the larger of the two index sets."""
        root = math.sqrt(population)
        if self.config.schedule == "constant":
            length = self.config.epoch_length or max(1, math.floor(2.0 * root))
            return Sizes(length, self.config.refresh_batch, None)
        if self.config.schedule == "square_root":
            return Sizes(max(1, math.floor(root)), None, max(1, math.floor(root)))
        size = min(self.config.growth * (epoch + 1) + self.config.initial, root)
        # Floors come after squaring, or the refresh batch would never reach the full set.
        refresh_batch = None if size >= root else max(1, math.floor(size * size))
        return Sizes(max(1, math.floor(size)), refresh_batch, max(1, math.floor(size)))

    def _no_trail(self, point: Tensor) -> Trail:
        return Trail(0, point, torch.zeros_like(point) if self.config.average else None)

    def _extend(self, trail: Trail, point: Tensor, oracle: CompositeOracle) -> Trail:
        if trail.mean is None and self.config.output != "random":
            return trail
        visited = trail.visited + 1
        mean = None if trail.mean is None else trail.mean + (point - trail.mean) / visited
        taken = self.config.output == "random" and oracle.generator.random() * visited < 1.0
        return Trail(visited, point if taken else trail.chosen, mean)


def entry() -> SolverEntry:
    """Return the catalogue entry."""
    return SolverEntry(
        name="gcivr",
        summary="Composite variance reduction with recursive estimates and proximal steps.",
        reference="Haddadpour, Kamani, Mahdavi, Karbasi (ICLR 2022), Algorithm 1",
        config=GcivrConfig,
        factory=Gcivr,
        accepts=(Composite,),
        # On strongly convex problems, with refreshes on all rows.
        rate="linear",
    )

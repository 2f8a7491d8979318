"""VRSC-PG: variance-reduced compositional proximal gradient, with a snapshot.

    snapshot  x~,  G~ = g(x~),  D~ = g'(x~)^T f'(G~) + h'(x~)                                       on all rows
    step      y = G~ + mean_S [g(x) - g(x~)]
              d = D~ + J_S(x)^T f'(y) - J_S(x~)^T f'(G~) + h'_S(x) - h'_S(x~)
              x <- prox_{eta r}(x - eta d)

Estimates refer to the snapshot and not, as in GCIVR, to the point before: their error grows with the distance from the
snapshot, but not with the number of steps.
State: the point, the snapshot with its estimates and gradient, the position in the epoch, the step size. Cost of an
epoch of tau steps: m + 2 S (tau - 1) oracle calls (one draw serves value and Jacobian; with two draws, as published,
4 S (tau - 1)).

Reference: Huo, Gu, Liu, Huang, "Accelerated method for stochastic composition optimization with nonsmooth
regularization" (AAAI 2018); after Lian, Wang, Liu (AISTATS 2017), compositional SVRG.
Deviations: one draw instead of two; the safeguards of GCIVR: an epoch that ends higher than it began is undone and the
step size halved, and an inner value below what the drawn rows prove it must exceed ends the epoch; the schedule
S = sqrt(m) / 2, tau = 2 sqrt(m) of our GCIVR, for comparison.
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
    Safeguard,
    Solver,
    StepConfig,
    WeightedDraws,
    check_weighted,
    direction,
    first_step,
    guarded_step,
    long_epoch,
    measured,
    require_one_of,
    require_positive,
    sample_pair,
    settle,
    small_batch,
    watch,
    weighted_draws,
)


@dataclass(kw_only=True)
class VrscPgConfig(StepConfig):
    """Hyperparameters of VRSC-PG; `null` means the rule described at each."""

    epoch_length: int | None = None
    """tau; null: 2 sqrt(m)."""
    batch: int | None = None
    """S; null: sqrt(m) / 2 of the samples, and of the constraints where the problem has them."""
    monotone: bool = True
    """Undo an epoch that ends higher than it began, and halve the step size; return only what was measured on all rows,
    which is never above the start."""
    replacement: bool = False
    """Whether rows are drawn with replacement."""
    sampling: str = "uniform"
    """`uniform`: all rows alike. `weighted`: half of the draws by the worst-case distribution at the snapshot."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_one_of(self, "sampling", ("uniform", "weighted"))
        require_positive(self, "epoch_length", "batch")


@dataclass(frozen=True)
class Snapshot:
    """A point where everything was measured."""

    point: Tensor
    estimates: Estimates
    gradient: Tensor
    draws: WeightedDraws | None = None


@dataclass(frozen=True)
class VrscPgState:
    """Everything VRSC-PG carries from step to step."""

    point: Tensor
    position: int
    """Step within the epoch; 0 means that a snapshot is to be taken."""
    snapshot: Snapshot | None
    safeguard: Safeguard


class VrscPg(Solver[VrscPgState]):
    """See the module's text."""

    def __init__(self, config: VrscPgConfig) -> None:
        self.config = config

    def init(self, start: Tensor, oracle: CompositeOracle, communicator: Communicator) -> VrscPgState:
        if self.config.sampling == "weighted":
            check_weighted(oracle, "vrsc_pg")
        return VrscPgState(start, 0, None, self._safeguard(start, oracle, communicator))

    def _safeguard(self, start: Tensor, oracle: CompositeOracle, communicator: Communicator) -> Safeguard:
        if not self.config.monotone:
            return watch(first_step(self.config, oracle, communicator, start))
        step_size, _, _ = guarded_step(self.config, oracle, communicator, start, scaled=False)
        return watch(step_size, start=start, smoothing_error=oracle.smoothing_error)

    def step(self, state: VrscPgState, oracle: CompositeOracle, communicator: Communicator) -> VrscPgState:
        towards = None
        if state.position > 0 and state.snapshot is not None:
            towards = self._direction(state.point, state.snapshot, oracle, communicator)
        if towards is None:
            state, snapshot = self._take_snapshot(state, oracle, communicator)
            towards = snapshot.gradient
        step_size = state.safeguard.step_size
        point = oracle.prox(state.point - step_size * towards, step_size)
        length = self.config.epoch_length or long_epoch(max(oracle.samples, oracle.constraints))
        return replace(state, point=point, position=(state.position + 1) % length)

    def _direction(
        self, point: Tensor, snapshot: Snapshot, oracle: CompositeOracle, communicator: Communicator
    ) -> Tensor | None:
        """Return the gradient estimate, or `None` where the inner value has left its domain."""
        sizes = [batch_of(self.config, population) for population in (oracle.samples, oracle.constraints)]
        if snapshot.draws is None:
            rows = oracle.draw(*sizes, replacement=self.config.replacement)
        else:
            rows = snapshot.draws.draw(oracle, sizes[0])
        full = snapshot.estimates
        points = torch.stack([point, snapshot.point])
        here, there, floors = sample_pair(oracle, communicator, points, rows, full.shift)
        base = oracle.rescale(full.inner_value, full.shift, here.shift)
        inner_value = base + here.inner_value - there.inner_value
        if not oracle.admits(inner_value, rows, here.shift, floors):
            return None
        moved = direction(replace(here, inner_value=inner_value), oracle)
        return snapshot.gradient + moved - direction(replace(there, inner_value=base), oracle)

    def _take_snapshot(
        self, state: VrscPgState, oracle: CompositeOracle, communicator: Communicator
    ) -> tuple[VrscPgState, Snapshot]:
        rows = oracle.draw()
        settled = settle(oracle, communicator, state.point, rows)
        found = measured(oracle, settled.point, settled.estimates, original=settled.original)
        safeguard, place = state.safeguard.judge(found, undo=self.config.monotone)
        draws = state.snapshot.draws if state.snapshot is not None else None
        if self.config.sampling == "weighted" and place is found:
            draws = weighted_draws(oracle, communicator, place.point, place.estimates, rows)
        snapshot = Snapshot(place.point, place.estimates, direction(place.estimates, oracle), draws)
        return VrscPgState(place.point, 0, snapshot, safeguard), snapshot

    def solution(self, state: VrscPgState) -> Tensor:
        kept = state.safeguard.best_point
        return kept if self.config.monotone and kept is not None else state.point

    def resting(self, state: VrscPgState) -> bool:
        """Right after an epoch was judged: one that nobody has judged would be lost."""
        return not self.config.monotone or (state.safeguard.judged and state.position <= 1)

    def stalled(self, state: VrscPgState) -> bool:
        return self.config.monotone and state.safeguard.stalled


def batch_of(config: VrscPgConfig, population: int) -> int:
    """Return how many of `population` rows a step draws."""
    return config.batch or small_batch(population)


def _calls(config: VrscPgConfig, oracle: CompositeOracle) -> set[int]:
    """A step, a snapshot, or a step that ends in one."""
    sizes = (oracle.samples, oracle.constraints)
    drawn, everything = sum(min(batch_of(config, size), size) for size in sizes), sum(sizes)
    # By chances a row may come several times, and is looked at once.
    counts = range(1, drawn + 1) if config.sampling == "weighted" else (drawn,)
    return {everything, *(2 * count for count in counts), *(2 * count + everything for count in counts)}


def entry() -> SolverEntry:
    """Return the catalogue entry."""
    return SolverEntry(
        name="vrsc_pg",
        summary="Compositional SVRG with proximal steps: estimates relative to a snapshot.",
        reference="Huo, Gu, Liu, Huang (AAAI 2018); Lian, Wang, Liu (AISTATS 2017)",
        config=VrscPgConfig,
        factory=VrscPg,
        accepts=(Composite,),
        rate="linear",
        config_changes=("monotone returned the last iterate, and returns the best of those measured on all rows",),
        calls_per_step=_calls,
    )

"""C-SAGA: compositional SAGA, with the last terms of every row in a table.

    table     g_i, J_i and h'_i of every row, each at the point where the row was last drawn; their means Y, Z, W
    step      y = Y + mean_S [g_i(x) - table],  z and w alike
              x <- prox_{eta r}(x - eta (z^T f'(y) + w))
              the drawn rows of the table, and with them the means, are replaced by the terms at x

State: the point, the table (m (p + p d + d) numbers) with its means and the shift they are expressed at, the last step
and how the steps of the pass agree. A state is a value: the table is a base that is never changed and a log of
what was drawn since, so that a step copies O(sqrt(m S)) of its rows and not m. Cost of a step: S oracle calls; m of the
first, and m more of one that measures the table afresh.

Reference: Zhang, Xiao, "A composite randomized incremental gradient method" (ICML 2019).
Deviations: losses beside the inner map have a column in the table; the rows of a draw are distinct; S = sqrt(m) / 2
where m^(2/3) is published, which takes more passes; exponentials are all kept at one shift, and the table is measured
afresh where they leave the range of numbers; the step size is watched, which takes no oracle calls.
The objective would take some: the terms in the table belong to different points, and their means miss the objective by
more than it still has to fall. But successive steps tell. Along an eigenvalue l of the Hessian a step of gradient
descent is followed by (1 - eta l) of itself, and the noise in a step by -eta l of itself. So where the steps of a pass
turn back on the whole, eta is too large for the noise or for the curvature, and is halved. Where the inner value falls
below what the drawn rows prove it must exceed, the method goes back to where the last good pass ended, measures the
table there, which is counted, and halves eta. With `turning=null` nothing is halved, and such a step uses the means of
the replaced table, which cannot be below.
Composites over constraints are refused: they have no terms of rows.
"""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from drobench.errors import DrobenchError, require_positive
from drobench.objective.composite import Composite, RowTerms
from drobench.objective.oracles.composite import CompositeOracle
from drobench.objective.sampling import Index, Rows
from drobench.registry import SolverEntry
from drobench.solver import Communicator, Solver
from drobench.solver.curvature import largest_curvature
from drobench.solver.estimators import Estimates, descend

_ONE_PROCESS = "every process would need the whole table of terms, and with it all rows"
# Means of positive terms that fell below this share of what they were have lost too many digits.
_CANCELLED = 1e-3


@dataclass
class CSagaConfig:
    """Hyperparameters of C-SAGA; `null` means the rule described at each."""

    step_size: float | None = None
    """eta; null: `step_scale / L` with L by power iteration at the start."""
    step_scale: float = 1.0
    turning: float | None = 0.2
    """Halve eta after a pass whose steps turn back by more than this, as the cosine of the angle; null: never."""
    batch: int | None = None
    """S; null: sqrt(m) / 2."""
    largest_table: int = 100_000_000
    """Numbers in the table above which a problem is refused."""

    def __post_init__(self) -> None:
        require_positive(self, "step_size", "step_scale", "turning", "batch", "largest_table")


@dataclass(frozen=True)
class Table:
    """The last terms of every row, at one shift: `g_i`, `J_i` and, where there are losses, `h'_i`, side by side."""

    base: Tensor
    """`(m, p + p d + d)`, as they were when the table was last put in order."""
    log: Tensor
    """The terms drawn since then, in the order of the draws."""
    places: Tensor
    """`(m,)`: where in the log the last terms of a row are; -1: they are in the base."""
    mean: Tensor
    """`(p + p d + d,)`, over the rows."""
    peak: Tensor
    """`(p,)`: the largest mean of `g` since the means were last taken from the columns themselves."""
    shift: Tensor

    @property
    def terms(self) -> Tensor:
        """The last terms of every row, in order."""
        logged = self.places >= 0
        terms = self.base.clone()
        terms[logged] = self.log[self.places[logged]]
        return terms


@dataclass(frozen=True)
class Turns:
    """How much the steps of the present pass go back and forth."""

    last: Tensor
    """The last step; zero before the first."""
    agreement: float
    """Sum of the products of successive steps."""
    travelled: float
    """Sum of their squared lengths."""
    calls: int
    anchor: Tensor
    """Where to go back to: the end of the last pass that turned back too little and left the table no higher."""
    height: float
    """The objective at the means of the table, at that time; infinite before the first table."""


@dataclass(frozen=True)
class CSagaState:
    """Everything C-SAGA carries from step to step."""

    point: Tensor
    step_size: float
    turns: Turns
    table: Table | None


class CSaga(Solver[CSagaState]):
    """See the module's text."""

    def __init__(self, config: CSagaConfig) -> None:
        self.config = config

    def init(self, start: Tensor, oracle: CompositeOracle, communicator: Communicator) -> CSagaState:
        if communicator.world_size > 1:
            raise DrobenchError(f"c_saga runs on one process; found {communicator.world_size}: {_ONE_PROCESS}.")
        if oracle.constraints:
            raise DrobenchError(
                f"c_saga keeps a table of the terms of every row; found a composite over {oracle.constraints} "
                "constraints, which has none. Use a solver of means, such as `gcivr` or `vrsc_pg`."
            )
        numbers = oracle.samples * (oracle.outputs * (1 + oracle.dimension) + oracle.has_losses * oracle.dimension)
        if numbers > self.config.largest_table:
            raise DrobenchError(
                f"c_saga would need a table of {numbers:.3g} numbers for {oracle.samples} rows and {oracle.dimension} "
                f"parameters; at most {self.config.largest_table:.3g} are allowed. Raise `solver.largest_table`, or "
                "use a solver without table, such as `gcivr` or `vrsc_pg`."
            )
        step_size = self.config.step_size
        if step_size is None:
            curvature = largest_curvature(oracle, communicator, start)
            step_size = min(self.config.step_scale / curvature, oracle.largest_step)
        return CSagaState(start, step_size, Turns(torch.zeros_like(start), 0.0, 0.0, 0, start, math.inf), None)

    def step(self, state: CSagaState, oracle: CompositeOracle, communicator: Communicator) -> CSagaState:
        table, estimates = state.table, None
        if table is not None:
            rows = oracle.draw(batch_of(self.config, oracle.samples))
            terms = oracle.row_terms(state.point, rows, table.shift)
            estimates, sound, table = _replace(table, terms, rows, oracle)
            if not sound and self.config.turning is not None:
                state, estimates = _back(state), None
        if table is None or estimates is None or _out_of_range(estimates.inner_value, oracle):
            table = _measure(state.point, oracle)
            estimates = _estimates(table.mean, table.shift, oracle)
            if state.table is None:
                state = replace(state, turns=replace(state.turns, height=_height(state.point, table, oracle)))
        point = oracle.prox(descend(state.point, estimates, oracle, state.step_size), state.step_size)
        return self._watch(state, point, table, oracle)

    def _watch(self, state: CSagaState, point: Tensor, table: Table, oracle: CompositeOracle) -> CSagaState:
        """Return the state after a step; the step size is halved after a pass of steps that turn back."""
        turns, step, limit = state.turns, point - state.point, self.config.turning
        agreement = turns.agreement + float(step.dot(turns.last))
        travelled = turns.travelled + float(step.dot(step))
        calls = turns.calls + min(batch_of(self.config, oracle.samples), oracle.samples)
        if calls < oracle.samples:
            turns = Turns(step, agreement, travelled, calls, turns.anchor, turns.height)
            return CSagaState(point, state.step_size, turns, table)
        back = limit is not None and agreement < -limit * travelled
        anchor, height = turns.anchor, _height(point, table, oracle)
        # Only exponentials are ever left for good, and beside them there are no losses, which this height would miss.
        if back or oracle.has_losses or not height <= turns.height:
            height = turns.height
        else:
            anchor = point
        return CSagaState(
            point, (0.5 if back else 1.0) * state.step_size, Turns(step, 0.0, 0.0, 0, anchor, height), table
        )

    def solution(self, state: CSagaState) -> Tensor:
        return state.point


def batch_of(config: CSagaConfig, population: int) -> int:
    """Return how many of `population` rows a step draws."""
    return config.batch or max(1, math.floor(0.5 * math.sqrt(population)))


def _back(state: CSagaState) -> CSagaState:
    """Return the state at its anchor, with half the step size and no table."""
    anchor, height = state.turns.anchor, state.turns.height
    turns = Turns(torch.zeros_like(anchor), 0.0, 0.0, 0, anchor, height)
    return CSagaState(anchor, 0.5 * state.step_size, turns, None)


def _height(point: Tensor, table: Table, oracle: CompositeOracle) -> float:
    """Return the objective at the means of the table, which is that of the point if all terms belong to it."""
    return float(oracle.value(point, table.mean[: oracle.outputs], point.new_zeros(()), table.shift))


def _measure(point: Tensor, oracle: CompositeOracle) -> Table:
    """Return the table with all rows at one point."""
    terms = oracle.row_terms(point, oracle.draw())
    return _in_order(_side_by_side(terms), terms.shift, oracle)


def _side_by_side(terms: RowTerms) -> Tensor:
    columns = [terms.inner_value, terms.inner_jacobian.flatten(start_dim=1)]
    return torch.cat(columns if terms.loss_gradient is None else [*columns, terms.loss_gradient], dim=1)


def _estimates(mean: Tensor, shift: Tensor, oracle: CompositeOracle) -> Estimates:
    """Return a mean of terms part by part."""
    outputs, dimension = oracle.outputs, oracle.dimension
    inner = outputs * (1 + dimension)
    gradient = mean[inner:] if oracle.has_losses else mean.new_zeros(dimension)
    return Estimates(mean[:outputs], mean[outputs:inner].view(outputs, dimension), mean.new_zeros(()), gradient, shift)


def _in_order(terms: Tensor, shift: Tensor, oracle: CompositeOracle) -> Table:
    """Return a table with an empty log, and its means from the terms themselves."""
    mean = terms.mean(dim=0)
    places = torch.full((terms.shape[0],), -1, dtype=torch.int32, device=terms.device)
    return Table(terms, terms[:0], places, mean, mean[: oracle.outputs], shift)


def _replace(table: Table, terms: RowTerms, rows: Rows, oracle: CompositeOracle) -> tuple[Estimates, bool, Table]:
    """Return the estimates of a step, whether they are in the domain of `f`, and the table with new terms in it."""
    index, shift = rows.samples, terms.shift
    assert index is not None
    if shift is not table.shift:
        table = _rescale(table, shift, oracle)
    new, places = _side_by_side(terms), table.places[index]
    logged = places >= 0
    old = table.base[index].index_put((logged,), table.log[places[logged]])
    change = new - old
    estimates = _estimates(table.mean + change.mean(dim=0), shift, oracle)
    replaced = _append(table, index, new, change.sum(dim=0), oracle)
    floors = [-torch.inf] * oracle.outputs
    if terms.inner_is_positive:
        floors = (terms.inner_value.mean(dim=0) * rows.covered).tolist()
    sound = oracle.admits(estimates.inner_value, rows, shift, floors)
    return estimates if sound else _estimates(replaced.mean, shift, oracle), sound, replaced


def _append(table: Table, index: Index, new: Tensor, change: Tensor, oracle: CompositeOracle) -> Table:
    """Return the table with new terms of some rows, whose sum differs by `change` from that of the old ones."""
    samples, logged = table.base.shape[0], table.log.shape[0]
    places = table.places.clone()
    places[index] = torch.arange(logged, logged + new.shape[0], dtype=places.dtype, device=places.device)
    mean = table.mean + change / samples
    inner_value = mean[: oracle.outputs]
    peak = torch.maximum(table.peak, inner_value)
    appended = Table(table.base, torch.cat([table.log, new]), places, mean, peak, table.shift)
    # Every step copies the log, and a table put in order costs as much as m rows: at this length they cost the same.
    full = logged + new.shape[0] >= math.sqrt(2.0 * samples * new.shape[0])
    # Kept up to date by differences, means lose all digits, and even their sign, when the row of the largest
    # exponential is replaced.
    cancelled = oracle.uses_shift and bool((inner_value < _CANCELLED * peak).any())
    return _in_order(appended.terms, table.shift, oracle) if full or cancelled else appended


def _rescale(table: Table, shift: Tensor, oracle: CompositeOracle) -> Table:
    """Return the table at another shift."""
    inner = oracle.outputs * (1 + oracle.dimension)
    terms = table.terms
    terms[:, :inner] = oracle.rescale(terms[:, :inner], table.shift, shift)
    return _in_order(terms, shift, oracle)


def _out_of_range(inner_value: Tensor, oracle: CompositeOracle) -> bool:
    """Whether exponentials have become too small or too large for the shift they are kept at."""
    if not oracle.uses_shift:
        return False
    smallest = torch.finfo(inner_value.dtype).tiny ** 0.5
    return not all(smallest < abs(value) < torch.inf for value in inner_value.tolist())


def _calls(config: CSagaConfig, oracle: CompositeOracle) -> set[int]:
    drawn = min(batch_of(config, oracle.samples), oracle.samples)
    return {drawn, oracle.samples, drawn + oracle.samples}


def entry() -> SolverEntry:
    """Return the catalogue entry."""
    return SolverEntry(
        name="c_saga",
        summary="Compositional SAGA: variance reduction by a table of the last terms of every row.",
        reference="Zhang, Xiao (ICML 2019), C-SAGA",
        config=CSagaConfig,
        factory=CSaga,
        accepts=(Composite,),
        one_process=_ONE_PROCESS,
        rate="linear",
        calls_per_step=_calls,
    )

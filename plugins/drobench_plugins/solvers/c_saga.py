"""C-SAGA: compositional SAGA, with the last terms of every row in a table.

    table     g_i, J_i and h'_i of every row, each at the point where the row was last drawn; their means Y, Z, W
    step      y = Y + mean_S [g_i(x) - table],  z and w alike
              x <- prox_{eta r}(x - eta (z^T f'(y) + w))
              the drawn rows of the table, and with them the means, are replaced by the terms at x

State: the point, the table (m (p + p d + d) numbers) with its means and the shift they are expressed at, the last step
and how the steps of the pass agree. Cost of a step: S oracle calls; m of the first, and m more of one that measures the
table afresh.

Reference: Zhang, Xiao, "A composite randomized incremental gradient method" (ICML 2019).
Deviations: losses beside the inner map have a column in the table; the rows of a draw are distinct; S = sqrt(m) / 2
where m^(2/3) is published, which takes more passes; exponentials are all kept at one shift, and the table is measured
afresh where they leave the range of numbers; the step size is watched, which takes no oracle calls.
The objective would take some: the terms in the table belong to different points, and their means miss the objective by
more than it still has to fall. But successive steps tell: where those of a pass turn back on the whole, eta is halved
(see `turning_steps`). Where the inner value falls below what the drawn rows prove it must exceed, the method goes back
to where the last good pass ended, measures the table there, which is counted, and halves eta. With `turning=null`
nothing is halved, and such a step uses the means of the replaced table, which cannot be below.
Composites over constraints are refused: they have no terms of rows.
"""

from dataclasses import dataclass, replace

from torch import Tensor

from drobench.registry import SolverEntry
from drobench.solver import (
    Capability,
    Communicator,
    Composite,
    CompositeOracle,
    DrobenchError,
    Solver,
    StepConfig,
    descend,
    first_step,
    require_positive,
    small_batch,
)
from drobench_plugins.solvers.pieces.term_table import (
    Table,
    estimates_of,
    height_of,
    measure_table,
    out_of_range,
    replace_terms,
    table_size,
)
from drobench_plugins.solvers.pieces.turning_steps import Turns, follow, next_pass, no_turns

_ONE_PROCESS = "every process would need the whole table of terms, and with it all rows"


@dataclass(kw_only=True)
class CSagaConfig(StepConfig):
    """Hyperparameters of C-SAGA; `null` means the rule described at each."""

    turning: float | None = 0.2
    """Halve eta after a pass whose steps turn back by more than this, as the cosine of the angle; null: never."""
    batch: int | None = None
    """S; null: sqrt(m) / 2."""
    largest_table: int = 100_000_000
    """Numbers in the table above which a problem is refused."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, "turning", "batch", "largest_table")


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
        numbers = table_size(oracle)
        if numbers > self.config.largest_table:
            raise DrobenchError(
                f"c_saga would need a table of {numbers:.3g} numbers for {oracle.samples} rows and {oracle.dimension} "
                f"parameters; at most {self.config.largest_table:.3g} are allowed. Raise `solver.largest_table`, or "
                "use a solver without table, such as `gcivr` or `vrsc_pg`."
            )
        step_size = first_step(self.config, oracle, communicator, start)
        return CSagaState(start, step_size, no_turns(start), None)

    def step(self, state: CSagaState, oracle: CompositeOracle, communicator: Communicator) -> CSagaState:
        table, estimates = state.table, None
        if table is not None:
            rows = oracle.draw(batch_of(self.config, oracle.samples))
            terms = oracle.row_terms(state.point, rows, table.shift)
            estimates, sound, table = replace_terms(table, terms, rows, oracle)
            if not sound and self.config.turning is not None:
                state, estimates = _back(state), None
        if table is None or estimates is None or out_of_range(estimates.inner_value, oracle):
            table = measure_table(state.point, oracle)
            estimates = estimates_of(table.mean, table.shift, oracle)
            if state.table is None:
                state = replace(state, turns=replace(state.turns, height=height_of(state.point, table, oracle)))
        point = oracle.prox(descend(state.point, estimates, oracle, state.step_size), state.step_size)
        return self._watch(state, point, table, oracle)

    def _watch(self, state: CSagaState, point: Tensor, table: Table, oracle: CompositeOracle) -> CSagaState:
        """Return the state after a step; the step size is halved after a pass of steps that turn back."""
        drawn = min(batch_of(self.config, oracle.samples), oracle.samples)
        turns = follow(state.turns, point - state.point, drawn)
        if turns.calls < oracle.samples:
            return CSagaState(point, state.step_size, turns, table)
        back = turns.turn_back(self.config.turning)
        height = height_of(point, table, oracle)
        # Only exponentials are ever left for good, and beside them there are no losses, which this height would miss.
        good = not back and not oracle.has_losses and height <= turns.height
        turns = next_pass(turns, point, height) if good else next_pass(turns, turns.anchor, turns.height)
        return CSagaState(point, (0.5 if back else 1.0) * state.step_size, turns, table)

    def solution(self, state: CSagaState) -> Tensor:
        return state.point


def batch_of(config: CSagaConfig, population: int) -> int:
    """Return how many of `population` rows a step draws."""
    return config.batch or small_batch(population)


def _back(state: CSagaState) -> CSagaState:
    """Return the state at its anchor, with half the step size and no table."""
    turns = no_turns(state.turns.anchor, state.turns.height)
    return CSagaState(turns.anchor, 0.5 * state.step_size, turns, None)


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
        requires=(Capability.ROW_TERMS,),
        one_process=_ONE_PROCESS,
        rate="linear",
        calls_per_step=_calls,
    )

"""C-SAGA: compositional SAGA, with the last terms of every row in a table.

    table     g_i, J_i and h'_i of every row, each at the point where the row was last drawn; their means Y, Z, W
    step      y = Y + mean_S [g_i(x) - table],  z and w alike
              x <- prox_{eta r}(x - eta (z^T f'(y) + w))
              the drawn rows of the table, and with them the means, are replaced by the terms at x

State: the point, the table (m (p + p d + d) numbers; copied in every step, so that a state is a value), its means, the
shift they are expressed at. Cost of a step: S oracle calls; m of the first, and m more of one that measures
the table afresh.

Reference: Zhang, Xiao, "A composite randomized incremental gradient method" (ICML 2019).
Deviations: losses beside the inner map have a column in the table; the rows of a draw are distinct; where the inner
value falls below what the drawn rows prove it must exceed, the step uses the means of the replaced table, which cannot;
exponentials are all kept at one shift, and the table is measured afresh where they leave the range of numbers.
Composites over constraints are refused: they have no terms of rows.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from drobench.errors import DrobenchError, require_positive
from drobench.objective.composite import Composite, Rows, RowTerms
from drobench.objective.oracle import CompositeOracle
from drobench.objective.sampling import Index
from drobench.registry import SolverEntry
from drobench.solver import Communicator, Solver
from drobench.solver.estimators import Estimates, descend
from drobench.solver.step_sizes import largest_curvature

_ONE_PROCESS = "every process would need the whole table of terms, and with it all rows"


@dataclass
class CSagaConfig:
    """Hyperparameters of C-SAGA; `null` means the rule described at each."""

    step_size: float | None = None
    """eta; null: `step_scale / L` with L by power iteration at the start."""
    step_scale: float = 0.5
    """Without refreshes nothing tells that a step size is too large, so that it begins at half of `1 / L`."""
    batch: int | None = None
    """S; null: m^(2/3), as published."""
    largest_table: int = 100_000_000
    """Numbers in the table above which a problem is refused."""

    def __post_init__(self) -> None:
        require_positive(self, "step_size", "step_scale", "batch", "largest_table")


@dataclass(frozen=True)
class Table:
    """The last terms of every row, at one shift."""

    inner_values: Tensor
    """`(m, p)`."""
    inner_jacobians: Tensor
    """`(m, p, d)`."""
    loss_gradients: Tensor | None
    """`(m, d)`; `None` without h."""
    means: Estimates


@dataclass(frozen=True)
class CSagaState:
    """Everything C-SAGA carries from step to step."""

    point: Tensor
    step_size: float
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
        return CSagaState(start, step_size, None)

    def step(self, state: CSagaState, oracle: CompositeOracle, communicator: Communicator) -> CSagaState:
        table, estimates = state.table, None
        if table is not None:
            rows = oracle.draw(batch_of(self.config, oracle.samples))
            terms = oracle.row_terms(state.point, rows, table.means.shift)
            estimates, table = _replace(table, terms, rows, oracle)
        if table is None or estimates is None or _out_of_range(estimates.inner_value, oracle):
            table = _measure(state.point, oracle)
            estimates = table.means
        point = oracle.prox(descend(state.point, estimates, oracle, state.step_size), state.step_size)
        return CSagaState(point, state.step_size, table)

    def solution(self, state: CSagaState) -> Tensor:
        return state.point


def batch_of(config: CSagaConfig, population: int) -> int:
    """Return how many of `population` rows a step draws."""
    return config.batch or max(1, round(population ** (2.0 / 3.0)))


def _measure(point: Tensor, oracle: CompositeOracle) -> Table:
    """Return the table with all rows at one point."""
    terms = oracle.row_terms(point, oracle.draw())
    return _tabulate(terms.inner_value, terms.inner_jacobian, terms.loss_gradient, terms.shift)


def _tabulate(values: Tensor, jacobians: Tensor, gradients: Tensor | None, shift: Tensor) -> Table:
    # Means from the columns themselves: kept up to date by differences they would lose all digits, and even their sign,
    # when the row of the largest exponential is replaced. The copy of the columns costs as much.
    gradient = jacobians.new_zeros(jacobians.shape[2]) if gradients is None else gradients.mean(dim=0)
    means = Estimates(values.mean(dim=0), jacobians.mean(dim=0), values.new_zeros(()), gradient, shift)
    return Table(values, jacobians, gradients, means)


def _replace(table: Table, terms: RowTerms, rows: Rows, oracle: CompositeOracle) -> tuple[Estimates, Table]:
    """Return the estimates of a step, and the table with the drawn rows replaced."""
    index, shift, means = rows.samples, terms.shift, table.means
    assert index is not None
    values, jacobians, value, jacobian = (
        oracle.rescale(part, means.shift, shift)
        for part in (table.inner_values, table.inner_jacobians, means.inner_value, means.inner_jacobian)
    )
    gradient, gradients = means.loss_gradient, table.loss_gradients
    if gradients is not None and terms.loss_gradient is not None:
        gradient = gradient + (terms.loss_gradient - gradients[index]).mean(dim=0)
        gradients = _put(gradients, index, terms.loss_gradient)
    estimates = Estimates(
        value + (terms.inner_value - values[index]).mean(dim=0),
        jacobian + (terms.inner_jacobian - jacobians[index]).mean(dim=0),
        means.loss_value,
        gradient,
        shift,
    )
    replaced = _tabulate(
        _put(values, index, terms.inner_value), _put(jacobians, index, terms.inner_jacobian), gradients, shift
    )
    floors = [-torch.inf] * oracle.outputs
    if terms.inner_is_positive:
        floors = (terms.inner_value.mean(dim=0) * rows.covered).tolist()
    sound = oracle.admits(estimates.inner_value, rows, shift, floors)
    return estimates if sound else replaced.means, replaced


def _put(column: Tensor, index: Index, terms: Tensor) -> Tensor:
    column = column.clone()
    column[index] = terms
    return column


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

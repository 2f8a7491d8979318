"""A table with the last terms of every row, and their means, as a value that a step replaces.

The table is a base that is never changed and a log of what was drawn since, so that a step copies O(sqrt(m S)) of its
rows and not m. Exponentials are all kept at one shift.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from drobench.solver import CompositeOracle, Estimates, Index, Rows, RowTerms

# Means of positive terms that fell below this share of what they were have lost too many digits.
_CANCELLED = 1e-3


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


def table_size(oracle: CompositeOracle) -> int:
    """Return how many numbers the table of a problem holds."""
    return oracle.samples * (oracle.outputs * (1 + oracle.dimension) + oracle.has_losses * oracle.dimension)


def measure_table(point: Tensor, oracle: CompositeOracle) -> Table:
    """Return the table with all rows at one point."""
    terms = oracle.row_terms(point, oracle.draw())
    return _in_order(_side_by_side(terms), terms.shift, oracle)


def estimates_of(mean: Tensor, shift: Tensor, oracle: CompositeOracle) -> Estimates:
    """Return a mean of terms part by part."""
    outputs, dimension = oracle.outputs, oracle.dimension
    inner = outputs * (1 + dimension)
    gradient = mean[inner:] if oracle.has_losses else mean.new_zeros(dimension)
    return Estimates(mean[:outputs], mean[outputs:inner].view(outputs, dimension), mean.new_zeros(()), gradient, shift)


def height_of(point: Tensor, table: Table, oracle: CompositeOracle) -> float:
    """Return the objective at the means of the table, which is that of the point if all terms belong to it."""
    return float(oracle.value(point, table.mean[: oracle.outputs], point.new_zeros(()), table.shift))


def replace_terms(table: Table, terms: RowTerms, rows: Rows, oracle: CompositeOracle) -> tuple[Estimates, bool, Table]:
    """Return the estimates of a step, whether they are in the domain of `f`, and the table with new terms in it."""
    index, shift = rows.samples, terms.shift
    assert index is not None
    if shift is not table.shift:
        table = _rescale(table, shift, oracle)
    new, places = _side_by_side(terms), table.places[index]
    logged = places >= 0
    old = table.base[index].index_put((logged,), table.log[places[logged]])
    change = new - old
    estimates = estimates_of(table.mean + change.mean(dim=0), shift, oracle)
    replaced = _append(table, index, new, change.sum(dim=0), oracle)
    floors = [-torch.inf] * oracle.outputs
    if terms.inner_is_positive:
        floors = (terms.inner_value.mean(dim=0) * rows.covered).tolist()
    sound = oracle.admits(estimates.inner_value, rows, shift, floors)
    return estimates if sound else estimates_of(replaced.mean, shift, oracle), sound, replaced


def out_of_range(inner_value: Tensor, oracle: CompositeOracle) -> bool:
    """Whether exponentials have become too small or too large for the shift they are kept at."""
    if not oracle.uses_shift:
        return False
    smallest = torch.finfo(inner_value.dtype).tiny ** 0.5
    return not all(smallest < abs(value) < torch.inf for value in inner_value.tolist())


def _side_by_side(terms: RowTerms) -> Tensor:
    columns = [terms.inner_value, terms.inner_jacobian.flatten(start_dim=1)]
    return torch.cat(columns if terms.loss_gradient is None else [*columns, terms.loss_gradient], dim=1)


def _in_order(terms: Tensor, shift: Tensor, oracle: CompositeOracle) -> Table:
    """Return a table with an empty log, and its means from the terms themselves."""
    mean = terms.mean(dim=0)
    places = torch.full((terms.shape[0],), -1, dtype=torch.int32, device=terms.device)
    return Table(terms, terms[:0], places, mean, mean[: oracle.outputs], shift)


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

"""Median curves with bands over seeds.

The runs of one solver were evaluated at different costs, so each is read as a step function: until the next evaluation,
what was last evaluated holds. After its end a run keeps its last value, unless it failed: from then on it counts as
infinite, like a target that was not reached. So a failure widens the band and lifts the median; it never drops out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy

from drobench.results.report.series import COSTS, MEASURES, Array, Quantity, RunSeries


@dataclass(frozen=True)
class Band:
    """The spread of one measure over the seeds of one solver, at each cost of a grid; may be infinite.

    Attributes:
        median: The middle.
        low: The first quartile.
        high: The third quartile.
        least: The seed with the least value.
        most: The seed with the largest.
    """

    median: Array
    low: Array
    high: Array
    least: Array
    most: Array

    def mirrored(self) -> "Band":
        """The band of the negated values."""
        return Band(-self.median, -self.high, -self.low, -self.most, -self.least)


@dataclass(frozen=True)
class SolverCurves:
    """All bands of one solver on one board.

    Attributes:
        grids: The costs at which the bands are known, by the key of the cost.
        bands: The bands by the keys of cost and measure.
    """

    grids: Mapping[str, Array]
    bands: Mapping[tuple[str, str], Band]


def solver_curves(runs: Sequence[RunSeries], points: int, measured: Sequence[Quantity] = MEASURES) -> SolverCurves:
    """Summarise the runs of one solver.

    Args:
        runs: One series per run.
        points: The largest number of grid points.
        measured: What the series were read for.
    """
    grids = {}
    bands = {}
    measures = [measure for measure in measured if any(measure.key in run.measures for run in runs)]
    for cost in (cost.key for cost in COSTS):
        present = [run for run in runs if cost in run.costs]
        if not present or max(run.costs[cost][-1] for run in present) <= 0:
            continue
        grid = thinned(numpy.unique(numpy.concatenate([run.costs[cost] for run in present])), points)
        grids[cost] = grid
        for measure in measures:
            values = numpy.stack([_on_grid(run, cost, measure.key, grid) for run in runs])
            if numpy.isfinite(values).any():
                found = band(values)
                bands[cost, measure.key] = found.mirrored() if measure.more else found
    return SolverCurves(grids, bands)


def band(values: numpy.ndarray[tuple[int, int], numpy.dtype[numpy.float64]]) -> Band:
    """Median, quartiles and extremes over the rows, one per seed.

    Between a number and infinity nothing can be interpolated, so where there is an infinity the quartiles are the
    neighbours that make the band wider.
    """
    low, high = (
        numpy.quantile(values, 0.25, axis=0, method="lower"),
        numpy.quantile(values, 0.75, axis=0, method="higher"),
    )
    finite = numpy.isfinite(values).all(axis=0)
    if finite.any():
        low[finite], high[finite] = numpy.quantile(values[:, finite], [0.25, 0.75], axis=0)
    return Band(numpy.median(values, axis=0), low, high, values.min(axis=0), values.max(axis=0))


def thinned(positions: Array, points: int) -> Array:
    """At most `points` of the sorted positions, first and last among them.

    Half of them are spread evenly, half evenly in the logarithm, so that both scales have something to show.
    """
    if positions.size <= points:
        return positions
    first, last = positions[0], positions[-1]
    smallest = positions[positions > 0][0]
    even = numpy.linspace(first, last, points - points // 2)
    logarithmic = numpy.geomspace(smallest, last, points // 2)
    wanted = numpy.searchsorted(positions, numpy.concatenate([even, logarithmic]))
    kept: Array = positions[numpy.unique(wanted.clip(max=positions.size - 1))]
    return kept


def _on_grid(run: RunSeries, cost: str, measure: str, grid: Array) -> Array:
    """The value last evaluated at each cost of the grid; infinite before the first and after a failure."""
    if measure not in run.measures or cost not in run.costs:
        return numpy.full(grid.size, numpy.inf)
    evaluated, values = run.measures[measure]
    costs = run.costs[cost][evaluated]
    latest = numpy.searchsorted(costs, grid, side="right") - 1
    answer: Array = numpy.where(latest >= 0, values[latest.clip(min=0)], numpy.inf)
    if run.failed:
        answer[grid > costs[-1]] = numpy.inf
    return answer

"""Growth exponents with intervals, from costs measured on a grid of sizes and accuracies.

    power law     ln cost = a + b ln m + c ln(1/eps), or along one of the two at a fixed value of the other
    logarithmic   cost = a + b ln(1/eps), at fixed m

Both by least squares of the logarithm of the cost, averaged over seeds. Whatever was read from the curves of one seed
at one size belongs together, so the bootstrap draws seeds, anew for each size. With few seeds the percentiles of a
bootstrap are too narrow; the interval is therefore Student's, with the bootstrap's standard error, widened by
sqrt(n / (n - 1)), and n - 1 degrees of freedom. It says how much the exponent would move with other seeds, not whether
the law is a power law: `rms` tells how far the mean logarithms are from it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import optimize, stats

Array = np.ndarray[Any, np.dtype[np.float64]]
Cell = tuple[int, float]
"""Size m and accuracy eps."""
Costs = Mapping[Cell, Sequence[float]]
"""The cost of each seed, always in the same order of seeds; infinite where the accuracy was not reached, NaN where it
cannot be told."""

RESAMPLES = 2000
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Exponent:
    """An estimate with its interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"


@dataclass(frozen=True)
class PowerLaw:
    """Exponents of size and of 1/eps; `None` where the cells do not vary in it."""

    size: Exponent | None
    accuracy: Exponent | None
    rms: float
    """Root mean square of what the mean logarithms deviate from the law."""
    cells: int


@dataclass(frozen=True)
class Sorted:
    """What may be fitted, and what may not."""

    complete: dict[Cell, Array]
    """Every seed reached the accuracy, after some work."""
    censored: dict[Cell, int]
    """How many seeds reached it, where not all did."""
    trivial: tuple[Cell, ...]
    """A start met it already."""
    unknown: tuple[Cell, ...]
    """Of some seed nobody knows."""


def sort(costs: Costs) -> Sorted:
    """Divide the cells; a cell that not all seeds reached is never fitted, nor are its lucky seeds."""
    complete, censored, trivial, unknown = {}, {}, [], []
    for cell, found in sorted(costs.items()):
        values = np.asarray(found, dtype=np.float64)
        if np.isnan(values).any():
            unknown.append(cell)
        elif not np.isfinite(values).all():
            censored[cell] = int(np.isfinite(values).sum())
        elif (values <= 0).any():
            trivial.append(cell)
        else:
            complete[cell] = values
    return Sorted(complete, censored, tuple(trivial), tuple(unknown))


def fit(cells: Mapping[Cell, Array], seed: int = 0) -> PowerLaw | None:
    """Fit a power law to complete cells; `None` if they are too few to tell."""
    sizes = sorted({size for size, _ in cells})
    accuracies = {accuracy for _, accuracy in cells}
    columns = [np.ones(len(cells))]
    by_size, by_accuracy = len(sizes) > 1, len(accuracies) > 1
    if by_size:
        columns.append(np.array([math.log(size) for size, _ in cells]))
    if by_accuracy:
        columns.append(np.array([-math.log(accuracy) for _, accuracy in cells]))
    design = np.stack(columns, axis=1)
    # With as many cells as coefficients every law fits.
    if len(columns) == 1 or len(cells) <= len(columns) or np.linalg.matrix_rank(design) < len(columns):
        return None
    logarithms = np.log(np.stack(list(cells.values())))
    solve = np.linalg.pinv(design)
    estimate = solve @ logarithms.mean(axis=1)
    residual = logarithms.mean(axis=1) - design @ estimate
    errors = _standard_errors(solve, logarithms, [sizes.index(size) for size, _ in cells], seed)
    half = errors * stats.t.ppf((1 + CONFIDENCE) / 2, logarithms.shape[1] - 1)
    found = [Exponent(*map(float, trio)) for trio in zip(estimate, estimate - half, estimate + half, strict=True)]
    return PowerLaw(
        found[1] if by_size else None,
        found[-1] if by_accuracy else None,
        float(np.sqrt((residual**2).mean())),
        len(cells),
    )


def _standard_errors(solve: Array, logarithms: Array, blocks: list[int], seed: int) -> Array:
    """Return the standard errors of the coefficients when the seeds of each size are drawn again."""
    seeds = logarithms.shape[1]
    if seeds < 2:
        return np.full(solve.shape[0], np.nan)
    generator = np.random.default_rng(seed)
    draws = generator.integers(seeds, size=(RESAMPLES, max(blocks) + 1, seeds))[:, blocks]
    means = np.take_along_axis(logarithms[None], draws, axis=2).mean(axis=2)
    spread: Array = (means @ solve.T).std(axis=0, ddof=1)
    return spread * math.sqrt(seeds / (seeds - 1))


def along_size(cells: Mapping[Cell, Array]) -> dict[float, PowerLaw]:
    """Fit the exponent of m at each accuracy, the coarsest first."""
    return _slices(cells, 1)


def along_accuracy(cells: Mapping[Cell, Array]) -> dict[float, PowerLaw]:
    """Fit the exponent of 1/eps at each size."""
    return _slices(cells, 0)


def _slices(cells: Mapping[Cell, Array], fixed: int) -> dict[float, PowerLaw]:
    laws = {}
    for value in sorted({cell[fixed] for cell in cells}, reverse=fixed == 1):
        law = fit({cell: costs for cell, costs in cells.items() if cell[fixed] == value})
        if law is not None:
            laws[float(value)] = law
    return laws


def logarithmic_rms(cells: Mapping[Cell, Array]) -> float | None:
    """Return how far the mean logarithms of the costs at one size are from those of `a + b ln(1/eps)`, at best.

    The same measure as `PowerLaw.rms`, with the same number of coefficients: the smaller one fits better.
    """
    if len(cells) < 3 or len({size for size, _ in cells}) != 1:
        return None
    digits = np.array([-math.log(accuracy) for _, accuracy in cells])
    digits = digits - digits.min()
    means = np.log(np.stack(list(cells.values()))).mean(axis=1)

    def residual(parameters: Array) -> Array:
        first, slope = np.exp(parameters)
        return np.asarray(np.log(first + slope * digits) - means)

    spread = max(float(np.exp(means.max()) - np.exp(means.min())), 1e-9)
    start = np.array([means.min(), math.log(spread / digits.max())])
    return float(np.sqrt((optimize.least_squares(residual, start).fun ** 2).mean()))

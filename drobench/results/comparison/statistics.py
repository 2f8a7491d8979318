"""Medians over the seeds of a comparison, with their bootstrap intervals.

The bootstrap distribution of a median needs no random resamples: the median of a resample is one value of the sample,
or the mean of two, and how likely each is follows from counting. So the intervals are exact and always the same.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import NormalDist
from typing import Any

import numpy

from drobench.errors import SettingError

CONFIDENCE = 0.95
"""Coverage of the intervals of a leaderboard."""

Array = numpy.ndarray[Any, numpy.dtype[Any]]
_NORMAL = NormalDist()
_ROOT_OF_TWO = math.sqrt(2)
# Middle pairs less likely than this cannot move the end of any interval that is asked for.
_NEGLIGIBLE = 1e-12
_ROUNDING = 1e-12


def median(values: Sequence[float]) -> float:
    """The middle value; of an even number of values, the mean of the two in the middle.

    Infinity is a value like any other ("not reached"), so the median is infinite when half of the values are. Between
    minus and plus infinity, as of differences when each side has lost half of the seeds, stands 0.

    Raises:
        SettingError: If there are no values, or one of them is not a number.
    """
    return float(medians_of(_checked(values)[None, :])[0])


def medians_of(samples: Array) -> Array:
    """The medians of many samples of one size at once."""
    ordered = numpy.sort(samples, axis=1)
    size = ordered.shape[1]
    return _mean_of_two(ordered[:, (size - 1) // 2], ordered[:, size // 2])


def _mean_of_two(first: Array, second: Array) -> Array:
    # Halved before they are added, which changes no number but keeps huge ones from overflowing.
    with numpy.errstate(invalid="ignore"):
        mean = first / 2 + second / 2
    return numpy.where(numpy.isnan(mean), 0.0, mean)


def bootstrap_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Bootstrap interval of the median, bias-corrected and accelerated (BCa).

    The acceleration comes from leaving out one value at a time. Where that says nothing, because no median moves or one
    of them is infinite, it is zero. The ends are always values of the bootstrap distribution: between a number and
    infinity nothing can be interpolated.

    Args:
        values: One value per seed; infinity stands for "not reached".
        confidence: Coverage, between 0 and 1.

    Returns:
        Lower and upper end; both the value itself when there is only one, or all are equal.

    Raises:
        SettingError: If there are no values, one of them is not a number, or `confidence` is impossible.
    """
    low, high = bootstrap_intervals(_checked(values)[None, :], confidence)[0]
    return float(low), float(high)


def bootstrap_intervals(samples: Array, confidence: float = CONFIDENCE) -> Array:
    """The intervals of many samples of one size at once: a row per sample in, its two ends out."""
    if not 0 < confidence < 1:
        raise SettingError(f"`confidence` must be between 0 and 1; found {confidence!r}.")
    ordered = numpy.sort(samples, axis=1)
    medians, weights = _bootstrap_distributions(ordered)
    estimates = medians_of(ordered)[:, None]
    below = (weights * (medians < estimates)).sum(axis=1) + (weights * (medians == estimates)).sum(axis=1) / 2
    bias = _normal_quantiles(below)[:, None]
    shifted = bias + _normal_quantiles(numpy.array([(1 - confidence) / 2, (1 + confidence) / 2]))
    levels = _normal_probabilities(bias + shifted / (1 - _accelerations(ordered)[:, None] * shifted))
    reached = numpy.cumsum(weights, axis=1)[:, :, None] < levels[:, None, :] - _ROUNDING
    positions = numpy.minimum(reached.sum(axis=1), medians.shape[1] - 1)
    return numpy.take_along_axis(medians, positions, axis=1)


def most_coverage(values: int) -> float:
    """The most that any interval between values of a sample can cover of the true median, by the size of the sample.

    The smallest and the largest value miss the median only if all values are on the same side of it.
    """
    return 1 - 2.0 ** (1 - values)


def _bootstrap_distributions(ordered: Array) -> tuple[Array, Array]:
    """The medians of all resamples of each sorted sample, in order, and how likely each is."""
    first, second, weights = _middle_pairs(ordered.shape[1])
    medians = _mean_of_two(ordered[:, first], ordered[:, second])
    order = numpy.argsort(medians, axis=1, kind="stable")
    return numpy.take_along_axis(medians, order, axis=1), weights[order]


@lru_cache(maxsize=256)
def _middle_pairs(size: int) -> tuple[Array, Array, Array]:
    """Which values of a sorted sample stand in the middle of a resample, and how likely.

    With an odd size one value does: it is at most the i-th smallest if more than half of the draws are. With an even
    size 2m the two are i < j if m draws are at most i, one of them i itself, and m draws are at least j, one of them j.
    """
    share = numpy.arange(size + 1) / size
    half = size // 2
    if size % 2:
        at_most = _binomial_tail(size, half + 1, share)
        singles = numpy.arange(size)
        return singles, singles, numpy.diff(at_most)
    low = numpy.diff(share**half)
    high = low[::-1]
    both = math.comb(size, half) * numpy.outer(low, high)
    pairs = numpy.triu(both, 1)
    middle_at_most = _binomial_tail(size, half, share)
    numpy.fill_diagonal(pairs, numpy.diff(middle_at_most) - pairs.sum(axis=1))
    first, second = numpy.nonzero(pairs > _NEGLIGIBLE)
    weights = pairs[first, second]
    return first, second, weights / weights.sum()


def _binomial_tail(draws: int, least: int, chance: Array) -> Array:
    """The probability of at least so many successes."""
    counts = numpy.arange(least, draws + 1)
    ways = numpy.array([math.comb(draws, int(count)) for count in counts], dtype=numpy.float64)
    powers = chance[:, None] ** counts * (1 - chance[:, None]) ** (draws - counts)
    return numpy.asarray(powers @ ways)


def _accelerations(ordered: Array) -> Array:
    """A sixth of the skewness of the medians that each sorted sample has with one value left out."""
    size = ordered.shape[1]
    middle = size // 2
    if size == 1:
        return numpy.zeros(len(ordered))
    if size % 2:
        below, at, above = ordered[:, middle - 1], ordered[:, middle], ordered[:, middle + 1]
        medians = numpy.stack([_mean_of_two(*pair) for pair in ((at, above), (below, above), (below, at))], axis=1)
        times = numpy.array([middle, 1, middle])
    else:
        medians, times = ordered[:, [middle, middle - 1]], numpy.array([middle, middle])
    known = numpy.isfinite(medians).all(axis=1, keepdims=True)
    medians = numpy.where(known, medians, 0.0)
    # The unit does not matter, so it is chosen such that no power of these numbers overflows or vanishes.
    unit = numpy.abs(medians).max(axis=1, keepdims=True)
    medians = medians / numpy.where(unit > 0, unit, 1.0)
    deviations = (medians * times).sum(axis=1, keepdims=True) / size - medians
    spread = (times * deviations**2).sum(axis=1)
    skew = (times * deviations**3).sum(axis=1)
    return numpy.where(spread > 0, skew / (6 * numpy.where(spread > 0, spread, 1.0) ** 1.5), 0.0)


def _normal_quantiles(probabilities: Array) -> Array:
    # Samples without ties share one value, and scipy would take longer to load than this takes in all.
    values, places = numpy.unique(probabilities, return_inverse=True)
    return numpy.array([_NORMAL.inv_cdf(value) for value in values.tolist()])[places]


def _normal_probabilities(quantiles: Array) -> Array:
    return numpy.array([[math.erfc(-value / _ROOT_OF_TWO) / 2 for value in row] for row in quantiles.tolist()])


def _checked(values: Sequence[float]) -> Array:
    sample = numpy.asarray(values, dtype=numpy.float64).reshape(-1)
    if sample.size == 0:
        raise SettingError("A median needs at least one value; found none.")
    if numpy.isnan(sample).any():
        raise SettingError(f"A median needs numbers; found {int(numpy.isnan(sample).sum())} that are not.")
    return sample

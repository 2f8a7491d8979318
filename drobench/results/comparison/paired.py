"""Tests of paired differences: is one solver really better than another, and what could have been found at all."""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy

ALPHA = 0.05
"""A difference counts as real when its adjusted p-value is at most this."""

POWER = 0.8
"""How often a detectable difference is to be found."""

Array = numpy.ndarray[Any, numpy.dtype[Any]]
_MOST_EXACT_PAIRS = 50
# Of the signed-rank test against the t-test, for normal differences.
_EFFICIENCY = 3 / math.pi
_EXACT = 1e-15
# In standard errors: no test with power below 99% needs more.
_LARGEST_SHIFT = 20.0


def signed_rank_p(differences: Sequence[float]) -> float:
    """Two-sided p-value of the Wilcoxon signed-rank test; zeros by Pratt's rule, ties share their mean rank.

    Exact for up to 50 pairs, given the ranks that were found: under the hypothesis each difference that is not zero
    could as well have had the other sign. Infinite differences are the largest. No difference at all has p = 1.
    """
    found = numpy.asarray(differences, dtype=numpy.float64)
    ranks = _doubled_ranks(numpy.abs(found))
    nonzero = found != 0
    positive = int(ranks[nonzero & (found > 0)].sum())
    # The distribution does not depend on the order of the ranks; sorted, more pairs of solvers share it.
    used = tuple(sorted(ranks[nonzero].tolist()))
    if not used:
        return 1.0
    if len(used) > _MOST_EXACT_PAIRS:
        return _normal_p(positive, numpy.array(used, dtype=numpy.float64))
    chances = _rank_sums(used)
    return min(1.0, 2 * min(float(chances[: positive + 1].sum()), float(chances[positive:].sum())))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjustment: compared with alpha, it keeps the chance of any false finding among all tests below alpha."""
    order = sorted(range(len(p_values)), key=lambda test: p_values[test])
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for done, test in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - done) * p_values[test]))
        adjusted[test] = largest
    return adjusted


def least_p(pairs: int) -> float:
    """The smallest p-value that so many pairs can give: all differences on one side."""
    return min(1.0, 2.0 ** (1 - pairs))


def pairs_needed(tests: int = 1, alpha: float = ALPHA) -> int:
    """How many pairs it takes before any of so many tests can be significant after Holm's adjustment."""
    pairs = 1
    while tests * least_p(pairs) > alpha:
        pairs += 1
    return pairs


def detectable_difference(differences: Sequence[float], alpha: float = ALPHA, power: float = POWER) -> float | None:
    """The least mean difference that this many pairs, with this spread, would show as significant with this power.

    For one test before any adjustment, as if the differences were normal.

    Returns:
        `None` for fewer than two differences or when one is infinite; infinity if nothing can be significant.
    """
    found = numpy.asarray(differences, dtype=numpy.float64)
    if found.size < 2 or not numpy.isfinite(found).all():
        return None
    if least_p(found.size) > alpha:
        return math.inf
    return float(found.std(ddof=1)) * _detectable_in_deviations(found.size, alpha, power)


def _doubled_ranks(magnitudes: Array) -> Array:
    """Twice the ranks, ties sharing the mean: whole numbers."""
    _, inverse, counts = numpy.unique(magnitudes, return_inverse=True, return_counts=True)
    last = numpy.cumsum(counts)
    doubled: Array = (2 * last - counts + 1)[inverse]
    return doubled


@lru_cache(maxsize=4096)
def _rank_sums(ranks: tuple[int, ...]) -> Array:
    """How likely each sum of the positive ranks is when every sign is tossed: position is the sum, doubled."""
    chances = numpy.zeros(sum(ranks) + 1)
    chances[0] = 1.0
    for rank in ranks:
        tossed = chances / 2
        tossed[rank:] += chances[: chances.size - rank] / 2
        chances = tossed
    return chances


def _normal_p(positive: int, ranks: Array) -> float:
    distance = abs(positive - ranks.sum() / 2) / math.sqrt((ranks**2).sum() / 4)
    return math.erfc(distance / math.sqrt(2))


@lru_cache(maxsize=256)
def _detectable_in_deviations(pairs: int, alpha: float, power: float) -> float:
    """Where the t-test has the power, at the level that the rank test really has with so few pairs."""
    # Only a board with enough pairs needs scipy.
    from scipy.optimize import brentq  # noqa: PLC0415
    from scipy.special import nctdtr, stdtrit  # noqa: PLC0415

    freedom = pairs - 1
    critical = float(stdtrit(freedom, 1 - _attained_level(pairs, alpha) / 2))

    def lacking(shift: float) -> float:
        # The other tail is left out: where the power is 80% it holds a few millionths.
        return float(power - (1 - nctdtr(freedom, shift, critical)))

    return float(brentq(lacking, 0.0, _LARGEST_SHIFT, xtol=_EXACT)) / math.sqrt(pairs * _EFFICIENCY)


def _attained_level(pairs: int, alpha: float) -> float:
    """The largest level below alpha that a two-sided exact test of so many pairs can have."""
    if pairs > _MOST_EXACT_PAIRS:
        return alpha
    tail = numpy.cumsum(_rank_sums(tuple(range(2, 2 * pairs + 1, 2))))
    return float(2 * tail[tail <= alpha / 2].max())

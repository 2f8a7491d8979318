"""Ranks that are shared where a difference is not significant, and how sure they are.

On every pair (a seed, the same for all solvers) the solvers take places; the mean place puts them in order. From the
top, a solver shares the rank of the first of its group unless it is significantly worse than that one; then it opens
the next group, and its rank is its position. So two solvers with the same rank need not be alike, but neither is
significantly worse than the first of their group.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy

from drobench.results.comparison.standings import Standing
from drobench.results.comparison.statistics import CONFIDENCE

RESAMPLES = 1000
FEWEST_PAIRS = 6
"""With fewer pairs than this nothing can be significant at 5%, and resampling them would feign certainty."""

Array = numpy.ndarray[Any, numpy.dtype[Any]]
_EQUAL = 1e-9


def places(standings: Sequence[Sequence[Standing]]) -> Array:
    """The place of each solver (row) on each pair (column): 1 is best, ties share the mean."""
    everything = sorted({standing for row in standings for standing in row})
    ordinal = {standing: number for number, standing in enumerate(everything)}
    numbers = numpy.array([[ordinal[standing] for standing in row] for row in standings])
    taken = numpy.empty(numbers.shape)
    for pair in range(numbers.shape[1]):
        _, inverse, counts = numpy.unique(numbers[:, pair], return_inverse=True, return_counts=True)
        last = numpy.cumsum(counts)
        taken[:, pair] = (last - (counts - 1) / 2)[inverse.reshape(-1)]
    return taken


def rank_intervals(taken: Array, confidence: float = CONFIDENCE, seed: int = 0) -> list[tuple[int, int]] | None:
    """Between which positions each solver stays when the pairs are drawn again; `None` with too few of them."""
    pairs = taken.shape[1]
    if pairs < FEWEST_PAIRS:
        return None
    times = numpy.random.default_rng(seed).multinomial(pairs, numpy.full(pairs, 1 / pairs), size=RESAMPLES)
    means = taken @ times.T / pairs
    order = numpy.argsort(means, axis=0)
    ordered = numpy.take_along_axis(means, order, axis=0)
    opens = numpy.vstack([numpy.ones((1, RESAMPLES), dtype=bool), numpy.diff(ordered, axis=0) > _EQUAL])
    numbers = numpy.arange(1, len(taken) + 1)[:, None]
    positions = numpy.empty(means.shape, dtype=int)
    numpy.put_along_axis(positions, order, numpy.maximum.accumulate(numpy.where(opens, numbers, 0), axis=0), axis=0)
    tail = (1 - confidence) / 2
    low = numpy.quantile(positions, tail, axis=1, method="lower")
    high = numpy.quantile(positions, 1 - tail, axis=1, method="higher")
    return [(int(least), int(most)) for least, most in zip(low, high, strict=True)]


def shared_ranks(ordered: Sequence[str], worse: Callable[[str, str], bool]) -> dict[str, int]:
    """The ranks of solvers that stand in order.

    Args:
        ordered: Best first.
        worse: Whether the first is significantly worse than the second.
    """
    ranks: dict[str, int] = {}
    leader = ordered[0]
    for position, label in enumerate(ordered, start=1):
        if label == leader or worse(label, leader):
            leader = label
            ranks[label] = position
        else:
            ranks[label] = ranks[leader]
    return ranks

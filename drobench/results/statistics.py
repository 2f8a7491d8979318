"""Medians and bootstrap intervals over the seeds of a comparison."""

from collections.abc import Sequence

import numpy

from drobench.errors import SettingError


def median(values: Sequence[float]) -> float:
    """The middle value; of an even number of values, the mean of the two in the middle.

    Infinity is a value like any other ("not reached"), so the median is infinite when half of the values are.

    Raises:
        SettingError: If there are no values, or one of them is not a number.
    """
    return float(numpy.median(_checked(values)))


def bootstrap_interval(
    values: Sequence[float], confidence: float = 0.95, resamples: int = 2000, seed: int = 0
) -> tuple[float, float]:
    """Percentile bootstrap interval of the median.

    The percentile method is used rather than BCa: the acceleration of BCa comes from leaving one value out, and the
    median of a few seeds hardly moves then, so that BCa is undefined or worse exactly where we need it.

    Args:
        values: One value per seed; infinity stands for "not reached".
        confidence: Coverage, between 0 and 1.
        resamples: Number of resamples.
        seed: Seed of the resampling; the same values and seed give the same interval.

    Returns:
        Lower and upper end; both the value itself when there is only one, or all are equal.

    Raises:
        SettingError: If there are no values, one of them is not a number, or `confidence` or `resamples` is impossible.
    """
    if not 0 < confidence < 1:
        raise SettingError(f"`confidence` must be between 0 and 1; found {confidence!r}.")
    if resamples < 1:
        raise SettingError(f"`resamples` must be at least 1; found {resamples!r}.")
    sample = _checked(values)
    if (sample == sample[0]).all():
        return float(sample[0]), float(sample[0])
    drawn = numpy.random.default_rng(seed).integers(0, sample.size, (resamples, sample.size))
    medians = numpy.median(sample[drawn], axis=1)
    tail = (1 - confidence) / 2
    if numpy.isfinite(medians).all():
        low, high = numpy.quantile(medians, [tail, 1 - tail])
    else:
        # Between a number and infinity nothing can be interpolated: take the wider of the two neighbours.
        low = numpy.quantile(medians, tail, method="lower")
        high = numpy.quantile(medians, 1 - tail, method="higher")
    return float(low), float(high)


def _checked(values: Sequence[float]) -> numpy.ndarray[tuple[int], numpy.dtype[numpy.float64]]:
    sample = numpy.asarray(values, dtype=numpy.float64).reshape(-1)
    if sample.size == 0:
        raise SettingError("A median needs at least one value; found none.")
    if numpy.isnan(sample).any():
        raise SettingError(f"A median needs numbers; found {int(numpy.isnan(sample).sum())} that are not.")
    return sample

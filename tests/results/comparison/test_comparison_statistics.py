"""Medians and their intervals, against enumeration and scipy."""

import itertools
import math
import warnings

import numpy
import pytest
import scipy.stats

from drobench.errors import SettingError
from drobench.results.comparison.statistics import bootstrap_interval, bootstrap_intervals, median, most_coverage

GENERATOR = numpy.random.default_rng(7)


SAMPLES = [GENERATOR.normal(size=size) for size in (2, 3, 5, 8, 20)] + [GENERATOR.exponential(size=11)]


def test_the_median_of_even_and_odd_numbers():
    assert median([3.0, 1.0, 2.0]) == 2.0
    assert median([4.0, 1.0, 2.0, 3.0]) == 2.5


def test_the_median_counts_infinity_as_a_value():
    assert median([1.0, 2.0, math.inf]) == 2.0
    assert median([1.0, math.inf]) == math.inf
    assert median([math.inf, math.inf]) == math.inf


def enumerated_interval(values, confidence):
    """BCa with the medians of all resamples there are, and the acceleration by leaving values out one by one."""
    sample = numpy.asarray(values)
    everything = list(itertools.product(range(len(sample)), repeat=len(sample)))
    medians = numpy.sort(numpy.median(sample[numpy.array(everything)], axis=1))
    estimate = numpy.median(sample)
    below = (numpy.mean(medians < estimate) + numpy.mean(medians <= estimate)) / 2
    left_out = numpy.array([numpy.median(numpy.delete(sample, place)) for place in range(len(sample))])
    deviations = left_out.mean() - left_out
    acceleration = (deviations**3).sum() / (6 * (deviations**2).sum() ** 1.5)
    bias = scipy.stats.norm.ppf(below)
    shifted = bias + scipy.stats.norm.ppf([(1 - confidence) / 2, (1 + confidence) / 2])
    levels = scipy.stats.norm.cdf(bias + shifted / (1 - acceleration * shifted))
    return tuple(numpy.quantile(medians, levels, method="inverted_cdf"))


@pytest.mark.parametrize("size", [2, 3, 4, 5, 6])
@pytest.mark.parametrize("confidence", [0.5, 0.8, 0.95])
def test_the_interval_is_that_of_all_resamples_there_are(size, confidence):
    for values in numpy.random.default_rng(size).exponential(size=(3, size)):
        assert bootstrap_interval(values, confidence) == pytest.approx(enumerated_interval(values, confidence))


@pytest.mark.parametrize("values", SAMPLES, ids=len)
@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_the_interval_is_what_random_resamples_of_scipy_tend_to(values, confidence):
    def theirs(level):
        return scipy.stats.bootstrap(
            (values,), numpy.median, confidence_level=level, n_resamples=20_000, method="BCa", batch=20_000,
            rng=numpy.random.default_rng(5),
        ).confidence_interval  # fmt: skip

    # The ends are values of a discrete distribution, so a slightly different level may mean the next value.
    low, high = bootstrap_interval(values, confidence)
    narrow, wide = theirs(confidence - 0.015), theirs(confidence + 0.015)
    assert wide.low - 1e-12 <= low <= narrow.low + 1e-12
    assert narrow.high - 1e-12 <= high <= wide.high + 1e-12


@pytest.mark.parametrize("size", [9, 10, 25])
@pytest.mark.parametrize(("name", "true"), [("normal", 0.0), ("exponential", math.log(2))])
def test_the_interval_has_about_the_promised_coverage(size, name, true):
    draw = getattr(numpy.random.default_rng(11), name)
    low, high = bootstrap_intervals(draw(size=(2000, size))).T
    assert 0.91 <= numpy.mean((low <= true) & (true <= high)) <= 0.98


@pytest.mark.parametrize("size", [2, 3, 5])
def test_few_values_cannot_cover_what_they_promise(size):
    low, high = bootstrap_intervals(numpy.random.default_rng(3).normal(size=(4000, size))).T
    assert numpy.mean((low <= 0) & (high >= 0)) == pytest.approx(most_coverage(size), abs=0.02)


@pytest.mark.parametrize("values", [[2.5], [2.5, 2.5, 2.5], [2.5] * 4, [math.inf, math.inf], [math.inf] * 3])
def test_one_value_or_equal_values_are_their_own_interval(values):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert bootstrap_interval(values) == (values[0], values[0])


@pytest.mark.parametrize("values", [[1.0, 1.0, 1.0, 2.0], [0.0, 0.0, 1e-300], [1e308, 1.5e308, 1.7e308, 1.7e308]])
def test_ties_and_extreme_numbers_give_an_interval_without_warnings(values):
    low, high = bootstrap_interval(values)
    assert min(values) <= low <= median(values[:-1]) <= high <= max(values)


def test_the_interval_may_end_at_infinity_but_is_never_undefined():
    assert bootstrap_interval([1.0, 2.0, math.inf]) == (1.0, math.inf)
    assert bootstrap_interval([1.0, 2.0, 3.0, math.inf]) == (1.0, math.inf)


def test_a_higher_confidence_gives_a_wider_interval():
    values = SAMPLES[4].tolist()
    narrow, wide = bootstrap_interval(values, confidence=0.5), bootstrap_interval(values, confidence=0.99)
    assert wide[0] < narrow[0] <= median(values) <= narrow[1] < wide[1]


@pytest.mark.parametrize("values", [[], [1.0, math.nan]])
def test_what_has_no_median_is_refused(values):
    with pytest.raises(SettingError):
        median(values)
    with pytest.raises(SettingError):
        bootstrap_interval(values)


@pytest.mark.parametrize("confidence", [0.0, 95])
def test_impossible_settings_are_refused(confidence):
    with pytest.raises(SettingError, match="confidence"):
        bootstrap_interval([1.0, 2.0], confidence)


@pytest.mark.parametrize(
    "values", [[math.inf, -math.inf], [-math.inf, -math.inf, math.inf, math.inf], [math.inf, -math.inf, 1.0]]
)
def test_between_minus_and_plus_infinity_stands_zero(values):
    """Each side of a paired comparison has lost as many seeds: neither is better, and nothing warns."""
    expected = 1.0 if 1.0 in values else 0.0
    assert median(values) == expected
    low, high = bootstrap_interval(values)
    assert low <= expected <= high

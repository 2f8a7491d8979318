import math
import warnings

import numpy
import pytest
import scipy.stats

from drobench.errors import SettingError
from drobench.results.statistics import bootstrap_interval, median

GENERATOR = numpy.random.default_rng(7)
SAMPLES = [GENERATOR.normal(size=size) for size in (2, 3, 5, 20)] + [GENERATOR.exponential(size=11)]


def test_the_median_of_even_and_odd_numbers():
    assert median([3.0, 1.0, 2.0]) == 2.0
    assert median([4.0, 1.0, 2.0, 3.0]) == 2.5


def test_the_median_counts_infinity_as_a_value():
    assert median([1.0, 2.0, math.inf]) == 2.0
    assert median([1.0, math.inf]) == math.inf
    assert median([math.inf, math.inf]) == math.inf


@pytest.mark.parametrize("values", SAMPLES, ids=len)
@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_the_interval_is_the_percentile_interval_of_scipy(values, confidence):
    theirs = scipy.stats.bootstrap(
        (values,),
        numpy.median,
        confidence_level=confidence,
        n_resamples=2000,
        method="percentile",
        rng=numpy.random.default_rng(5),
    ).confidence_interval
    ours = bootstrap_interval(values.tolist(), confidence=confidence, resamples=2000, seed=5)
    assert ours == pytest.approx((theirs.low, theirs.high), rel=1e-12)


def test_the_interval_has_about_the_promised_coverage():
    generator = numpy.random.default_rng(11)
    intervals = [bootstrap_interval(generator.normal(size=25).tolist(), resamples=400) for _ in range(300)]
    coverage = numpy.mean([low <= 0 <= high for low, high in intervals])
    assert 0.90 <= coverage <= 0.99


def test_the_interval_is_the_same_for_the_same_seed_only():
    values = SAMPLES[3].tolist()
    assert bootstrap_interval(values, seed=1) == bootstrap_interval(values, seed=1)
    assert bootstrap_interval(values, resamples=50, seed=1) != bootstrap_interval(values, resamples=50, seed=2)


@pytest.mark.parametrize("values", [[2.5], [2.5, 2.5, 2.5], [math.inf, math.inf]])
def test_one_value_or_equal_values_are_their_own_interval(values):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert bootstrap_interval(values) == (values[0], values[0])


def test_the_interval_may_end_at_infinity_but_is_never_undefined():
    low, high = bootstrap_interval([1.0, 2.0, math.inf])
    assert (low, high) == (1.0, math.inf)


def test_a_higher_confidence_gives_a_wider_interval():
    values = SAMPLES[3].tolist()
    narrow, wide = bootstrap_interval(values, confidence=0.5), bootstrap_interval(values, confidence=0.99)
    assert wide[0] < narrow[0] <= median(values) <= narrow[1] < wide[1]


@pytest.mark.parametrize("values", [[], [1.0, math.nan]])
def test_what_has_no_median_is_refused(values):
    with pytest.raises(SettingError):
        median(values)
    with pytest.raises(SettingError):
        bootstrap_interval(values)


@pytest.mark.parametrize("settings", [{"confidence": 0.0}, {"confidence": 95}, {"resamples": 0}])
def test_impossible_settings_are_refused(settings):
    with pytest.raises(SettingError, match=next(iter(settings))):
        bootstrap_interval([1.0, 2.0], **settings)

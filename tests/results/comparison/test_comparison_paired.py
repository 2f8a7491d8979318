import itertools
import math

import numpy
import pytest
import scipy.stats

from drobench.results.comparison.paired import detectable_difference, holm, least_p, pairs_needed, signed_rank_p


@pytest.mark.parametrize("size", [1, 2, 3, 6, 10, 25, 50])
@pytest.mark.parametrize("shift", [0.0, 0.5])
def test_the_p_value_is_the_exact_one_of_scipy(size, shift):
    differences = numpy.random.default_rng(size).normal(size=size) + shift
    assert signed_rank_p(differences) == pytest.approx(scipy.stats.wilcoxon(differences, method="exact").pvalue)


@pytest.mark.parametrize("seed", range(4))
def test_with_ties_and_zeros_it_is_that_of_all_signs(seed):
    differences = numpy.random.default_rng(seed).integers(-3, 5, size=5 + seed).astype(float)
    every_sign = scipy.stats.PermutationMethod(n_resamples=10**6)
    theirs = scipy.stats.wilcoxon(differences, zero_method="pratt", method=every_sign).pvalue
    assert signed_rank_p(differences) == pytest.approx(theirs)


def test_many_pairs_take_the_normal_approximation_of_scipy():
    differences = numpy.random.default_rng(3).integers(-3, 5, size=80).astype(float)
    theirs = scipy.stats.wilcoxon(differences, zero_method="pratt", method="asymptotic").pvalue
    assert signed_rank_p(differences) == pytest.approx(theirs)


def test_no_difference_at_all_proves_nothing():
    assert signed_rank_p([0.0, 0.0, 0.0]) == 1.0
    assert signed_rank_p([]) == 1.0


def test_an_infinite_difference_is_the_largest():
    assert signed_rank_p([1.0, -2.0, math.inf]) == signed_rank_p([1.0, -2.0, 3.0])
    assert signed_rank_p([math.inf] * 6) == 2 / 2**6


def test_false_alarms_are_as_rare_as_promised():
    generator = numpy.random.default_rng(0)
    alarms = [signed_rank_p(generator.normal(size=12)) <= 0.05 for _ in range(3000)]
    assert 0.03 <= numpy.mean(alarms) <= 0.06


def closed_testing(p_values):
    """Holm's adjustment from first principles: Bonferroni for every set of tests that a test is in."""
    tests = range(len(p_values))
    sets = [chosen for size in range(1, len(p_values) + 1) for chosen in itertools.combinations(tests, size)]
    return [
        max(min(1.0, len(chosen) * min(p_values[test] for test in chosen)) for chosen in sets if asked in chosen)
        for asked in tests
    ]


@pytest.mark.parametrize("p_values", [[0.01, 0.04, 0.03], [0.2], [0.5, 0.01, 0.01, 0.9], [0.3, 0.3, 0.02, 0.011, 0.04]])
def test_holm_is_closed_testing_with_bonferroni(p_values):
    assert holm(p_values) == pytest.approx(closed_testing(p_values))


def test_three_pairs_cannot_go_below_a_quarter():
    assert least_p(3) == 0.25 == signed_rank_p([1.0, 2.0, 3.0])
    assert least_p(1) == 1.0
    assert all(least_p(pairs) == signed_rank_p(range(1, pairs + 1)) for pairs in range(1, 12))


@pytest.mark.parametrize(("tests", "pairs"), [(1, 6), (3, 7), (45, 11)])
def test_how_many_pairs_are_needed(tests, pairs):
    assert pairs_needed(tests) == pairs
    assert holm([least_p(pairs)] * tests)[0] <= 0.05 < holm([least_p(pairs - 1)] * tests)[0]


@pytest.mark.parametrize("pairs", [7, 10, 20, 60])
def test_the_detectable_difference_is_detected_eight_times_in_ten(pairs):
    generator = numpy.random.default_rng(pairs)
    spread = generator.normal(size=pairs)
    shift = detectable_difference(spread) / spread.std(ddof=1)
    found = [signed_rank_p(generator.normal(size=pairs) + shift) <= 0.05 for _ in range(1500)]
    assert 0.74 <= numpy.mean(found) <= 0.85


def test_what_cannot_be_detected_is_said():
    assert detectable_difference([1.0, 2.0, 4.0, 2.0, 1.0]) == math.inf
    assert detectable_difference([1.0]) is None
    assert detectable_difference([1.0, 2.0, math.inf]) is None
    assert detectable_difference([3.0] * 8) == 0.0

"""Ranks that are shared, and how sure they are."""

import numpy
import scipy.stats

from drobench.results.comparison.ranking import FEWEST_PAIRS, places, rank_intervals, shared_ranks
from drobench.results.comparison.standings import Achievement, Standing


def standings(amounts):
    return [[Standing(Achievement.FEASIBLE, float(amount)) for amount in row] for row in amounts]


def test_places_are_ranks_with_ties():
    amounts = numpy.random.default_rng(1).integers(0, 4, size=(5, 20))
    expected = scipy.stats.rankdata(amounts, axis=0)
    assert places(standings(amounts)).tolist() == expected.tolist()


def test_a_rank_is_shared_with_the_first_of_the_group_only():
    # c is worse than a, d is worse than a and b but not than c; e is worse than c.
    worse = {("c", "a"), ("d", "a"), ("d", "b"), ("e", "a"), ("e", "c")}
    ranks = shared_ranks("abcde", lambda label, leader: (label, leader) in worse)
    assert ranks == {"a": 1, "b": 1, "c": 3, "d": 3, "e": 5}


def test_nobody_significantly_worse_means_one_rank_for_all():
    assert shared_ranks("abc", lambda label, leader: False) == {"a": 1, "b": 1, "c": 1}


def test_rank_intervals_are_certain_where_the_seeds_agree_and_wide_where_they_do_not():
    steady = [1.0] * 10
    tossed = [[2.0, 3.0] * 5, [3.0, 2.0] * 5]
    assert rank_intervals(places(standings([steady, *tossed]))) == [(1, 1), (2, 3), (2, 3)]


def test_rank_intervals_hold_the_true_rank_about_as_often_as_promised():
    generator = numpy.random.default_rng(5)
    held = []
    for _ in range(60):
        amounts = generator.normal(size=(3, 15)) + numpy.array([[0.0], [0.8], [1.6]])
        found = rank_intervals(places(standings(amounts)))
        held += [low <= true <= high for (low, high), true in zip(found, (1, 2, 3), strict=True)]
    assert numpy.mean(held) >= 0.93


def test_few_seeds_have_no_rank_interval():
    assert rank_intervals(places(standings(numpy.ones((2, FEWEST_PAIRS - 1))))) is None
    assert rank_intervals(places(standings(numpy.ones((2, FEWEST_PAIRS))))) == [(1, 1), (1, 1)]

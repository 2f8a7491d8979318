import itertools
import math

import numpy
import pytest
import scipy.stats
from result_samples import make_record

from drobench.results.comparison.outcomes import Achievement, Outcome, is_feasible, outcome, signed_differences
from drobench.results.comparison.paired import signed_rank_p
from drobench.results.comparison.ranking import FEWEST_PAIRS, places, rank_intervals, shared_ranks
from drobench.results.record import Iterate, Status


def outcomes(amounts):
    return [[Outcome(Achievement.FEASIBLE, float(amount)) for amount in row] for row in amounts]


def test_places_are_ranks_with_ties():
    amounts = numpy.random.default_rng(1).integers(0, 4, size=(5, 20))
    expected = scipy.stats.rankdata(amounts, axis=0)
    assert places(outcomes(amounts)).tolist() == expected.tolist()


def test_runs_stand_in_the_order_that_is_documented():
    feasible, infeasible = Iterate(gap=0.5, feasible=True), Iterate(gap=None, train_max_violation=0.2, feasible=False)

    def judged(point, cost=math.inf, status=Status.BUDGET_SPENT, allowed=None):
        return outcome(make_record(status=status, iterate=point), point, cost, "gap", allowed)

    ordered = [
        judged(feasible, cost=3.0),
        judged(infeasible, cost=4.0),
        judged(Iterate(gap=0.1, feasible=True)),
        judged(feasible),
        judged(Iterate(train_max_violation=0.1, feasible=False)),
        judged(infeasible),
        judged(None),
        judged(feasible, cost=1.0, status=Status.DIVERGED),
    ]
    assert all(better < worse for better, worse in itertools.pairwise(ordered))
    assert judged(Iterate(feasible=True)).achievement is Achievement.UNSCORED
    assert judged(Iterate(gap=math.nan, feasible=True)).achievement is Achievement.UNSCORED


def test_a_target_may_allow_more_violation_than_the_problem():
    point = Iterate(gap=0.5, train_max_violation=0.02, feasible=False)
    assert not is_feasible(point, None)
    assert is_feasible(point, 0.02)
    assert not is_feasible(point, 0.01)
    assert is_feasible(Iterate(feasible=True), 0.01)
    assert not is_feasible(None, 0.01)


def test_within_a_stage_the_test_is_the_plain_signed_rank_test():
    first, second = numpy.random.default_rng(4).normal(size=(2, 12))
    differences = signed_differences(*outcomes([first, second]))
    assert signed_rank_p(differences) == pytest.approx(scipy.stats.wilcoxon(first, second, method="exact").pvalue)


def test_another_stage_weighs_more_than_any_number():
    better = [
        Outcome(Achievement.REACHED, 100.0),
        Outcome(Achievement.REACHED, 1.0),
        Outcome(Achievement.FEASIBLE, 3.0),
    ]
    worse = [
        Outcome(Achievement.INFEASIBLE, 0.0),
        Outcome(Achievement.REACHED, 901.0),
        Outcome(Achievement.FEASIBLE, 1.0),
    ]
    stage, cost, measure = signed_differences(better, worse)
    assert stage > cost > -measure > 0
    assert signed_differences(worse, better) == [-stage, -cost, -measure]
    assert signed_differences(better, better) == [0.0, 0.0, 0.0]


def test_a_test_of_mixed_outcomes_gives_as_few_false_alarms_as_promised():
    generator = numpy.random.default_rng(9)

    def draw():
        levels = generator.choice(
            [Achievement.REACHED, Achievement.FEASIBLE, Achievement.INFEASIBLE, Achievement.FAILED], size=10
        )
        return [
            Outcome(Achievement(level), 0.0 if level == Achievement.FAILED else generator.exponential())
            for level in levels
        ]

    alarms = [signed_rank_p(signed_differences(draw(), draw())) <= 0.05 for _ in range(2000)]
    assert 0.03 <= numpy.mean(alarms) <= 0.06


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
    assert rank_intervals(places(outcomes([steady, *tossed]))) == [(1, 1), (2, 3), (2, 3)]


def test_rank_intervals_hold_the_true_rank_about_as_often_as_promised():
    generator = numpy.random.default_rng(5)
    held = []
    for _ in range(60):
        amounts = generator.normal(size=(3, 15)) + numpy.array([[0.0], [0.8], [1.6]])
        found = rank_intervals(places(outcomes(amounts)))
        held += [low <= true <= high for (low, high), true in zip(found, (1, 2, 3), strict=True)]
    assert numpy.mean(held) >= 0.93


def test_few_seeds_have_no_rank_interval():
    assert rank_intervals(places(outcomes(numpy.ones((2, FEWEST_PAIRS - 1))))) is None
    assert rank_intervals(places(outcomes(numpy.ones((2, FEWEST_PAIRS))))) == [(1, 1), (1, 1)]

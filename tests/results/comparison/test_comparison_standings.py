"""One order for all runs of a board."""

import itertools
import math

import numpy
import pytest
import scipy.stats
from result_samples import make_record

from drobench.results.comparison.paired import signed_rank_p
from drobench.results.comparison.standings import Achievement, Standing, is_feasible, signed_differences, standing_of
from drobench.results.parts import certified_within
from drobench.results.record import Iterate, Outcome, Status


def standings(amounts):
    return [[Standing(Achievement.FEASIBLE, float(amount)) for amount in row] for row in amounts]


def test_runs_stand_in_the_order_that_is_documented():
    feasible, infeasible = Iterate(gap=0.5, feasible=True), Iterate(gap=None, train_max_violation=0.2, feasible=False)

    def judged(point, cost=math.inf, status=Status.BUDGET_SPENT, allowed=None):
        return standing_of(make_record(status=status, iterate=point), point, cost, "gap", allowed)

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


def test_among_runs_that_came_as_far_the_test_is_the_plain_signed_rank_test():
    first, second = numpy.random.default_rng(4).normal(size=(2, 12))
    differences = signed_differences(*standings([first, second]))
    assert signed_rank_p(differences) == pytest.approx(scipy.stats.wilcoxon(first, second, method="exact").pvalue)


def test_to_come_further_weighs_more_than_any_number():
    better = [
        Standing(Achievement.REACHED, 100.0),
        Standing(Achievement.REACHED, 1.0),
        Standing(Achievement.FEASIBLE, 3.0),
    ]
    worse = [
        Standing(Achievement.INFEASIBLE, 0.0),
        Standing(Achievement.REACHED, 901.0),
        Standing(Achievement.FEASIBLE, 1.0),
    ]
    further, cost, measure = signed_differences(better, worse)
    assert further > cost > -measure > 0
    assert signed_differences(worse, better) == [-further, -cost, -measure]
    assert signed_differences(better, better) == [0.0, 0.0, 0.0]


def test_a_test_of_mixed_standings_gives_as_few_false_alarms_as_promised():
    generator = numpy.random.default_rng(9)

    def draw():
        levels = generator.choice(
            [Achievement.REACHED, Achievement.FEASIBLE, Achievement.INFEASIBLE, Achievement.FAILED], size=10
        )
        return [
            Standing(Achievement(level), 0.0 if level == Achievement.FAILED else generator.exponential())
            for level in levels
        ]

    alarms = [signed_rank_p(signed_differences(draw(), draw())) <= 0.05 for _ in range(2000)]
    assert 0.03 <= numpy.mean(alarms) <= 0.06


def test_a_run_that_ended_worse_than_it_began_comes_after_its_like_but_the_measure_keeps_its_say():
    worse = Outcome.WORSE_THAN_START
    good, bad = Iterate(gap=0.1, feasible=True), Iterate(gap=9.0, feasible=True)
    near, far = (Iterate(train_max_violation=value, feasible=False) for value in (0.1, 0.2))

    def judged(point, cost=math.inf, outcome=Outcome.OK):
        return standing_of(make_record(iterate=point), point, cost, "gap", None, outcome)

    ordered = [
        judged(good, cost=3.0),
        judged(good, cost=40.0),
        judged(bad, cost=1.0, outcome=worse),
        judged(bad, cost=2.0, outcome=worse),
        # By an error, say, a run may be better than another although its objective rose.
        judged(good, outcome=worse),
        judged(bad),
        judged(far),
        judged(near, outcome=worse),
        judged(far, outcome=worse),
    ]
    assert all(better < other for better, other in itertools.pairwise(ordered))
    for better, other in itertools.pairwise(ordered):
        (difference,) = signed_differences([better], [other])
        assert difference > 0
    costs, ends = signed_differences([ordered[0], ordered[1]], [ordered[1], ordered[2]])
    assert ends > costs > 0


def test_where_the_start_is_optimal_rounding_makes_no_ranks():
    within = certified_within(1.0)

    def judged(gap, outcome=Outcome.START_IS_OPTIMAL, measure="gap"):
        point = Iterate(gap=gap, objective=1.0 + gap, feasible=True)
        return standing_of(make_record(iterate=point, optimum=1.0), point, math.inf, measure, None, outcome)

    assert judged(-1e-9) == judged(0.0) == judged(0.9 * within) < judged(1.1 * within) < judged(0.5)
    assert judged(-1e-9, Outcome.OK) < judged(0.0, Outcome.OK)
    assert judged(-1e-9, measure="objective") < judged(0.0, measure="objective")

"""Two solvers, run by run."""

import pytest
from comparison_samples import ranks
from result_samples import make_record

from drobench.results.comparison.comparing import PairedRun, comparisons
from drobench.results.comparison.standings import Achievement, Standing
from drobench.results.record import Iterate


def test_a_difference_that_the_seeds_do_not_show_is_no_difference(runs):
    for seed in range(8):
        runs.add("one", seed, [2.0, 1.3 + 0.1 * (-1) ** seed])
        runs.add("other", seed, [2.0, 1.31])
    board = runs.board()
    assert set(ranks(board).values()) == {1}
    assert not board.comparisons[0].significant
    assert {row.rank_interval for row in board.rows} == {(1, 2)}


def test_costs_are_compared_by_their_ratio(runs):
    for seed in range(8):
        runs.add("quick", seed, [3.0] * (seed + 1) + [1.0])
        runs.add("slow", seed, [3.0] * (2 * seed + 2) + [1.0])
    board = runs.board()
    (found,) = board.comparisons
    assert (found.quantity, found.effect.median, found.is_ratio) == ("passes", 2.0, True)
    assert found.detectable == pytest.approx(1.0)
    assert board.rows[1].comparison is found
    assert board.rows[0].comparison is None


def paired(*standings, points=None):
    points = points or [None] * len(standings)
    return [PairedRun(make_record(), point, found) for point, found in zip(points, standings, strict=True)]


def compared(better, worse):
    (found,) = comparisons(["x", "y"], {"x": better, "y": worse}, "gap", "passes")
    return found


def test_a_cost_that_one_never_paid_is_infinitely_larger_and_two_that_never_arrived_say_nothing():
    arrived, late = Standing(Achievement.REACHED, 2.0), Standing(Achievement.REACHED, 6.0)
    found = compared(paired(arrived, arrived), paired(late, late))
    assert (found.quantity, found.effect.median, found.wins, found.losses) == ("passes", 3.0, 2, 0)
    failed = Standing(Achievement.FAILED)
    nothing = compared(paired(failed), paired(failed))
    assert (nothing.effect, nothing.wins, nothing.losses, nothing.p_value) == (None, 0, 0, 1.0)


def test_infeasible_runs_are_compared_by_their_violation():
    points = [Iterate(train_max_violation=0.1, feasible=False), Iterate(train_max_violation=0.4, feasible=False)]
    near, far = (Standing(Achievement.INFEASIBLE, point.train_max_violation) for point in points)
    found = compared(paired(near, points=points[:1]), paired(far, points=points[1:]))
    assert (found.quantity, found.is_ratio) == ("train_max_violation", False)
    assert found.effect.median == pytest.approx(0.3)


def test_the_p_values_of_a_board_are_adjusted_together():
    runs = {
        name: paired(*(Standing(Achievement.FEASIBLE, place + seed / 100) for seed in range(8)))
        for place, name in enumerate("abc")
    }
    found = comparisons("abc", runs, "gap", "passes")
    assert [(one.better, one.worse) for one in found] == [("a", "b"), ("a", "c"), ("b", "c")]
    assert {one.p_value for one in found} == {2 / 2**8}
    assert {one.p_adjusted for one in found} == {3 * 2 / 2**8}
    assert all(one.significant for one in found)

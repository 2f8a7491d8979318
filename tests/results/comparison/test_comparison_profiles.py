import math

import numpy
import pytest

from drobench.results.comparison.profiles import Instance, profiles


def compared(costs, reference=None):
    """Boards with one target each; `costs` has a list per board: for each solver, one cost per seed."""
    instances = [Instance(f"board {number}", "target", dict(costs_here)) for number, costs_here in enumerate(costs)]
    return profiles(instances, "passes", reference)


def by_name(found, what):
    return {row.solver: getattr(row, what) for row in found.rows}


def test_the_score_is_the_area_under_the_profile():
    generator = numpy.random.default_rng(0)
    costs = [{name: [float(generator.lognormal())] for name in "abcd"} for _ in range(30)]
    costs[3]["a"] = [math.inf]
    found = compared(costs)
    grid = numpy.linspace(1, 4, 30_001)
    for row in found.rows:
        area = numpy.trapezoid([row.share(ratio) for ratio in grid], grid) / 3
        assert row.score == pytest.approx(area, abs=1e-3)
    scores = [row.score for row in found.rows]
    assert scores == sorted(scores, reverse=True)


def test_the_fastest_everywhere_scores_one_and_four_times_slower_earns_nothing():
    found = compared([{"a": [1.0], "b": [4.0]}, {"a": [2.0], "b": [9.0]}])
    assert by_name(found, "score") == {"a": 1.0, "b": 0.0}
    assert by_name(found, "reached") == {"a": 1.0, "b": 1.0}
    assert found.rows[1].ratios == (4.0, 4.5)


def test_medians_over_seeds_count_and_never_takes_part():
    never = math.inf
    found = compared([{"a": [1.0, 1.0, never], "b": [2.0, 2.0, 2.0]}, {"a": [never, never, 1.0], "b": [5.0] * 3}])
    assert found.rows[0].solver == "b"
    assert by_name(found, "ratios") == {"a": (1.0, never), "b": (2.0, 1.0)}
    assert by_name(found, "reached") == {"a": 0.5, "b": 1.0}


def test_the_speed_up_is_a_geometric_mean_where_both_arrived():
    found = compared([{"a": [1.0], "b": [2.0]}, {"a": [1.0], "b": [8.0]}, {"a": [1.0], "b": [math.inf]}], "a")
    assert by_name(found, "speedup") == {"a": 1.0, "b": pytest.approx(1 / 4)}
    assert found.reference == "a"
    backwards = compared([{"a": [1.0], "b": [2.0]}, {"a": [1.0], "b": [8.0]}], "b")
    assert by_name(backwards, "speedup") == {"a": pytest.approx(4.0), "b": 1.0}


def test_a_cost_of_nothing_is_only_matched_by_nothing():
    found = compared([{"a": [0.0], "b": [1.0], "c": [0.0]}, {"a": [1.0], "b": [1.0], "c": [2.0]}])
    assert by_name(found, "ratios") == {"a": (1.0, 1.0), "b": (math.inf, 1.0), "c": (1.0, 2.0)}


def test_a_reference_that_never_arrives_is_replaced_by_the_best():
    found = compared([{"a": [1.0], "b": [2.0], "c": [math.inf]}] * 2, "c")
    assert found.reference == "a"
    assert by_name(found, "speedup") == {"a": 1.0, "b": 0.5, "c": None}


def test_a_target_that_is_reached_by_few_seeds_does_not_pull_the_interval_away_from_the_score():
    never = math.inf
    rare = {"a": [1.0, 1.0, 1.0, never, never], "b": [never] * 5}
    found = compared([rare, {"a": [1.0] * 5, "b": [2.0] * 5}])
    assert [(row.solver, row.score, row.low, row.high) for row in found.rows] == [
        ("a", 1.0, 1.0, 1.0),
        ("b", pytest.approx(1 / 3), pytest.approx(1 / 3), pytest.approx(2 / 3)),
    ]


def test_targets_that_nobody_reached_are_counted_but_left_out():
    never = math.inf
    found = compared([{"a": [1.0], "b": [2.0]}, {"a": [never], "b": [never]}, {"a": [3.0], "b": [3.0]}])
    assert (found.instances, found.unsolved) == (2, 1)
    assert by_name(found, "score")["a"] == 1.0


@pytest.mark.parametrize(
    "costs",
    [
        [],
        [{"a": [1.0], "b": [1.0]}],
        [{"a": [1.0]}, {"a": [2.0]}],
        [{"a": [1.0], "b": [1.0]}, {"a": [1.0], "c": [1.0]}],
        [{"a": [math.inf], "b": [math.inf]}] * 2,
    ],
    ids=["nothing", "one board", "one solver", "no solvers in common", "never reached"],
)
def test_nothing_to_compare_across_boards_gives_no_profiles(costs):
    assert compared(costs) is None


def test_the_interval_of_the_score_holds_the_true_score_about_as_often_as_promised():
    # Two boards; b needs 2 and 3 times as long as a in the median, so its true score is ((4-2)/3 + (4-3)/3) / 2 = 1/2.
    generator = numpy.random.default_rng(1)
    held = []
    for _ in range(80):
        noise = generator.lognormal(sigma=0.2, size=(2, 2, 15))
        costs = [{"a": 10 * noise[0, board], "b": 10 * (2 + board) * noise[1, board]} for board in (0, 1)]
        row = next(row for row in compared(costs).rows if row.solver == "b")
        held.append(row.low <= 0.5 <= row.high)
        assert row.low <= row.score <= row.high
    assert numpy.mean(held) >= 0.88


def test_seeds_of_a_board_are_drawn_for_all_solvers_together():
    # On every seed b takes twice as long as a, whatever the seed: no resample can say otherwise.
    costs = numpy.array([1.0, 10.0, 100.0, 1000.0, 10_000.0])
    found = compared([{"a": costs, "b": 2 * costs}] * 2)
    assert [(row.solver, row.low, row.high) for row in found.rows] == [
        ("a", 1.0, 1.0),
        ("b", pytest.approx(2 / 3), pytest.approx(2 / 3)),
    ]

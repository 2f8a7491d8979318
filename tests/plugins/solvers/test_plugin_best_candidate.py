"""The choice among snapshots: by hand, against a plain re-statement of the rule, and with points let go on the way."""

import math
import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from drobench_plugins.solvers.pieces.best_candidate import add_candidate, best_point, no_candidates


def collect(objectives, violations, rank_objectives, capacity):
    """Return the collections after each snapshot; the point of snapshot `i` is `(i, i)`."""
    collected = [no_candidates(torch.zeros(2, dtype=torch.float64))]
    for i, (objective, violation) in enumerate(zip(objectives, violations, strict=True)):
        collected.append(
            add_candidate(
                collected[-1],
                torch.full((2,), float(i), dtype=torch.float64),
                torch.tensor(objective, dtype=torch.float64),
                torch.tensor(violation, dtype=torch.float64),
                rank_objectives=rank_objectives,
                capacity=capacity,
            )
        )
    return collected


def chosen(objectives, violations, rank_objectives=True) -> int:
    """Return the number of the snapshot that is chosen in the end."""
    collected = collect(objectives, violations, rank_objectives, len(objectives))[-1]
    return int(best_point(collected, rank_objectives=rank_objectives)[0])


def by_the_rule(objectives, violations, rank_objectives) -> int:
    """Return the answer by counting, one snapshot at a time."""
    clipped = [max(violation, 0.0) for violation in violations]
    best, best_key = -1, None
    for i, (objective, violation) in enumerate(zip(objectives, clipped, strict=True)):
        rank = 1 + sum(other < violation for other in clipped)
        if rank_objectives:
            rank = max(rank, 1 + sum(other < objective for other in objectives))
        key = (rank, objective)
        if best_key is None or key <= best_key:
            best, best_key = i, key
    return best


HAND = [
    # A single snapshot.
    ([3.0], [0.5], True, 0),
    # Ranks of objectives 1 2 3, of violations 3 2 1: the middle has 2 at worst.
    ([1.0, 2.0, 3.0], [0.3, 0.2, 0.1], True, 1),
    ([1.0, 2.0, 3.0], [0.3, 0.2, 0.1], False, 2),
    # Whatever is satisfied is equally satisfied: the smaller objective wins.
    ([2.0, 1.0, 3.0], [-0.5, -0.1, -0.9], True, 1),
    ([2.0, 1.0, 3.0], [-0.5, -0.1, -0.9], False, 1),
    # Equal values share the smallest rank: violations 1 1 3, objectives 3 1 1 -> 3 1 3.
    ([2.0, 1.0, 1.0], [0.0, -1.0, 0.4], True, 1),
    # Worst ranks 2 and 2: the smaller objective.
    ([1.0, 2.0], [0.2, 0.1], True, 0),
    # All equal: the later.
    ([1.0, 1.0, 1.0], [0.2, 0.2, 0.2], True, 2),
    ([1.0, 1.0, 1.0], [-0.2, -0.3, 0.0], False, 2),
    # What is not a number is worst.
    ([math.nan, 5.0], [0.0, 0.0], True, 1),
    ([1.0, 5.0], [math.nan, 9.0], False, 1),
    ([math.nan, math.nan], [math.nan, math.nan], True, 1),
    ([math.inf, 1.0], [0.0, math.inf], False, 0),
]


@pytest.mark.parametrize(("objectives", "violations", "rank_objectives", "expected"), HAND)
def test_by_hand(objectives, violations, rank_objectives, expected):
    assert chosen(objectives, violations, rank_objectives) == expected


@st.composite
def snapshots(draw, largest=12):
    """Draw objectives and violations of few distinct values, so that ties of every kind occur."""
    pairs = draw(st.lists(st.tuples(st.integers(0, 5), st.integers(-3, 4)), min_size=1, max_size=largest))
    return [objective / 4 for objective, _ in pairs], [violation / 4 for _, violation in pairs]


@settings(max_examples=100)
@given(snapshots(), st.booleans())
def test_against_the_rule(drawn, rank_objectives):
    assert chosen(*drawn, rank_objectives) == by_the_rule(*drawn, rank_objectives)


@given(snapshots(largest=25), st.booleans())
def test_points_let_go_would_never_have_been_chosen(drawn, rank_objectives):
    objectives, violations = drawn
    collected = collect(objectives, violations, rank_objectives, 100)
    for size in range(1, len(objectives) + 1):
        best = by_the_rule(objectives[:size], violations[:size], rank_objectives)
        assert best_point(collected[size], rank_objectives=rank_objectives).tolist() == [best, best]
    kept = collected[-1].kept
    assert len(kept) == len(collected[-1].points)
    assert torch.equal(collected[-1].points[:, 0].to(torch.int64), kept)
    assert len(collected[-1].objectives) == len(collected[-1].violations) == len(objectives)


def test_of_many_snapshots_some_points_are_let_go():
    draw = random.Random(0)
    objectives, violations = ([draw.randint(low, 9) / 4 for _ in range(25)] for low in (0, -3))
    for rank_objectives in (True, False):
        assert len(collect(objectives, violations, rank_objectives, 100)[-1].kept) < 25


def test_with_violations_alone_one_point_is_held():
    collected = collect([3.0, 2.0, 1.0], [0.1, 0.2, 0.3], False, 100)
    assert [len(each.kept) for each in collected] == [0, 1, 1, 1]
    assert best_point(collected[-1], rank_objectives=False).tolist() == [0.0, 0.0]


def test_beyond_the_capacity_the_least_liked_points_go():
    # A front on which nobody beats anybody: objectives rise as violations fall.
    objectives, violations = [float(i) for i in range(7)], [0.1 * (7 - i) for i in range(7)]
    collected = collect(objectives, violations, True, 3)
    assert [len(each.kept) for each in collected] == [0, 1, 2, 3, 3, 3, 3, 3]
    assert best_point(collected[-1], rank_objectives=True) is not None
    unlimited = collect(objectives, violations, True, 7)[-1]
    assert unlimited.kept.tolist() == list(range(7))
    assert best_point(unlimited, rank_objectives=True).tolist() == [3.0, 3.0]


def test_points_that_are_no_numbers_are_survived():
    collected = collect([math.nan, math.nan, 1.0, math.nan], [math.nan, 0.0, 0.3, 0.1], True, 2)
    assert best_point(collected[1], rank_objectives=True).tolist() == [0.0, 0.0]
    assert best_point(collected[-1], rank_objectives=True) is not None


def test_no_snapshot_no_point():
    assert best_point(no_candidates(torch.zeros(3)), rank_objectives=True) is None

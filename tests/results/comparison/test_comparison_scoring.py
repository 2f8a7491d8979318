"""The order of a board, its ranks, and what everything is compared with."""

import polars
import pytest
from comparison_samples import OPTIMUM, add_many, order, ranks
from result_samples import make_curve

from drobench.errors import SettingError
from drobench.results.record import Iterate, Status


def test_where_there_are_constraints_the_error_ranks_and_the_violation_among_the_infeasible(runs):
    for solver, error, violation in (
        ("even_worse", 0.1, 0.3),
        ("worse", 0.2, 0.2),
        ("fair", 0.4, -0.1),
        ("good", 0.3, 0),
    ):
        point = Iterate(objective=1.0, train_error=error, train_max_violation=violation, feasible=violation <= 0)
        runs.add(solver, 0, [1.0], optimum=None, iterate=point)
    board = runs.board()
    assert board.ranked_by == "train_error"
    assert order(board) == ["good", "fair", "worse", "even_worse"]
    assert order(runs.board(by="objective"))[2:] == ["worse", "even_worse"]


def test_the_cost_of_the_target_then_the_gap_then_the_violation_decide_and_failures_are_last(runs):
    for seed in (0, 1):
        runs.add("quick", seed, [2.0, 1.0])
        runs.add("slow", seed, [2.0, 1.5, 1.0])
        runs.add("never", seed, [2.0, 1.3])
        runs.add("nowhere", seed, [2.0, 1.9])
        infeasible = Iterate(objective=0.5, train_max_violation=0.1, feasible=False)
        runs.add("infeasible", seed, [2.0, 0.5], curve=make_curve([2.0, 0.5], gap=[1.0, None]), iterate=infeasible)
        runs.add("crashing", seed, [2.0, 1.0], status=Status.DIVERGED)
    board = runs.board()
    assert order(board) == ["quick", "slow", "never", "nowhere", "infeasible", "crashing"]
    assert [row.mean_place for row in board.rows] == [1, 2, 3, 4, 5, 6]
    assert board.ranked_by == "gap"


def test_few_seeds_share_all_ranks_and_a_note_says_that_nothing_could_be_shown(runs):
    for seed in range(3):
        runs.add("good", seed, [2.0, 1.0])
        runs.add("bad", seed, [2.0, 1.9])
        runs.add("worse", seed, [2.0, 1.95])
    board = runs.board()
    assert ranks(board) == {"good": 1, "bad": 1, "worse": 1}
    assert order(board) == ["good", "bad", "worse"]
    assert [row.rank_interval for row in board.rows] == [None] * 3
    (note,) = [note for note in board.notes if "seeds" in note]
    assert "With 3 seeds no difference can be significant (least p: 0.25, adjusted 0.75)" in note
    assert "3 solvers need 7 seeds" in note
    assert "at most 75%" in note


def test_enough_seeds_tell_ranks_apart(runs):
    add_many(runs, "good", [2.0, 1.2])
    add_many(runs, "bad", [2.0, 1.5])
    add_many(runs, "worse", [2.0, 1.8])
    board = runs.board()
    assert ranks(board) == {"good": 1, "bad": 2, "worse": 3}
    assert [row.rank_interval for row in board.rows] == [(1, 1), (2, 2), (3, 3)]
    assert all(found.significant for found in board.comparisons)
    first = board.comparisons[0]
    assert (first.better, first.worse, first.pairs, first.wins, first.losses) == ("good", "bad", 8, 8, 0)
    assert first.p_value == 2 / 2**8
    assert first.p_adjusted == 3 * 2 / 2**8
    assert (first.quantity, first.effect.median) == ("gap", pytest.approx(0.3))


def test_everything_can_be_compared_with_a_baseline(runs):
    add_many(runs, "good", [2.0, 1.2])
    add_many(runs, "bad", [2.0, 1.5])
    add_many(runs, "worse", [2.0, 1.8])
    board = runs.board(baseline="bad")
    assert board.reference == "bad"
    assert [row.comparison and (row.comparison.better, row.comparison.worse) for row in board.rows] == [
        ("good", "bad"),
        None,
        ("bad", "worse"),
    ]
    cells = board.to_table()
    assert [row[cells.header.index("vs bad")] for row in cells.rows] == ["-0.3 gap", "-", "+0.3 gap"]
    with pytest.raises(SettingError, match="bad, good, worse; found 'best'"):
        runs.compare(baseline="best")


def test_a_baseline_with_several_configurations_must_be_named_in_full(runs):
    for size in (1, 2):
        runs.add("a", 0, [2.0, 1.0 + size / 10], config={"size": size})
    with pytest.raises(SettingError, match=r"2 of them: a \(size=1\), a \(size=2\)"):
        runs.compare(baseline="a")
    assert runs.board(baseline="a (size=2)").reference == "a (size=2)"


def test_equal_solvers_share_a_place(runs):
    for solver in ("b", "a"):
        runs.add(solver, 0, [2.0, 1.0])
    runs.add("c", 0, [2.0, 1.5])
    board = runs.board()
    assert [(row.mean_place, row.solver) for row in board.rows] == [(1.5, "a"), (1.5, "b"), (3, "c")]


def test_a_solver_that_always_fails_has_a_row(runs):
    runs.add("solid", 0, [2.0, 1.0])
    runs.add("broken", 0, [], status=Status.FAILED, curve=polars.DataFrame())
    board = runs.board()
    assert order(board) == ["solid", "broken"]
    table = board.to_table()
    cells = dict(zip(table.header, table.rows[1], strict=True))
    assert (cells["failed"], cells["gap"], cells["passes to 1e-4"], cells["feasible"]) == ("1", "failed", "never", "0%")


def test_other_costs_can_decide(runs):
    runs.add("a", 0, [2.0, 1.0], curve=make_curve([2.0, 1.0], OPTIMUM, oracle_calls=[0, 900]))
    runs.add("b", 0, [2.0, 1.5, 1.0], curve=make_curve([2.0, 1.5, 1.0], OPTIMUM, oracle_calls=[0, 10, 20]))
    assert order(runs.board()) == ["a", "b"]
    board = runs.board(cost="oracle_calls")
    assert order(board) == ["b", "a"]
    assert board.rows[0].median("oracle_calls_to_target") == 20
    assert board.rows[0].median("passes_to_target") == 2
    assert board.comparisons[0].quantity == "oracle_calls"


def test_a_run_that_passed_the_target_and_ended_worse_than_it_began_comes_after_those_that_stayed(runs):
    for seed in range(8):
        runs.add("stays", seed, [2.0, 1.5, 1.2, 1.0])
        runs.add("passes_by", seed, [2.0, 1.0, 12.0, 13.0])
        runs.add("never", seed, [2.0, 1.5])
    board = runs.board()
    assert order(board) == ["stays", "passes_by", "never"]
    assert ranks(board) == {"stays": 1, "passes_by": 2, "never": 3}
    # That it was there on its way is still told.
    assert board.rows[1].median("passes_to_target") == 1.0


def test_solvers_that_stay_at_an_optimal_start_share_the_first_rank(runs):
    for seed in range(8):
        runs.add("still", seed, [1.0, 1.0 + 2e-10])
        runs.add("trembling", seed, [1.0, 1.0 - 1e-10 * (seed + 1)])
        runs.add("leaving", seed, [1.0, 1.5])
    assert ranks(runs.board()) == {"still": 1, "trembling": 1, "leaving": 3}

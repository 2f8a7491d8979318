"""All boards of a comparison, and what holds across them."""

import pytest

from drobench.results.comparison.leaderboard import NothingToCompare, leaderboard
from drobench.results.comparison.question import Question
from drobench.results.record import Status
from drobench.results.store import ResultStore


def test_no_results_say_how_to_make_some():
    with pytest.raises(NothingToCompare, match="drobench sweep quickstart"):
        leaderboard([], {}.__getitem__)


def test_only_skipped_runs_are_nothing_to_compare(runs):
    runs.add("fast", 0, [], status=Status.SKIPPED, reason="needs groups")
    with pytest.raises(NothingToCompare, match="needs groups"):
        runs.compare()


def test_profiles_compare_solvers_across_boards(runs):
    for problem, (first, second) in {"p": (1, 2), "q": (3, 3), "r": (2, 1)}.items():
        for seed in (0, 1, 2):
            runs.add("a", seed, [3.0] * first + [1.0], problem=problem)
            runs.add("b", seed, [3.0] * second + [1.0], problem=problem)
    runs.add("a", 0, [3.0, 1.0], problem="alone")
    found = runs.compare(target_gap=0.01).profiles
    assert (found.instances, found.unsolved, found.boards) == (3, 0, ("p on tiny", "q on tiny", "r on tiny"))
    assert found.left_out == ("alone on tiny",)
    assert {row.solver: row.score for row in found.rows} == pytest.approx({"a": 8 / 9, "b": 8 / 9})
    assert {row.solver: row.share(1.0) for row in found.rows} == pytest.approx({"a": 2 / 3, "b": 2 / 3})
    assert all(row.low == row.score == row.high for row in found.rows)
    assert {row.solver: row.speedup for row in found.rows} == pytest.approx({"a": 1.0, "b": 1.0})


def test_configurations_are_profiled_one_by_one_where_a_solver_has_several(runs):
    for problem in ("p", "q"):
        for size in (1, 2):
            runs.add("a", 0, [3.0] * size + [1.0], problem=problem, config={"size": size})
    assert [row.solver for row in runs.compare().profiles.rows] == ["a (size=1)", "a (size=2)"]


def test_one_board_has_no_profiles(runs):
    for solver in ("a", "b"):
        runs.add(solver, 0, [3.0, 1.0])
    assert runs.compare().profiles is None


def test_the_order_of_the_records_does_not_matter(runs):
    for solver in ("a", "b"):
        for seed in (0, 1, 2):
            runs.add(solver, seed, [2.0, 1.0 + seed / 10])
    forward = runs.compare()
    runs.records.reverse()
    assert runs.compare() == forward


def test_a_store_feeds_a_leaderboard(tmp_path, runs):
    store = ResultStore(tmp_path)
    for seed in (0, 1):
        record = runs.add("a", seed, [2.0, 1.0 + seed / 4])
        store.write(record, runs.curves[record.run_id], {}, "")
    (board,) = leaderboard(store.records().records, store.curve, Question.of(target_gap=0.3)).boards
    assert board == runs.board(target_gap=0.3)
    assert board.rows[0].median("passes_to_target") == 1.0

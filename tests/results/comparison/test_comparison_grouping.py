"""Which runs share a board, and what they are paired by."""

import polars
import pytest
from comparison_samples import add_split, order, ranks, with_settings
from result_samples import make_record

from drobench.errors import SettingError
from drobench.results.comparison.grouping import Across, Group
from drobench.results.record import Status


def test_different_problems_data_and_budgets_are_different_boards(runs):
    runs.add("a", 0, [2.0, 1.0])
    runs.add("a", 0, [2.0, 1.0], problem="other")
    runs.add("a", 0, [2.0, 1.0], dataset="large")
    runs.add("a", 0, [2.0, 1.0], sha256="b" * 64)
    runs.add("a", 0, [2.0, 1.0], budget={"passes": 20})
    titles = [board.title for board in runs.compare().boards]
    assert titles == [
        "other on tiny",
        "robust on large",
        f"robust on tiny (dataset.sha256={'a' * 12}, budget.passes=10)",
        f"robust on tiny (dataset.sha256={'a' * 12}, budget.passes=20)",
        f"robust on tiny (dataset.sha256={'b' * 12}, budget.passes=10)",
    ]


def test_configurations_of_one_solver_are_told_apart_by_what_differs(runs):
    runs.add("a", 0, [2.0, 1.2], config={"step": {"size": 0.1}, "batch": 8})
    runs.add("a", 0, [2.0, 1.1], config={"step": {"size": 0.5}, "batch": 8})
    runs.add("b", 0, [2.0, 1.3], config={"batch": 8})
    board = runs.board()
    assert [row.solver for row in board.rows] == ["a (step.size=0.5)", "a (step.size=0.1)", "b"]
    assert [row.name for row in board.rows] == ["a", "a", "b"]
    assert board.rows[0].config == {"step": {"size": 0.5}, "batch": 8}


def test_precision_and_reformulation_are_not_mixed(runs):
    runs.add("a", 0, [2.0, 1.2], trainer={"dtype": "float32"})
    runs.add("a", 0, [2.0, 1.1], trainer={"dtype": "float64"})
    runs.add("b", 0, [2.0, 1.4], reformulation={"alpha": 1})
    runs.add("b", 0, [2.0, 1.3], reformulation={"alpha": 2})
    labels = [row.solver for row in runs.board().rows]
    assert labels == [
        "a (trainer.dtype=float64)",
        "a (trainer.dtype=float32)",
        "b (reformulation.alpha=2)",
        "b (reformulation.alpha=1)",
    ]


def test_a_run_that_failed_before_it_saw_the_data_stays_on_its_board(runs):
    runs.add("solid", 0, [2.0, 1.0])
    runs.add("broken", 0, [], status=Status.FAILED, sha256=None, curve=polars.DataFrame())
    board = runs.board()
    assert {row.solver for row in board.rows} == {"solid", "broken"}
    assert board.dataset["sha256"] == "a" * 64


def test_surrogates_and_splits_make_boards_of_their_own_unless_compared_across(runs):
    for data_seed in range(4):
        for seed in (0, 1):
            add_split(runs, "ours", data_seed, seed, [2.0, 1.2 + data_seed / 10 + seed / 100], "bce")
            add_split(runs, "theirs", data_seed, seed, [2.0, 1.3 + data_seed / 10 + seed / 100], "hinge")
    apart = runs.compare()
    assert len(apart.boards) == 8
    (hint,) = apart.notes
    assert "`--across problem.surrogate,dataset.seed`" in hint

    together = runs.compare(across=["dataset.seed", "problem.surrogate"])
    assert together.notes == ()
    (board,) = together.boards
    assert board.title == "robust on tiny"
    assert ranks(board) == {"ours": 1, "theirs": 2}
    (found,) = board.comparisons
    assert (found.pairs, found.wins) == (8, 8)
    assert found.effect.median == pytest.approx(0.1)
    assert board.problem["config"] == {"gamma": 0.5}
    assert board.dataset == {"name": "tiny", "config": {}, "sha256": None}


def test_a_solver_run_with_both_surrogates_is_two_contenders_and_no_hint_is_given(runs):
    for surrogate in ("bce", "hinge"):
        add_split(runs, "ours", 0, 0, [2.0, 1.2], surrogate)
    assert runs.compare().notes == ()
    board = runs.board(across=["problem.surrogate"])
    assert set(order(board)) == {"ours (problem.surrogate=bce)", "ours (problem.surrogate=hinge)"}


def test_a_failed_run_without_data_is_paired_with_its_split(runs):
    for data_seed in (0, 1):
        add_split(runs, "ours", data_seed, 0, [2.0, 1.2], "bce")
    add_split(runs, "theirs", 0, 0, [2.0, 1.2], "bce")
    add_split(runs, "theirs", 1, 0, [], "bce", status=Status.FAILED, sha256=None, curve=polars.DataFrame())
    board = runs.board(across=["dataset.seed"])
    assert {row.solver: (row.runs, row.failed) for row in board.rows} == {"ours": (2, 0), "theirs": (2, 1)}


@pytest.mark.parametrize("name", ["budget.passes", "dataset.rows", "seed"])
def test_what_makes_another_task_cannot_be_compared_across(runs, name):
    runs.add("a", 0, [2.0])
    with pytest.raises(SettingError, match=name):
        runs.compare(across=[name])


def test_seeds_are_paired_and_choices_count_as_the_solvers():
    across = Across(("problem.surrogate", "dataset.seed"))
    assert (across.seeds, across.choices) == (("dataset.seed",), ("problem.surrogate",))
    record = with_settings(make_record(seed=7), problem={"surrogate": "bce"}, data_seed=3)
    assert across.pair(record) == (3, "3" * 64, 7)
    assert across.choices_of(record) == {"problem.surrogate": "bce"}
    assert Across().pair(record) == (7,)
    assert Across().choices_of(record) == {}


def test_the_checksum_of_a_board_is_known_only_where_its_runs_agree():
    one, other = make_record(sha256="1" * 64), make_record(sha256="2" * 64)
    assert Group("t", {}, [one, one]).checksum == "1" * 64
    assert Group("t", {}, [one, make_record(sha256=None)]).checksum == "1" * 64
    assert Group("t", {}, [one, other]).checksum is None

"""The finished boards, as values."""

import dataclasses

import pytest

from drobench.results.comparison.board import Leaderboard
from drobench.results.comparison.targets import Target


def test_the_relative_gap_of_the_first_target_decides():
    assert Leaderboard((), "last", (Target.of(gap=0.1), Target.of(gap=0.2))).target_gap == 0.1
    assert Leaderboard((), "last", (Target.of(error=0.1), Target.of(gap=0.2))).target_gap is None


def test_a_board_is_a_value_that_tables_itself(runs):
    for solver in ("a", "b"):
        runs.add(solver, 0, [2.0, 1.0])
    found = runs.compare()
    (board,) = found.boards
    with pytest.raises(dataclasses.FrozenInstanceError):
        board.title = "another"
    assert board.to_table().header[:3] == ("rank", "solver", "runs")
    assert found.to_table().rows == tuple((board.title, *row) for row in board.to_table().rows)


def test_a_board_that_nothing_decides_shows_the_objective(runs):
    runs.add("a", 0, [2.0, 1.5], optimum=None)
    board = dataclasses.replace(runs.board(), ranked_by=None)
    assert "objective" in board.to_table().header

"""Boards as text cells."""

import math

import polars
import pytest
from result_samples import make_curve, make_record

from drobench.results.comparison.leaderboard import leaderboard
from drobench.results.comparison.profiles import Profile, Profiles
from drobench.results.comparison.tables import Table, joined_table, profiles_table
from drobench.results.record import Iterate, Status


@pytest.fixture(scope="module")
def comparison():
    """Two boards: one with a solver that converges, one that does not, one that breaks; one with a strange name."""
    records, curves = [], {}

    def add(solver, seed, objectives, **settings):
        point = Iterate(objective=objectives[-1], gap=objectives[-1] - 1, feasible=True) if objectives else None
        record = make_record(solver, seed, iterate=point, optimum=1.0, **settings)
        records.append(record)
        curves[record.run_id] = make_curve(objectives, 1.0) if objectives else polars.DataFrame()

    for seed in (0, 1):
        add("good", seed, [2.0, 1.0 + seed * 1e-5 / 3])
        add("poor", seed, [2.0, 1.5])
        add("broken", seed, [], status=Status.FAILED)
    add("either|or", 0, [2.0, 1.0], problem="other")
    return leaderboard(records, curves.__getitem__)


def test_the_table_shows_what_people_need(comparison):
    table = comparison.boards[1].to_table()
    assert table.header == (
        *("rank", "solver", "runs", "failed", "feasible", "gap"),
        *("passes to 1e-2", "passes to 1e-4", "seconds", "passes to 1e-6", "vs good", "p"),
    )
    rows = [dict(zip(table.header, cells, strict=True)) for cells in table.rows]
    assert [row["rank"] for row in rows] == ["1="] * 3
    assert [row["solver"] for row in rows] == ["good", "poor", "broken"]
    assert [row["passes to 1e-4"] for row in rows] == ["1", "never", "never"]
    assert [row["passes to 1e-6"] for row in rows] == ["never (1/2)", "never", "never"]
    assert [row["failed"] for row in rows] == ["0", "0", "2"]
    assert [row["gap"] for row in rows] == ["1.67e-6 [0, 3.33e-6]", "0.5", "failed"]
    assert [row["feasible"] for row in rows] == ["100%", "100%", "0%"]
    assert [row["vs good"] for row in rows] == ["-", "+0.5 gap", "failed"]


def test_columns_that_can_be_spared_go_one_by_one(comparison):
    table = comparison.boards[1].to_table()
    assert table.dispensable == ("passes to 1e-2", "passes to 1e-6", "seconds")
    less = table.without("seconds")
    assert "seconds" not in less.header + less.dispensable
    assert [len(row) for row in less.rows] == [len(less.header)] * 3


def test_the_table_of_all_boards_names_the_board(comparison):
    table = comparison.to_table()
    assert table.header[0] == "board"
    assert [row[0] for row in table.rows] == ["other on tiny", *["robust on tiny"] * 3]


def test_a_table_can_do_without_intervals():
    table = Table(("solver", "gap"), (("a", "0.5 [0.1, 0.9]"), ("b [x]", "failed")), ("gap",))
    assert table.without_intervals().rows == (("a", "0.5"), ("b", "failed"))
    assert table.without("gap") == Table(("solver",), (("a",), ("b [x]",)))


def test_joined_tables_leave_cells_empty_where_one_has_no_such_column():
    joined = joined_table({"one": Table(("rank", "gap"), (("1", "2"),)), "two": Table(("rank", "p"), (("3", "4"),))})
    assert joined.header == ("board", "rank", "gap", "p")
    assert joined.rows == (("one", "1", "2", ""), ("two", "3", "", "4"))


def test_profiles_are_a_table_with_the_speed_against_the_reference():
    rows = (Profile("a", 1.0, 0.9, 1.0, 1.0, 2.5, (1.0,)), Profile("b", 0.0, 0.0, 0.1, 0.0, None, (math.inf,)))
    table = profiles_table(Profiles(rows, "passes", "b", ("x", "y"), 1, 0, ()))
    assert table.header == ("solver", "score", "reached", "speed vs b")
    assert table.rows == (("a", "1.000 [0.900, 1.000]", "100%", "2.5x"), ("b", "0.000 [0.000, 0.100]", "0%", "-"))

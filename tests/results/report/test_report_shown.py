"""A leaderboard as an object: as text, as a data frame, in a notebook."""

import dataclasses
from html.parser import HTMLParser

import pytest
from report_samples import make_runs

from drobench.results.comparison.leaderboard import leaderboard
from drobench.results.comparison.tables import Table
from drobench.results.report import shown
from drobench.results.report.shown import ShownLeaderboard


@pytest.fixture
def found():
    records, curves = make_runs(3, 3, problems=2, points=12)
    return leaderboard(records, curves.__getitem__)


def test_it_holds_what_the_leaderboard_holds(found):
    made = ShownLeaderboard.of(found)
    assert all(getattr(made, item.name) is getattr(found, item.name) for item in dataclasses.fields(found))


def test_as_text_it_has_every_board_with_its_columns_aligned(found):
    text = str(ShownLeaderboard.of(found))
    for board in found.boards:
        section = text.split(f"{board.title}\n\n")[1].split("\n\n", maxsplit=1)[0].splitlines()
        assert section[0].split()[:3] == ["rank", "solver", "runs"]
        assert len(section) == 1 + len(board.rows)
        column = section[0].index("solver")
        assert [line[column:].split()[0] for line in section[1:]] == [row.solver for row in board.rows]
    assert "Medians over seeds" in text
    assert not [line for line in text.splitlines() if line.endswith(" ")]


def test_numbers_end_in_one_column_and_names_begin_in_one():
    lines = shown._aligned(Table(("rank", "solver", "gap"), (("1", "a", "0.5"), ("10", "longer", "12.25"))))
    assert lines == ["rank  solver    gap", "   1  a         0.5", "  10  longer  12.25"]


def test_its_representation_is_one_line(found):
    assert repr(ShownLeaderboard.of(found)) == "<leaderboard: 2 boards, 18 runs; print() and to_frame() show it>"


def test_the_frame_has_a_row_for_each_solver_of_every_board_with_the_numbers_themselves(found):
    frame = ShownLeaderboard.of(found).to_frame()
    rows = [(board, row) for board in found.boards for row in board.rows]
    assert frame["solver"].to_list() == [row.solver for _, row in rows]
    assert frame["board"].to_list() == [board.title for board, _ in rows]
    assert frame["gap"].to_list() == [row.metrics["gap"].median for _, row in rows]
    assert frame["runs"].to_list() == [row.runs for _, row in rows]
    assert frame["compared_with"].null_count() == len(found.boards)


class Cells(HTMLParser):
    def __init__(self):
        super().__init__()
        self.rows, self.tags = [], set()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        if tag == "tr":
            self.rows.append([])

    def handle_data(self, data):
        if self.lasttag in ("td", "th"):
            self.rows[-1].append(data)


def test_in_a_notebook_it_is_tables_that_leave_the_page_as_it_is(found):
    page = Cells()
    page.feed(ShownLeaderboard.of(found)._repr_html_())
    tables = [board.to_table() for board in found.boards]
    expected = [list(line) for table in tables for line in (table.header, *table.rows)]
    assert page.rows[: len(expected)] == expected
    assert not page.tags & {"style", "script", "body", "html"}


def test_names_of_strangers_are_shown_and_not_obeyed(found):
    evil = dataclasses.replace(found.boards[0], title="<script>x</script>\x1b[2J", notes=("<b>",))
    made = ShownLeaderboard.of(dataclasses.replace(found, boards=(evil,)))
    assert "<script>" not in made._repr_html_()
    assert "&lt;script&gt;x&lt;/script&gt;\\x1b[2J" in made._repr_html_()
    assert "\x1b" not in str(made)

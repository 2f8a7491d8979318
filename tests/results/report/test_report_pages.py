"""The leaderboard as a page."""

import math
from html import escape
from html.parser import HTMLParser

import polars
import pytest
from result_samples import make_curve, make_record

from drobench.results.comparison.leaderboard import leaderboard
from drobench.results.record import Iterate, Status
from drobench.results.report.formats import reading
from drobench.results.report.pages import format_html


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


class Cells(HTMLParser):
    """The tables of a page as lists of cells, and every tag and attribute that occurs."""

    def __init__(self):
        super().__init__()
        self.rows, self.tags, self.links = [], set(), []
        self.inside = False

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.links += [value for name, value in attributes if name in ("src", "href")]
        if tag == "tr":
            self.rows.append([])
        self.inside = tag in ("td", "th")
        if self.inside:
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        self.inside = self.inside and tag not in ("td", "th")

    def handle_data(self, data):
        if self.inside:
            self.rows[-1][-1] += data


def test_the_page_has_every_table_and_loads_nothing(comparison):
    page = Cells()
    page.feed(format_html(comparison))
    expected = [
        list(cells) for board in comparison.boards for cells in (board.to_table().header, *board.to_table().rows)
    ]
    assert page.rows == expected
    assert page.links == []
    assert not page.tags & {"script", "link", "img", "iframe"}


def test_names_cannot_break_out_of_the_page():
    evil = "<script>alert('&')</script>"
    record = make_record(evil, problem=evil, iterate=Iterate(objective=1.0, feasible=True))
    text = format_html(leaderboard([record], lambda _: make_curve([math.pi])))
    assert "<script" not in text
    page = Cells()
    page.feed(text)
    assert evil in page.rows[1]


def test_numbers_stand_to_the_right_and_names_to_the_left(comparison):
    text = format_html(comparison)
    assert '<th class="text">solver</th>' in text
    assert '<td class="text">good</td>' in text
    assert '<th class="number">rank</th>' in text


def test_notes_follow_their_table_and_the_way_to_read_it_comes_last(comparison):
    text = format_html(comparison)
    remarks = [f"<li>{remark}</li>" for remark in reading(comparison)]
    assert all(escape(remark, quote=False) in text.replace("&#39;", "'") for remark in reading(comparison))
    assert text.index(remarks[0]) > text.rindex("</table>")
    assert text.endswith("</ul>\n</body>\n</html>\n")

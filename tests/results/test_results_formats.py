import csv
import io
import json
import math
from html.parser import HTMLParser

import polars
import pytest
from result_samples import make_curve, make_record

from drobench.results.comparison.leaderboard import leaderboard
from drobench.results.record import Iterate, Status
from drobench.results.report.formats import format_csv, format_json, format_markdown, format_plain
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


def test_json_parses_back_with_all_digits(comparison):
    content = json.loads(format_json(comparison), parse_constant=pytest.fail)
    assert (content["target_gap"], content["iterate"]) == (1e-4, "last")
    board = content["boards"][1]
    assert (board["problem"]["name"], board["dataset"]["sha256"], board["ranked_by"]) == ("robust", "a" * 64, "gap")
    good, poor, broken = board["rows"]
    assert good["objective"] == {"median": (1.0 + (1.0 + 1e-5 / 3)) / 2, "low": 1.0, "high": 1.0 + 1e-5 / 3}
    assert (good["rank"], good["runs"], good["failed"], good["feasible_share"]) == (1, 2, 0, 1.0)
    assert good["run_ids"] == list(comparison.boards[1].rows[0].run_ids)
    assert poor["passes_to_target"] == {"median": None, "low": None, "high": None}
    assert broken["objective"] == {"median": None, "low": None, "high": None}
    assert broken["test_error"] is None
    assert broken["failed"] == 2
    assert [reached["share"] for reached in good["reached"]] == [1.0, 1.0, 0.5]
    assert content["targets"] == [{"gap": 1e-4}, {"gap": 1e-2}, {"gap": 1e-6}]
    assert [(found["better"], found["worse"]) for found in board["comparisons"]] == [
        ("good", "poor"),
        ("good", "broken"),
        ("poor", "broken"),
    ]
    assert content["profiles"] is None


def test_csv_parses_back_with_all_digits(comparison):
    rows = list(csv.DictReader(io.StringIO(format_csv(comparison))))
    assert [row["solver"] for row in rows] == ["either|or", "good", "poor", "broken"]
    assert [row["problem"] for row in rows] == ["other", "robust", "robust", "robust"]
    assert float(rows[1]["objective_high"]) == 1.0 + 1e-5 / 3
    assert (rows[2]["passes_to_target"], rows[3]["objective"]) == ("", "")
    assert not any(text in format_csv(comparison) for text in ("inf", "nan", "None"))
    assert (rows[2]["compared_with"], rows[2]["quantity"], float(rows[2]["p_value"])) == ("good", "gap", 0.5)
    assert float(rows[2]["effect"]) == pytest.approx(0.5, abs=1e-5)


def cells(line):
    return [cell.strip() for cell in line.replace("\\|", "\0").strip("|").split("|")]


def test_markdown_parses_back_as_a_table_per_board(comparison):
    text = format_markdown(comparison)
    sections = text.split("## ")[1:]
    assert [section.splitlines()[0] for section in sections] == ["other on tiny", "robust on tiny"]
    for section, board in zip(sections, comparison.boards, strict=True):
        lines = [cells(line) for line in section.splitlines() if line.startswith("|")]
        table = board.to_table()
        assert lines[0] == list(table.header)
        assert all(set(cell) <= set("-:") for cell in lines[1])
        assert [[cell.replace("\0", "|") for cell in line] for line in lines[2:]] == [list(row) for row in table.rows]
    assert "- Medians over seeds of the `last` iterate" in text


def test_plain_text_is_aligned(comparison):
    section = format_plain(comparison).split("robust on tiny\n\n")[1].splitlines()
    header, rule, *rows = section[:5]
    assert set(rule) == {"-", " "}
    start = header.index("solver")
    assert [row[start:].split("  ")[0] for row in rows] == ["good", "poor", "broken"]
    end = header.index("failed") + len("failed")
    assert [row[:end].split()[-1] for row in rows] == ["0", "0", "2"]
    assert not any(line != line.rstrip() for line in format_plain(comparison).splitlines())


@pytest.mark.parametrize("form", [format_plain, format_markdown])
def test_people_are_told_how_to_read_the_table(comparison, form):
    text = form(comparison)
    assert "Target: relative gap 0.0001" in text
    assert "without it the smaller gap if feasible" in text
    assert text.endswith("\n")
    assert not text.endswith("\n\n")


@pytest.mark.parametrize("form", [format_plain, format_markdown])
def test_notes_are_shown(form):
    record = make_record(iterate=Iterate(objective=1.0, feasible=True))
    text = form(leaderboard([record], lambda _: make_curve([math.pi])))
    assert "no target to reach" in text


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


def test_profiles_follow_the_boards():
    records, curves = [], {}
    for problem in ("p", "q"):
        for solver, passes in (("quick", 1), ("slow", 2)):
            record = make_record(solver, 0, problem=problem, optimum=1.0, iterate=Iterate(gap=0.0, feasible=True))
            records.append(record)
            curves[record.run_id] = make_curve([2.0] * passes + [1.0], 1.0)
    text = format_markdown(leaderboard(records, curves.__getitem__))
    section = text.split("## Across boards")[1]
    lines = [cells(line) for line in section.splitlines() if line.startswith("|")]
    assert lines[0] == ["solver", "score", "reached", "speed vs quick"]
    assert lines[2:] == [
        ["quick", "1.000 [1.000, 1.000]", "100%", "1x"],
        ["slow", "0.667 [0.667, 0.667]", "100%", "0.5x"],
    ]
    assert "6 targets on 2 boards" in section

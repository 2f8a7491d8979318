"""A leaderboard as Markdown, CSV and JSON."""

import csv
import dataclasses
import io
import json
import math

import polars
import pytest
from result_samples import make_curve, make_record

from drobench.results.comparison.leaderboard import leaderboard
from drobench.results.record import Iterate, Status
from drobench.results.report.formats import csv_columns, csv_rows, format_csv, format_json, format_markdown
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


def test_people_are_told_how_to_read_the_table(comparison):
    text = format_markdown(comparison)
    assert "Target: relative gap 0.0001" in text
    assert "without it the smaller gap if feasible" in text
    assert text.endswith("\n")
    assert not text.endswith("\n\n")


def test_notes_are_shown():
    record = make_record(iterate=Iterate(objective=1.0, feasible=True))
    text = format_markdown(leaderboard([record], lambda _: make_curve([math.pi])))
    assert "no target to reach" in text


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


def test_the_rows_of_the_csv_can_be_had_as_values(comparison):
    rows = [dict(zip(csv_columns(), row, strict=True)) for row in csv_rows(comparison)]
    parsed = list(csv.DictReader(io.StringIO(format_csv(comparison))))
    assert [list(row) for row in parsed] == [list(row) for row in rows]
    assert [{name: "" if value is None else str(value) for name, value in row.items()} for row in rows] == parsed
    assert rows[1]["rank"] == 1
    assert rows[2]["passes_to_target"] is None


def of_settings(**settings):
    """The comparison of two solvers that differ in one setting, whose text is a stranger's."""
    records = [make_record("alpha", config=settings), make_record("alpha", config={"x": 1})]
    return leaderboard(records, lambda run_id: make_curve([2.0, 1.0]))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<img src=x onerror=alert(1)>", "&lt;img src=x onerror=alert(1)>"),
        ("</td><script>", "&lt;/td>&lt;script>"),
        ("&lt;b&gt;", "&amp;lt;b&amp;gt;"),
        ("[click](javascript:alert(1))", "\\[click\\](javascript:alert(1))"),
        ("![x](http://a/b)", "!\\[x\\](http://a/b)"),
        ("`code`", "\\`code\\`"),
        ("*bold* _slanted_ ~gone~ a|b", "\\*bold\\* \\_slanted\\_ \\~gone\\~ a\\|b"),
        ("back\\slash", "back\\\\slash"),
        ("step_scale", "step_scale"),
        ("1 < 2 & 3", "1 < 2 & 3"),
    ],
)
def test_texts_of_strangers_are_no_markdown(text, shown):
    shown_table = format_markdown(of_settings(x=text)).splitlines()
    (line,) = [line for line in shown_table if "| alpha (x=" in line and "| alpha (x=1)" not in line]
    assert f"alpha (x={shown})" in line


def test_sentences_around_the_tables_are_no_html_either(comparison):
    noted = dataclasses.replace(comparison, notes=("<script>alert(1)</script> and [a](b)", "`--across x` is ours"))
    shown = format_markdown(noted)
    assert "- &lt;script>alert(1)&lt;/script> and [a\\](b)" in shown
    assert "- `--across x` is ours" in shown


@pytest.mark.parametrize("begin", ["=", "+", "-", "@", "\t"])
def test_a_text_is_no_formula_of_a_spreadsheet(comparison, begin):
    board = comparison.boards[0]
    row = dataclasses.replace(board.rows[0], solver=f"{begin}cmd|'/c calc'!A0", rank=-1)
    found = dataclasses.replace(comparison, boards=(dataclasses.replace(board, rows=(row,)),))
    (shown,) = csv.DictReader(io.StringIO(format_csv(found)))
    assert shown["solver"] == f"'{begin}cmd|'/c calc'!A0"
    assert shown["rank"] == "-1", "numbers stay numbers"
    assert shown["problem"] == "other"


def test_texts_of_strangers_are_no_html_in_the_page_of_tables():
    shown = format_html(of_settings(x="<img src=x onerror=alert(1)>"))
    assert "<img" not in shown
    assert "&lt;img src=x" in shown


def test_runs_that_ended_worse_than_they_began_are_counted_in_every_format():
    records = [
        make_record("wild", seed, iterate=Iterate(objective=last, gap=last - 1, feasible=True), optimum=1.0)
        for seed, last in enumerate([1.5, 12.0])
    ]
    curves = {record.run_id: make_curve([2.0, record.iterates.last.objective], 1.0) for record in records}
    found = leaderboard(records, curves.__getitem__)
    assert json.loads(format_json(found))["boards"][0]["rows"][0]["worse_than_start"] == 1
    (row,) = csv.DictReader(io.StringIO(format_csv(found)))
    assert row["worse_than_start"] == "1"
    text = format_markdown(found)
    assert "| rank | solver | runs | worse |" in text
    assert "- Ended worse than they began: wild 1 of 2 runs." in text
    assert "- `worse` counts runs whose last iterate the start dominates" in text


def test_where_no_run_ended_worse_nothing_is_said_of_it(comparison):
    assert "worse" not in format_markdown(comparison).replace("is worse than the first", "")
    assert {row["worse_than_start"] for row in json.loads(format_json(comparison))["boards"][1]["rows"]} == {0}

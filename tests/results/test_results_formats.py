import csv
import io
import json
import math

import polars
import pytest
from result_samples import make_curve, make_record

from drobench.results.formats import format_csv, format_json, format_markdown, format_plain
from drobench.results.leaderboard import leaderboard
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
    assert table.header[:5] == ("rank", "solver", "runs", "failed", "objective")
    rows = [dict(zip(table.header, cells, strict=True)) for cells in table.rows]
    assert [row["solver"] for row in rows] == ["good", "poor", "broken"]
    assert [row["passes to target"] for row in rows] == ["1", "-", "-"]
    assert [row["failed"] for row in rows] == ["0", "0", "2"]
    assert [row["objective"] for row in rows] == ["1 [1, 1]", "1.5", "-"]
    assert [row["feasible"] for row in rows] == ["100%", "100%", "0%"]


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
    assert broken["objective"] is None
    assert broken["failed"] == 2


def test_csv_parses_back_with_all_digits(comparison):
    rows = list(csv.DictReader(io.StringIO(format_csv(comparison))))
    assert [row["solver"] for row in rows] == ["either|or", "good", "poor", "broken"]
    assert [row["problem"] for row in rows] == ["other", "robust", "robust", "robust"]
    assert float(rows[1]["objective_high"]) == 1.0 + 1e-5 / 3
    assert (rows[2]["passes_to_target"], rows[3]["objective"]) == ("", "")
    assert not any(text in format_csv(comparison) for text in ("inf", "nan", "None"))


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
    assert "relative gap of at most 0.0001" in text
    assert "then median gap" in text
    assert text.endswith("\n")
    assert not text.endswith("\n\n")


@pytest.mark.parametrize("form", [format_plain, format_markdown])
def test_notes_are_shown(form):
    record = make_record(iterate=Iterate(objective=1.0, feasible=True))
    text = form(leaderboard([record], lambda _: make_curve([math.pi])))
    assert "no target to reach" in text

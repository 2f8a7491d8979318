"""The terminal: tables take text literally, files get all columns, the line of a run stays out of pipes."""

import io

import pytest
from rich.console import Console

from drobench.app.console import LiveLine, open_console, status_style, table
from drobench.results.record import FAILURES, Outcome, Status

ROW = {"step": 3, "passes": 1.5, "objective": 0.25, "gap": 1e-3}


def printed(content, width=80):
    sink = io.StringIO()
    Console(file=sink, width=width).print(content)
    return sink.getvalue()


def test_names_of_strangers_are_shown_as_they_are_written():
    shown = printed(table("[red]title", ["solver", "[b]n"], [["[link=x]me", "1"]], right=[1]))
    assert "[red]title" in shown
    assert "[b]n" in shown
    assert "[link=x]me" in shown


def test_numbers_stand_on_the_right():
    lines = printed(table(None, ["name", "value"], [["a", "1"], ["b", "1000"]], right=[1])).splitlines()
    one, thousand = (line for line in lines if line.strip()[:1] in ("a", "b"))
    assert one.rstrip().index("1") == len(thousand.rstrip()) - 1


def test_a_pipe_is_wide_unless_somebody_says_how_wide(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    assert open_console().width == 200
    monkeypatch.setenv("COLUMNS", "77")
    assert open_console().width == 77


@pytest.mark.parametrize("status", Status)
def test_only_failures_are_red(status):
    assert (status_style(status) == "red") == (status in FAILURES)
    assert (status_style(status) == "yellow") == (status is Status.SKIPPED)


@pytest.mark.parametrize("outcome", [None, *Outcome])
@pytest.mark.parametrize("status", Status)
def test_green_is_a_run_with_nothing_the_matter(status, outcome):
    ended = status in (Status.CONVERGED, Status.BUDGET_SPENT)
    assert (status_style(status, outcome) == "green") == (ended and outcome in (None, Outcome.OK))
    assert (status_style(status, outcome) == "red") == (status in FAILURES)


def test_the_line_counts_evaluations_and_writes_nothing_into_a_pipe():
    sink = io.StringIO()
    with LiveLine(Console(file=sink)) as line:
        line(ROW)
        line(ROW)
    assert line.rows == 2
    assert sink.getvalue() == ""


def test_the_line_shows_the_newest_evaluation_in_a_terminal():
    with LiveLine(Console(file=io.StringIO(), force_terminal=True)) as line:
        line(ROW)
        assert str(line.status.status) == "step 3  passes 1.5  objective 0.25  gap 1.000e-03"
        line(ROW | {"gap": None, "step": 4})
        assert str(line.status.status) == "step 4  passes 1.5  objective 0.25"


def test_what_is_printed_cannot_be_obeyed(capsys):
    console = open_console()
    console.print("[bold]Run[/bold] \x1b[2K\x1b[1Aconfirmed \u202e \ud800")
    console.print(table("\x1b]0;x\x07", ["solver\x9b"], [["al\x1b[8mpha"]]))
    shown = capsys.readouterr().out
    assert "Run \\x1b[2K\\x1b[1Aconfirmed \\u202e \\ud800" in shown
    assert "al\\x1b[8mpha" in shown
    assert "\x1b" not in shown
    assert "\x9b" not in shown

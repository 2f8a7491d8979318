"""Tables and sentences of the page."""

import pytest
from report_samples import make_runs, worsened

from drobench.results.comparison.leaderboard import leaderboard
from drobench.results.comparison.question import Question
from drobench.results.comparison.tables import Table
from drobench.results.report.styles import styles
from drobench.results.report.tables import compact, page_table, verdict


@pytest.mark.parametrize(
    ("value", "text"),
    [(65213.4, "65,213"), (0.01234567, "0.01235"), (1.18e-6, "1.18e-6"), (190.31, "190.3"), (0.0, "0")],
)
def test_numbers_in_sentences_are_easy_to_read(value, text):
    assert compact(value) == text


def test_intervals_stand_in_small_print_and_solvers_have_their_style():
    table = Table(("solver", "gap", "p"), (("a", "0.5 [0.1, 0.9] (3/4)", "-"), ("b", "failed", "0.03")))
    found = page_table(table, styles(["a", "b"]), [True, False])
    first, second = found.rows
    assert (first.first, second.first) == (True, False)
    assert first.cells[0].style.label == "a"
    assert (first.cells[1].text, first.cells[1].detail) == ("0.5 (3/4)", "0.1 to 0.9")
    assert first.cells[2].text == "\N{EN DASH}", "nothing to show"
    assert [cell.numeric for cell in found.header] == [False, True, True]


def test_the_verdict_names_the_best_and_whether_it_is_more_than_chance():
    records, curves = make_runs(2, 8)
    found = leaderboard(records, curves.__getitem__, Question.of(target_gap=0.1))
    told = verdict(found.boards[0], found)
    assert told.startswith("solver_0 did best of 2 solvers: relative gap 0.1 after ")
    assert told.endswith("solver_1, the next, is significantly worse.")
    few = leaderboard([run for run in records if run.seed < 3], curves.__getitem__, Question.of(target_gap=0.1))
    assert verdict(few.boards[0], few).endswith(
        "solver_1 shares its rank: no significant difference with 3 paired seeds."
    )


def test_the_verdict_tells_when_the_best_has_runs_that_ended_worse_than_they_began():
    records, curves = worsened(make_runs(1, 3), "solver_0")
    found = leaderboard(records, curves.__getitem__)
    assert "3 of 3 runs ended worse than they began" in verdict(found.boards[0], found)

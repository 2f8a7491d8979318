"""The sentences of the page."""

from report_samples import make_runs, worsened
from result_samples import make_record

from drobench.results.comparison.leaderboard import leaderboard
from drobench.results.record import Iterate, Status
from drobench.results.report import page_texts as texts
from drobench.results.report.content import gather


def content_of(*samples):
    records = [record for found, _ in samples for record in found]
    curves = {run_id: curve for _, found in samples for run_id, curve in found.items()}
    return gather(leaderboard(records, curves.__getitem__), records, curves.__getitem__)


def test_the_title_counts_solvers_and_boards():
    assert texts.title(content_of(make_runs(2, 1))) == "2 solvers on problem_0, tiny"
    assert texts.title(content_of(make_runs(1, 1, 3))) == "1 solver on 3 problems, 3 boards"


def test_the_summary_says_when_with_which_seeds_and_how_runs_ended():
    content = content_of(make_runs(1, 4, 2, failing={(0, 3): Status.DIVERGED}))
    assert texts.summary(content) == (
        "8 runs between 2026-03-01 and 2026-03-02 with seeds 0 to 3: 6 used up the budget, 2 diverged."
    )


def test_the_facts_of_a_board_are_what_its_runs_share():
    assert (
        texts.facts(content_of(make_runs(1, 2)).boards[0])
        == "Model linear; 4 rows of data; budget 10 passes; seeds 0, 1."
    )


def test_failures_are_explained_beside_the_curves():
    assert texts.curve_note(content_of(make_runs(1, 2)).boards[0]) == ""
    failing = content_of(make_runs(1, 2, failing={(0, 1): Status.FAILED}))
    assert texts.curve_note(failing.boards[0]).startswith("1 run failed and counts as infinite")
    assert texts.failure_summary(failing).startswith("1 of 2 runs failed")


def test_the_most_telling_number_of_a_run_is_its_gap():
    assert texts.run_result(make_record(iterate=Iterate(gap=0.25, objective=3.0))) == "gap 0.25"
    assert texts.run_result(make_record(iterate=Iterate(objective=3.0))) == "objective 3"
    assert texts.run_result(make_record()) == ""


def test_numbers_and_settings_are_written_for_people():
    assert texts.signed(-0.5) == "\N{MINUS SIGN}0.50"
    assert texts.setting("text") == "text"
    assert texts.setting({"a": [1, None]}) == '{"a": [1, null]}'


def test_runs_that_ended_worse_than_they_began_are_counted_in_both_summaries():
    content = content_of(worsened(make_runs(2, 3), "solver_1"))
    assert texts.summary(content).endswith("6 used up the budget (3 of them worse than they began).")
    assert texts.failure_summary(content) == (
        "0 of 6 runs failed and count against their solvers; 0 were skipped and do not; 3 came to their end, but worse "
        "than they began."
    )
    assert "worse" not in texts.summary(content_of(make_runs(2, 3)))


def test_the_words_of_outcomes_are_explained():
    assert {"Worse than start", "Start is optimal"} <= {term for term, _ in texts.TERMS}

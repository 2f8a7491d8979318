"""One run in the terminal."""

import dataclasses
import io

import pytest
from rich.console import Console

from drobench.app.record_view import format_number, show_record
from drobench.results.outcome import Ending
from drobench.results.record import Iterate, Iterates, Outcome, Status


def shown(record, *ending, **options):
    sink = io.StringIO()
    show_record(Console(file=sink, width=200), record, *ending, **options)
    return sink.getvalue()


@pytest.mark.parametrize(
    ("value", "text"), [(None, "-"), (True, "yes"), (False, "no"), (7, "7"), (0.123456789, "0.123457"), (1e-9, "1e-09")]
)
def test_numbers_have_the_digits_that_matter(value, text):
    assert format_number(value) == text


def test_the_metrics_of_the_problem_are_shown_only_on_request(finished):
    record = finished[1]["gcivr"]
    own = next(iter(record.iterates.last.extra)).replace("_", " ")
    assert own in shown(record, complete=True)
    assert own not in shown(record)
    assert "train error" in shown(record)


def test_a_run_that_found_nothing_says_why_and_what_is_not_known(finished):
    record = dataclasses.replace(
        finished[1]["gcivr"], status=Status.FAILED, reason="[broken]", iterates=Iterates(), optimum=None,
        optimum_reason="nobody looked", others={},
    )  # fmt: skip
    text = shown(record)
    assert "failed  [broken]" in text
    assert "optimum  unknown (nobody looked)" in text
    assert "objective" not in text
    assert "route" not in text


def test_what_was_spent_is_in_the_last_line(finished):
    record = finished[1]["scgd"]
    last = shown(record).splitlines()[-1]
    assert last.startswith(f"{record.oracle.passes:.4g} passes, {record.seconds.solver:.3g} s solving")
    assert "exchanged" not in last
    several = dataclasses.replace(record, communication=dataclasses.replace(record.communication, rounds=3, bytes=24))
    assert shown(several).splitlines()[-1].endswith("3 rounds, 24 bytes exchanged")
    assert "second derivatives" not in last
    curved = dataclasses.replace(record, oracle=dataclasses.replace(record.oracle, hessian_rows=7, hessian_products=9))
    assert "passes, second derivatives of 7 rows in matrices, of 9 in products with vectors, " in shown(curved)


def test_a_run_that_got_worse_says_so_below_its_status_and_not_in_green(finished):
    record = dataclasses.replace(finished[1]["gcivr"], outcome=Outcome.WORSE_THAN_START)
    start = Iterate(objective=0.25, feasible=True)
    told = f"worse than start: the objective went from 0.25 to {record.iterates.last.objective:.6g}"
    assert shown(record, Ending(record.outcome, start)).splitlines()[1] == told
    sink = io.StringIO()
    show_record(Console(file=sink, width=200, force_terminal=True, color_system="standard"), record)
    green, yellow = "\x1b[32m", "\x1b[33m"
    assert f"{yellow}budget_spent" in sink.getvalue()
    assert f"{yellow}worse than start" in sink.getvalue()
    assert green not in sink.getvalue()


def test_a_run_as_it_should_be_says_nothing_of_its_outcome(finished):
    record = finished[1]["gcivr"]
    assert record.outcome is Outcome.OK
    assert "worse than start" not in shown(record)
    assert "start is optimal" not in shown(record)

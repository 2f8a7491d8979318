"""One run in the terminal."""

import dataclasses
import io

import pytest
from rich.console import Console

from drobench.app.record_view import format_number, show_record
from drobench.results.record import Iterates, Status


def shown(record, **options):
    sink = io.StringIO()
    show_record(Console(file=sink, width=200), record, **options)
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

"""Whether a stored run is what the code here would compute."""

import dataclasses

import pytest

from drobench.app.cell import run_cell
from drobench.app.code import Code, code_of
from drobench.app.freshness import TRUST, why_stale


@pytest.fixture
def record(configure, catalogue):
    return run_cell(configure(), catalogue)


@pytest.fixture
def code(configure, catalogue):
    return code_of(configure(), catalogue)


def edited(code: Code, part: str, version: str | None = None) -> Code:
    versions = code.versions if version is None else {**code.versions, "drobench": version}
    parts = code.parts | {part: "0" * 64}
    return dataclasses.replace(code, distributions={"drobench": "0" * 64}, parts=parts, versions=versions)


def test_the_code_that_made_it_is_the_code_that_is_here(record, code):
    assert record.code == code.distributions
    assert record.code_parts == code.parts
    assert set(record.code_parts) == {"framework", "dataset", "problem", "model", "solver", "loss"}
    assert all(why_stale(record, code, trust) is None for trust in TRUST)


@pytest.mark.parametrize(
    ("part", "named"),
    [("framework", "drobench itself"), ("solver", "solver 'gcivr'"), ("problem", "problem 'kl_classification'")],
)
def test_what_has_changed_is_named(record, code, part, named):
    assert why_stale(record, edited(code, part)) == f"the code of {named} has changed since"


def test_versions_are_named_where_they_differ(record, code):
    here = code.versions["drobench"]
    reason = why_stale(record, edited(code, "solver", "99.1.0"))
    assert reason.endswith(f"has changed since (drobench {here}, now 99.1.0)")


def test_trust_goes_as_far_as_it_says(record, code):
    major, minor, *_ = code.versions["drobench"].split(".")
    patched = edited(code, "solver", f"{major}.{minor}.99")
    later = edited(code, "solver", f"{major}.{int(minor) + 1}.0")
    assert [why_stale(record, patched, trust) is None for trust in TRUST] == [False, True, True]
    assert [why_stale(record, later, trust) is None for trust in TRUST] == [False, False, True]


def test_a_record_that_does_not_say_what_made_it_is_stale(record, code):
    silent = dataclasses.replace(record, code={}, code_parts={})
    assert why_stale(silent, code) == "it does not say which code made it"

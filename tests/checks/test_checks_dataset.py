"""Each check of datasets lets a good one pass and catches the one that breaks its promise."""

import asks_at_import
import dataset_subjects as subjects
import pytest

from drobench.checks import DatasetChecks
from drobench.checks.no_network import tried_at_import
from drobench.checks.running import run_checks
from drobench.data.cache import RemoteFile

SCHEMA, CHECKSUM = "schema_is_that_of_a_dataset", "checksum_is_that_of_the_content"
BROKEN = {
    "no_reference": (subjects.entry(reference=""), {"entry_is_complete"}),
    "other_name": (subjects.entry(subjects.other_name), {SCHEMA}),
    # Whoever changes the content of a dataset by hand breaks its checksum too.
    "strange_labels": (subjects.entry(subjects.strange_labels), {SCHEMA, CHECKSUM, "splits_share_no_row"}),
    "labels_in_floats": (subjects.entry(subjects.labels_in_floats), {SCHEMA, CHECKSUM, "splits_share_no_row"}),
    "says_too_much": (subjects.entry(subjects.says_too_much), {"provides_what_it_says"}),
    "says_too_little": (subjects.entry(provides=frozenset({"labels"})), {"provides_what_it_says"}),
    "shares_rows": (subjects.entry(subjects.shares_rows), {"splits_share_no_row"}),
    "never_the_same": (
        subjects.entry(subjects.never_the_same),
        {"two_loads_are_the_same", "splits_share_no_row"},
    ),
    "ignores_its_seed": (subjects.entry(subjects.ignores_its_seed), {"another_seed_gives_another_split"}),
    "wrong_checksum": (subjects.entry(subjects.wrong_checksum), {CHECKSUM}),
    "asks_at_import": (subjects.entry(asks_at_import.load), {"import_needs_no_network"}),
    "asks_the_network": (subjects.entry(subjects.asks_the_network), {"loading_needs_no_network"}),
    "writes_to_the_cache": (
        subjects.entry(subjects.writes_to_the_cache),
        {"loading_writes_nothing_to_the_cache"},
    ),
}

pytestmark = pytest.mark.process


class TestPoints(DatasetChecks):
    """The good one, checked as an author would."""

    entry = subjects.entry()


@pytest.fixture(scope="module", autouse=True)
def _imports():
    tried_at_import("dataset_subjects", "asks_at_import")


@pytest.mark.parametrize("name", BROKEN)
def test_exactly_the_check_of_a_broken_promise_fails(name, tmp_path, monkeypatch):
    monkeypatch.setenv("DROBENCH_DATA", str(tmp_path))
    entry, expected = BROKEN[name]
    results = run_checks({"TestBroken": type("TestBroken", (DatasetChecks,), {"entry": entry})})
    failed = {result.check: result.reason for result in results if result.outcome == "failed"}
    assert set(failed) == expected, failed
    for reason in failed.values():
        assert reason.startswith("dataset 'points': expected ")
        assert "; found " in reason
        assert " To do: " in reason


def test_every_check_is_shown_to_fail():
    assert set().union(*(expected for _, expected in BROKEN.values())) == set(DatasetChecks.checks())


def test_data_that_were_not_fetched_are_skipped_with_the_reason(tmp_path, monkeypatch):
    monkeypatch.setenv("DROBENCH_DATA", str(tmp_path))
    remote = subjects.entry(files=(RemoteFile("rows.csv", "0" * 64, 1, ("https://example.org/rows.csv",)),))
    results = run_checks({"TestRemote": type("TestRemote", (DatasetChecks,), {"entry": remote})})
    by_check = {result.check: result for result in results}
    assert by_check["entry_is_complete"].outcome == "passed"
    assert by_check[SCHEMA].outcome == "skipped"
    assert "drobench data fetch points" in by_check[SCHEMA].reason

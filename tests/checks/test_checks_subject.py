"""How a subject is named, built, skipped and refused."""

from pathlib import Path

import dataset_subjects
import pytest
import solver_subjects as subjects

from drobench.checks import DatasetChecks, SolverChecks
from drobench.checks.installed import KINDS
from drobench.checks.running import run_checks
from drobench.errors import DrobenchError

ONE = "entry_is_complete"


def outcome(base=SolverChecks, expression=ONE, **attributes):
    (result,) = run_checks({"TestIt": type("TestIt", (base,), attributes)}, f"test_{expression}")
    return result


class TestFixtures(SolverChecks):
    """Entry and settings may be fixtures."""

    skips = {"two_processes_equal_one": "the same solver is shown to pass with its defaults"}  # noqa: RUF012

    @pytest.fixture
    def entry(self):
        return subjects.entry()

    @pytest.fixture
    def settings(self, tmp_path):
        assert tmp_path.is_dir()
        return {"batch": 4}

    def test_settings_are_used(self):
        assert self.config.batch == 4
        assert self.subject.name == "descent"


def test_a_check_can_be_skipped_with_a_reason():
    found = outcome(entry=subjects.entry(reference=""), skips={ONE: "nobody wrote about it"})
    assert (found.outcome, found.reason) == ("skipped", "nobody wrote about it")


@pytest.mark.parametrize(
    ("skips", "text"), [({"no_such_check": "why"}, "no check called 'no_such_check'"), ({ONE: " "}, "no reason")]
)
def test_a_skip_that_says_nothing_is_refused(skips, text):
    found = outcome(entry=subjects.entry(), skips=skips)
    assert found.outcome == "failed"
    assert text in found.reason


def test_a_name_that_is_not_installed_is_refused_with_a_hint():
    found = outcome(name="gcivrr")
    assert found.outcome == "failed"
    assert "Did you mean 'gcivr'?" in found.reason


def test_checks_without_a_subject_are_refused():
    assert "neither `name` nor `entry`" in outcome().reason


def test_settings_that_the_config_refuses_are_named():
    found = outcome(entry=subjects.entry(), settings={"batsch": 4})
    assert found.outcome == "failed"
    assert "DescentConfig takes (batch)" in found.reason


def test_an_entry_that_cannot_be_handed_to_another_process_is_told_so():
    class Local(subjects.Descent):
        pass

    found = outcome(entry=subjects.entry(Local), expression="two_processes_equal_one")
    assert found.outcome == "failed"
    assert "at the top of a module" in found.reason


def test_a_dataset_that_needs_a_setting_is_skipped_naming_it():
    found = outcome(DatasetChecks, "schema_is_that_of_a_dataset", name="tabular")
    assert (found.outcome, found.reason[:30]) == ("skipped", "needs dataset.path and dataset")


def test_a_dataset_that_cannot_be_loaded_fails():
    found = outcome(
        DatasetChecks, "schema_is_that_of_a_dataset", entry=dataset_subjects.entry(dataset_subjects.broken_file)
    )
    assert found.outcome == "failed"
    assert "the file is damaged" in found.reason


def test_no_expression_about_markers_deselects_a_check(monkeypatch):
    # Neither that of the project around, whose default is the fast tier, nor one in the environment.
    monkeypatch.chdir(Path(__file__).parents[2])
    monkeypatch.setenv("PYTEST_ADDOPTS", "-m 'not (process or convergence)'")
    for mark in (pytest.mark.process, pytest.mark.convergence, pytest.mark.network):
        found = outcome(entry=subjects.entry(), pytestmark=[mark])
        assert (found.check, found.outcome) == (ONE, "passed")


def test_the_checks_themselves_carry_no_marker():
    # One that a stranger's pytest does not know would be an error there.
    for checks in KINDS.values():
        marked = [name for name in checks.checks() if getattr(getattr(checks, f"test_{name}"), "pytestmark", [])]
        assert marked == []


def test_an_expression_that_fits_nothing_is_refused():
    with pytest.raises(DrobenchError, match=r"No check fits the expression 'moon'.*entry_is_complete"):
        run_checks({"TestIt": type("TestIt", (SolverChecks,), {"entry": subjects.entry()})}, "moon")


@pytest.mark.parametrize(
    ("attributes", "text"), [({"settings": {"batsch": 4}}, "'batsch'"), ({"name": "gcivrr"}, "gcivr")]
)
def test_one_fault_is_told_once(attributes, text):
    given = {"entry": subjects.entry(), **attributes} if "name" not in attributes else attributes
    results = run_checks({"TestIt": type("TestIt", (SolverChecks,), given)})
    first, *others = results
    assert first.outcome == "failed"
    assert text in first.reason
    assert {(result.outcome, result.reason) for result in others} == {
        ("skipped", f"not tried, for the reason for which `{first.check}` failed")
    }
    # A class that was made anew tells it again.
    assert run_checks({"TestIt": type("TestIt", (SolverChecks,), given)})[0].outcome == "failed"

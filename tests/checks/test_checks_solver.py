"""Each check of solvers lets a good one pass and catches the one that breaks its promise, and no other check does."""

from dataclasses import replace

import pytest
import solver_subjects as subjects

from drobench.checks import SolverChecks
from drobench.checks.running import run_checks
from drobench.checks.two_ranks import Request, on_two_processes
from drobench.objective.forms import FiniteSum

BROKEN = {
    "no_reference": (subjects.entry(reference=""), {"entry_is_complete"}),
    "accepts_an_alien": (
        subjects.entry(accepts=(FiniteSum, subjects.Alien)),
        {"another_form_is_refused_by_name"},
    ),
    # With nothing to be tried on, no other check can say anything.
    "refuses_everything": (subjects.entry(subjects.RefusesEverything), {"has_a_trial"}),
    "open_state": (
        subjects.entry(subjects.OpenToChange),
        {"state_is_a_frozen_dataclass_of_tensors_and_numbers"},
    ),
    "changes_its_state": (subjects.entry(subjects.ChangesItsState), {"step_leaves_its_arguments_alone"}),
    "remembers_in_self": (subjects.entry(subjects.RemembersInSelf), {"step_leaves_its_arguments_alone"}),
    # What differs from run to run differs from a resumed one too, and from one with gradients.
    "draws_from_a_global": (
        subjects.entry(subjects.DrawsFromAGlobal),
        {
            "same_seed_gives_the_same_trace",
            "gradients_are_recorded_by_nobody",
            "a_checkpoint_continues_the_run_bit_for_bit",
        },
    ),
    "ignores_its_draw": (
        subjects.entry(subjects.IgnoresItsDraw, calls_per_step=None),
        {"another_seed_gives_another_trace"},
    ),
    "in_double_precision": (
        subjects.entry(subjects.InDoublePrecision),
        {"precision_and_device_are_those_of_the_start"},
    ),
    "on_its_own_device": (
        subjects.entry(subjects.OnItsOwnDevice),
        {"precision_and_device_are_those_of_the_start"},
    ),
    "records_gradients": (subjects.entry(subjects.RecordsGradients), {"gradients_are_recorded_by_nobody"}),
    "looks_whether_gradients_are_recorded": (
        subjects.entry(subjects.LooksWhetherGradientsAreRecorded),
        {"gradients_are_recorded_by_nobody"},
    ),
    "looks_twice_now_and_then": (
        subjects.entry(subjects.LooksTwiceNowAndThen, calls_per_step=None),
        # What is counted differs from run to run, and so from a resumed one too.
        {"equal_steps_cost_equal_calls", "a_checkpoint_continues_the_run_bit_for_bit"},
    ),
    "takes_calls_back": (
        subjects.entry(subjects.TakesCallsBack, calls_per_step=None, no_goal="it would never spend its budget"),
        {"equal_steps_cost_equal_calls"},
    ),
    "declares_other_calls": (
        subjects.entry(calls_per_step=subjects.two_batches),
        {"a_step_costs_what_the_entry_declares"},
    ),
    "looks_behind_the_oracle": (
        subjects.entry(subjects.LooksBehindTheOracle),
        {"data_are_reached_through_the_oracle_only"},
    ),
    "loses_its_momentum": (
        subjects.entry(subjects.LosesItsMomentum),
        {"a_checkpoint_continues_the_run_bit_for_bit"},
    ),
    "stops_too_early": (
        subjects.entry(subjects.StopsTooEarly),
        {"reaches_the_certified_optimum"},
    ),
    "forgets_the_others": (subjects.entry(subjects.ForgetsTheOthers), {"two_processes_equal_one"}),
    "corrects_its_start": (subjects.entry(subjects.CorrectsItsStart), {"a_start_that_is_no_number_is_not_hidden"}),
    "hides_what_is_no_number": (
        subjects.entry(subjects.HidesWhatIsNoNumber),
        {"a_value_that_is_no_number_is_not_hidden"},
    ),
    "breaks_on_what_is_no_number": (
        subjects.entry(subjects.BreaksOnWhatIsNoNumber),
        {"a_start_that_is_no_number_is_not_hidden", "a_value_that_is_no_number_is_not_hidden"},
    ),
    "declares_too_fast_a_rate": (
        subjects.entry(rate=5.0),
        {"measured_rate_is_not_worse_than_the_declared"},
    ),
    "declares_a_linear_rate": (
        subjects.entry(subjects.SlowsDown, calls_per_step=None, rate="linear"),
        {"measured_rate_is_not_worse_than_the_declared"},
    ),
}

pytestmark = pytest.mark.process


class TestDescent(SolverChecks):
    """The good one, checked as an author would."""

    entry = subjects.entry(rate=0.5)


@pytest.fixture(scope="module", autouse=True)
def _processes():
    """Let all subjects share the start of two processes."""
    entries = [TestDescent.entry, *(entry for entry, _ in BROKEN.values())]
    on_two_processes([Request(entry.name, entry.config(), entry) for entry in entries])


@pytest.mark.parametrize("name", BROKEN)
def test_exactly_the_check_of_a_broken_promise_fails(name):
    entry, expected = BROKEN[name]
    checks = type("TestBroken", (SolverChecks,), {"entry": entry})
    results = run_checks({"TestBroken": checks})
    failed = {result.check: result.reason for result in results if result.outcome == "failed"}
    assert set(failed) == expected, failed
    for reason in failed.values():
        assert reason.startswith("solver 'descent': expected ")
        assert "; found " in reason
        assert " To do: " in reason


def test_a_solver_without_a_trial_is_told_why_each_problem_is_refused():
    entry = subjects.entry(subjects.RefusesEverything)
    found = run_checks({"TestBroken": type("TestBroken", (SolverChecks,), {"entry": entry})})
    (failed,) = [result for result in found if result.outcome == "failed"]
    assert failed.check == "has_a_trial"
    assert "least_squares: descent works on Tuesdays only" in failed.reason
    assert "kl_symmetric: only a relaxation leads there" in failed.reason
    assert "`settings`" in failed.reason
    skipped = {result.check: result.reason for result in found if result.outcome == "skipped"}
    assert "has_a_trial" in skipped["reaches_the_certified_optimum"]


class TestOnItsOwnProblem(SolverChecks):
    """A solver that none of the known problems is for has a trial of its author's, on two processes too."""

    entry = subjects.entry(accepts=(subjects.TuesdaySum,))

    @classmethod
    def problems(cls, dtype, *, spoiled=False):
        (plain,) = [found for found in super().problems(dtype, spoiled=spoiled) if found.name == "least_squares"]
        return [replace(plain, name="tuesday", form=subjects.TuesdaySum(plain.form.losses, plain.form.regularizer))]

    def test_there_is_one_trial(self):
        assert [trial.name for trial in self.trials()] == ["tuesday"]


def test_every_check_is_shown_to_fail():
    assert set().union(*(expected for _, expected in BROKEN.values())) == set(SolverChecks.checks())

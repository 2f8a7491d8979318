"""Each check of problems lets a good one pass and catches the one that breaks its promise."""

from dataclasses import replace

import problem_subjects as subjects
import pytest

from drobench.checks import ProblemChecks
from drobench.checks.running import run_checks
from drobench.errors import DrobenchError
from drobench.registry import ReformulationEntry, Registered, load_catalogue

BROKEN = {
    "no_reference": (subjects.entry(reference=""), {"entry_is_complete"}),
    "needs_the_moon": (
        subjects.entry(needs=frozenset({"moonlight"})),
        {"needs_are_met_by_an_installed_dataset"},
    ),
    "unseeded_start": (subjects.entry(subjects.UnseededStart), {"start_is_seeded_and_finite"}),
    "remembered_start": (subjects.entry(subjects.StartsAfresh), {"start_is_seeded_and_finite"}),
    "forgotten_draw": (subjects.entry(subjects.ForgetsItsDraw), {"start_is_seeded_and_finite"}),
    "ignored_generator": (subjects.entry(subjects.IgnoresItsGenerator), {"start_is_seeded_and_finite"}),
    "wrong_gradient": (subjects.entry(subjects.WrongGradient), {"gradients_agree_with_finite_differences"}),
    "wrong_surrogates": (subjects.entry(subjects.WronglyBounded), {"gradients_agree_with_finite_differences"}),
    # A value that is not that of its parts is not where bounds made of them are, either.
    "flattered_penalty": (
        subjects.entry(subjects.Flattered),
        {"value_is_that_of_the_worst_case", "optimum_is_certified"},
    ),
    "lowered_value": (
        subjects.entry(subjects.Lowered),
        {"reformulations_keep_the_value", "optimum_is_certified"},
    ),
    "raised_value": (
        subjects.entry(subjects.Raised),
        {
            "reformulations_keep_the_value",
            "recover_returns_points_of_the_problem",
            "optimum_is_certified",
        },
    ),
    "first_rows_count": (
        subjects.entry(subjects.FirstRowsCount),
        {"scores_do_not_depend_on_the_order_of_rows"},
    ),
    "no_number_is_right": (
        subjects.entry(subjects.NoNumberIsRight),
        {"a_point_that_is_no_number_is_never_good"},
    ),
    "scores_what_is_not_there": (
        subjects.entry(subjects.ScoresWhatIsNotThere),
        {"a_missing_split_has_no_score"},
    ),
    "described_twice": (subjects.entry(subjects.DescribedTwice), {"metrics_have_plain_names"}),
    "split_in_front": (subjects.entry(subjects.SplitInFront), {"metrics_have_plain_names"}),
    "loses_a_row": (subjects.entry(subjects.LosesARow), {"row_scores_are_of_the_rows"}),
    "always_double": (subjects.entry(subjects.AlwaysDouble), {"precision_is_that_of_the_data"}),
}


class OnBreastCancer(ProblemChecks):
    dataset = "breast_cancer"


class TestRisk(OnBreastCancer):
    """The good one, checked as an author would."""

    entry = subjects.entry()


class TestRandomStart(OnBreastCancer):
    """A good one whose start is drawn."""

    entry = subjects.entry(subjects.RandomStart)


class TestDescribed(OnBreastCancer):
    """A good one that measures more."""

    entry = subjects.entry(subjects.Described)


class TestNetworkRisk(OnBreastCancer):
    """A good one that takes networks."""

    entry = subjects.entry(subjects.NetworkRisk)


class TestBounded(OnBreastCancer):
    """A good one with constraints."""

    entry = subjects.entry(subjects.Bounded)


# Among the checks of a problem is that its optimum is found and proved.
@pytest.mark.convergence
def with_step(step):
    """Checks of a problem of a form of its own, with the step to ours among what is installed."""

    class OnHidden(OnBreastCancer):
        entry = subjects.entry(subjects.HiddenRisk)

        def catalogue(self):
            entry = ReformulationEntry(name="opening", summary="Opens.", factory=lambda config: step())
            found = {"opening": Registered(entry, "mine", "mine", "1.0")}
            return replace(load_catalogue(), reformulations=found)

    return OnHidden


class TestHidden(with_step(subjects.Opening)):
    """A form of its own, whose way to a composite is a chain."""


def test_a_chain_that_changes_the_problem_is_found_out():
    results = run_checks({"TestHidden": with_step(subjects.OpeningWrongly)})
    failed = {result.check for result in results if result.outcome == "failed"}
    assert {"reformulations_keep_the_value", "recover_returns_points_of_the_problem"} & failed
    whole = run_checks({"TestHidden": with_step(subjects.Opening)})
    assert not [result for result in whole if result.outcome == "failed"]


@pytest.mark.parametrize("name", BROKEN)
def test_exactly_the_check_of_a_broken_promise_fails(name):
    entry, expected = BROKEN[name]
    results = run_checks({"TestBroken": type("TestBroken", (OnBreastCancer,), {"entry": entry})})
    failed = {result.check: result.reason for result in results if result.outcome == "failed"}
    assert set(failed) == expected, failed
    for reason in failed.values():
        assert reason.startswith("problem 'risk': expected ")
        assert "; found " in reason
        assert " To do: " in reason


def test_every_check_is_shown_to_fail():
    assert set().union(*(expected for _, expected in BROKEN.values())) == set(ProblemChecks.checks())


@pytest.mark.parametrize(
    ("subject", "text"),
    [
        (subjects.WrongShapes, "expected a gradient of form.smooth_gradient shaped as the point, (31,); found ()"),
        (subjects.ShortShapes, "expected the gradient of form.smooth_gradient to be computed; found RuntimeError"),
    ],
)
def test_shapes_that_do_not_fit_are_told_in_words(subject, text):
    checks = type("TestBroken", (OnBreastCancer,), {"entry": subjects.entry(subject)})
    (result,) = run_checks({"TestBroken": checks}, "gradients_agree")
    assert text in result.reason
    assert "the texts of `LossTerms`, `DualTerms` and `Pullback` say what they must be" in result.reason


@pytest.mark.convergence
@pytest.mark.parametrize("error", [DrobenchError("not mine"), ValueError("a library's own")], ids=str)
def test_a_missing_reference_is_not_the_fault_of_the_form(error):
    def refuse(config):
        raise error

    class Unanswered(OnBreastCancer):
        entry = subjects.entry()

        def catalogue(self):
            found = load_catalogue()
            exact = found.solver("exact_convex")
            refusing = replace(exact, entry=replace(exact.entry, factory=refuse))
            return replace(found, solvers={"exact_convex": refusing})

    (result,) = run_checks({"TestUnanswered": Unanswered}, "optimum_is_certified")
    assert result.outcome == "failed"
    assert "an exact reference solver that solves a RobustRisk of this kind; found that none does" in result.reason
    assert str(error) in result.reason
    assert "bring a reference of your own" in result.reason

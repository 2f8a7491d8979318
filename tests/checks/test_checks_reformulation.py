"""Each check of reformulations lets a good one pass and catches the one that breaks its promise."""

import pytest
import reformulation_subjects as subjects
from broken import assert_exactly, failures
from reformulation_subjects import entry, to_saddle

from drobench.checks import ReformulationChecks
from drobench.reformulation.routes import REFORMULATIONS

NAME, KIND, BACK = "declares_what_it_is", "produces_what_it_declares", "lift_and_recover_belong_together"
ALONE, PRECISION = "forms_are_left_alone", "precision_is_that_of_the_form"
VALUE, WORSE = "value_is_kept_unless_it_says_otherwise", "recovered_points_are_no_worse"
SADDLE = "a_saddle_can_be_solved"
GRADIENT, ERROR = "gradients_agree_with_finite_differences", "a_smoothing_error_is_kept"

BROKEN = {
    "no reference": (entry(reference=""), {"entry_is_complete"}),
    "other name": (entry(subjects.OtherName), {NAME}),
    "wrong product": (entry(subjects.WrongProduct), {KIND}),
    "not back": (entry(subjects.NotBack), {BACK}),
    "alters the form": (entry(subjects.Alters), {ALONE}),
    "double": (entry(subjects.Double), {PRECISION}),
    "other value": (entry(subjects.OtherValue), {VALUE}),
    "flattering": (entry(subjects.Flattering), {VALUE, WORSE}),
    "no relaxation": (entry(subjects.NoRelaxation), {VALUE}),
    "wrong gradient": (entry(subjects.WrongGradient), {GRADIENT}),
    "never narrower": (entry(subjects.NeverNarrower, examples=None), {VALUE, ERROR}),
    "promises too much": (entry(subjects.PromisesTooMuch, examples=None), {ERROR}),
    "wrong operator": (entry(to_saddle(subjects.WrongOperator), examples=subjects.adversaries), {SADDLE}),
    "wrong projection": (entry(to_saddle(subjects.WrongProjection), examples=subjects.adversaries), {SADDLE}),
}


class TestSample(ReformulationChecks):
    """A good one, of a form that nobody else knows, checked as an author would."""

    entry = entry()


class TestRelaxation(ReformulationChecks):
    """Another, which gives something up."""

    entry = entry(subjects.HonestRelaxation)


@pytest.mark.parametrize("kind", REFORMULATIONS, ids=lambda kind: kind.__name__)
def test_every_one_of_ours_passes(kind):
    renamed = type(kind.__name__, (kind,), {"name": "sample"})
    assert not failures(ReformulationChecks, entry(renamed, examples=subjects.adversaries))


@pytest.mark.parametrize("name", BROKEN)
def test_exactly_the_check_of_a_broken_promise_fails(name):
    made, expected = BROKEN[name]
    assert_exactly(failures(ReformulationChecks, made), expected, "reformulation")


@pytest.mark.parametrize(
    ("subject", "check", "text"),
    [
        (subjects.Breaking, NAME, "found AttributeError"),
        (subjects.Greedy, NAME, "found True"),
        (subjects.InPlace, BACK, "change no argument in place"),
        (subjects.WrongDimension, KIND, "found `dimension` 3 of example 1"),
        (subjects.Raising, KIND, "to be rewritten; found DrobenchError: not today"),
        (lambda: "a step", "has_an_example", "expected the factory to return a Reformulation; found a str"),
    ],
)
def test_what_goes_wrong_is_told_in_words(subject, check, text):
    assert text in failures(ReformulationChecks, entry(subject))[check]


def test_one_without_a_form_to_try_it_on_says_how_to_give_one():
    reason = failures(ReformulationChecks, entry(examples=None))["has_an_example"]
    assert "give `examples` in the entry" in reason


def test_a_form_without_a_value_is_named():
    class Bare(subjects.Doubled):
        value = property()

    made = entry(examples=lambda dtype: [Bare(*vars(subjects.examples(dtype)[0]).values())])
    assert "a Bare without value" in failures(ReformulationChecks, made)["has_an_example"]

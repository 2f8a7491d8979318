"""Each check of losses lets a good one pass and catches the one that breaks its promise."""

import loss_subjects as subjects
import pytest
from broken import assert_exactly, failures
from loss_subjects import entry

from drobench.checks import LossChecks

SIGNS = {"task": "classification"}
FINITE, ROWS = "losses_and_slopes_are_finite", "rows_stand_for_themselves"
SLOPES, BENDS = "slopes_are_those_of_finite_differences", "bends_are_those_of_finite_differences"
BOUND, LINEAR = "no_bend_is_above_its_bound", "linear_models_see_the_same_loss"
CONVEX, RANGE = "convexity_is_what_is_claimed", "slopes_are_within_their_range"
CONJUGATE, EXPRESSION = "conjugate_is_the_largest_difference", "expression_has_the_same_values"
ALONE, SINGLE = "arguments_and_loss_are_left_alone", "single_precision_gives_the_same_losses"
SETTINGS, SAYS = "settings_that_make_no_loss_are_refused", "says_what_it_is"

BROKEN = {
    "no reference": (entry(reference=""), {"entry_is_complete"}),
    "overflowing": (entry(subjects.Overflowing), {FINITE, CONVEX}),
    "counting": (entry(subjects.Counting), {ALONE}),
    "double": (entry(subjects.Double), {SINGLE}),
    "detached": (entry(subjects.Detached), {SLOPES}),
    "wrong bend": (entry(subjects.WrongBend), {BENDS, LINEAR}),
    "narrow bound": (entry(subjects.NarrowBound), {BOUND}),
    "kinked with a bound": (entry(subjects.KinkedWithBound, **SIGNS), {BOUND}),
    "wavy": (entry(subjects.Wavy), {CONVEX, RANGE}),
    "flat far away": (entry(subjects.Clipped), {CONVEX}),
    "convex, and says no": (entry(subjects.Modest), {CONVEX}),
    "wrong range": (entry(subjects.WrongRange), {RANGE}),
    "wrong conjugate": (entry(subjects.WrongConjugate), {CONJUGATE}),
    "wrong inside the kink": (entry(subjects.WrongInsideTheKink), {CONJUGATE}),
    "other expression": (entry(subjects.OtherExpression), {EXPRESSION}),
    "concave expression": (entry(subjects.ConcaveExpression), {EXPRESSION}),
    "other margins": (entry(subjects.OtherMargins, **SIGNS), {LINEAR}),
    "signs in regression": (entry(subjects.Signs), {SAYS}),
    "several, wrong bends": (entry(subjects.SeveralWrong, **SIGNS), {BENDS, LINEAR}),
    "any settings": (entry(subjects.careless, config=subjects.Unchecked), {SETTINGS}),
}


class TestSample(LossChecks):
    """A good one, checked as an author would."""

    entry = entry()


class TestSigns(LossChecks):
    """Another, of margins, which brings the least there can be."""

    entry = entry(subjects.Signs, **SIGNS)


class TestWithoutNumbers(LossChecks):
    """One whose settings are no numbers."""

    entry = entry(lambda config: subjects.Soft(subjects.Settings()), config=subjects.Listed)


@pytest.mark.parametrize("name", BROKEN)
def test_exactly_the_check_of_a_broken_promise_fails(name):
    made, expected = BROKEN[name]
    assert_exactly(failures(LossChecks, made), expected, "loss")


@pytest.mark.parametrize(
    ("subject", "expected"),
    [(subjects.WrongSlope, {SLOPES, CONVEX}), (subjects.OfAll, {ROWS}), (subjects.InPlace, {ALONE})],
)
def test_what_is_wrong_in_the_values_themselves_is_found_by_further_checks_too(subject, expected):
    assert expected <= set(failures(LossChecks, entry(subject)))


def test_a_slope_outside_of_its_kink_is_found():
    failed = failures(LossChecks, entry(subjects.SlopeAtKink))
    assert "between those of both sides" in failed[CONVEX]


def test_one_number_for_all_rows_is_found():
    failed = failures(LossChecks, entry(subjects.OneNumber))
    assert "losses of shape (60,) and slopes of shape (60,); found () and (60,)" in failed[FINITE]


def test_a_factory_of_something_else_is_named():
    failed = failures(LossChecks, entry(lambda config: "a loss"))
    assert "expected the factory to return a ScoreLoss; found a str" in failed.pop(SAYS)
    assert not failed


def test_settings_that_raise_anything_else_are_named():
    failed = failures(
        LossChecks,
        entry(lambda config: subjects.Soft(config) if config.width > 0 else 1 / 0, config=subjects.Unchecked),
    )
    assert "found ZeroDivisionError" in failed[SETTINGS]

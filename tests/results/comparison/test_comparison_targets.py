"""What counts as solved."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drobench.errors import SettingError
from drobench.results.comparison.targets import Target, is_met
from drobench.results.record import Iterate


def test_a_target_is_read_as_it_is_written():
    target = Target.parse("gap=1e-4, violation=0.01")
    assert target == Target.of(gap=1e-4, violation=0.01)
    assert (target.gap, target.violation) == (1e-4, 0.01)
    assert target.label == "relative gap 0.0001, violation 0.01"
    assert Target.parse("error=0.2").limits == (("train_error", 0.2),)
    assert Target.parse("test_error=0.2").label == "test error 0.2"


@pytest.mark.parametrize("text", ["", "gap", "gap=", "gap=small", "gap=1e-4,violation", "=3"])
def test_what_is_no_target_is_refused_with_an_example(text):
    with pytest.raises(SettingError, match=r"gap=1e-4,violation=0\.01|metrics"):
        Target.parse(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("gap=0", "above 0"), ("gap=inf", "finite"), ("speed=3", "violation"), ("violaton=3", "mean 'violation'")],
)
def test_impossible_limits_are_refused(text, expected):
    with pytest.raises(SettingError, match=expected):
        Target.parse(text)
    with pytest.raises(SettingError, match="needs a limit"):
        Target.of()


def test_a_scored_point_meets_a_target_or_not():
    point = Iterate(gap=0.2, train_max_violation=0.05)
    assert is_met(Target.of(gap=0.1), point, start_gap=2.0)
    assert not is_met(Target.of(gap=0.1), point, start_gap=1.0)
    assert not is_met(Target.of(gap=0.1), point, start_gap=None)
    assert is_met(Target.of(violation=0.05), point, None)
    assert not is_met(Target.of(error=0.05), point, None)


LIMITS = st.dictionaries(st.sampled_from(["objective", "test_error", "violation"]), st.floats(-1e6, 1e6), min_size=1)


@given(LIMITS)
@settings(derandomize=True, deadline=None, max_examples=50)
def test_any_target_is_read_back_as_it_was_written(limits):
    written = ",".join(f"{name}={limit!r}" for name, limit in limits.items())
    assert Target.parse(written) == Target.of(**limits)

"""The monotone safeguard: what it accepts, what it undoes, how far steps may go afterwards."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from drobench.solver.estimators import Estimates
from drobench.solver.safeguards import Measured, Safeguard, watch

NOTHING = torch.zeros(1, dtype=torch.float64)


def found(value: float) -> Measured:
    point = torch.tensor([value], dtype=torch.float64)
    return Measured(value, point, Estimates(NOTHING, NOTHING[None], NOTHING[0], NOTHING, NOTHING[0]))


def judged(values: list[float], recovery: float = 1.0, step_size: float = 1.0) -> list[tuple[Safeguard, Measured]]:
    safeguard, seen = watch(step_size), []
    for value in values:
        safeguard, place = safeguard.judge(found(value), recovery=recovery)
        seen.append((safeguard, place))
    return seen


def test_what_went_up_is_undone_and_the_step_size_halved():
    (first, _), (second, place) = judged([1.0, 2.0])
    assert place is first.accepted
    assert second.accepted is first.accepted
    assert second.step_size == 0.5


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_no_number_is_undone_too(value):
    assert judged([1.0, value])[1][0].step_size == 0.125


def test_a_first_value_that_is_no_number_is_not_accepted():
    safeguard, place = watch(1.0).judge(found(math.nan))
    assert safeguard == watch(1.0)
    assert math.isnan(place.value)


def test_rounding_is_no_rise():
    safeguard, place = judged([1.0, 1.0 + 1e-13])[1]
    assert safeguard.step_size == 1.0
    assert place.value == 1.0 + 1e-13


def test_without_undoing_the_lowest_is_remembered_and_the_method_goes_on():
    safeguard, _ = watch(1.0).judge(found(1.0))
    risen, place = safeguard.judge(found(2.0), undo=False)
    assert (risen.accepted.value, risen.step_size, place.value) == (1.0, 1.0, 2.0)


def test_a_halved_step_grows_back_but_not_at_once_to_what_failed():
    states = judged([5.0, 6.0, 4.0, 3.0, 2.0, 1.0, 0.0, -1.0, -2.0], recovery=1.5)
    # Halved; then 1.5 times the last, at most 0.8 of what failed, a limit that fades by a tenth each time, up to 1.
    expected = [1.0, 0.5, 0.75, 0.968, 1.0, 1.0, 1.0, 1.0, 1.0]
    assert [safeguard.step_size for safeguard, _ in states] == pytest.approx(expected)


def test_without_recovery_a_halved_step_stays_small():
    assert [safeguard.step_size for safeguard, _ in judged([5.0, 6.0, 4.0, 3.0, 2.0])] == [1.0, 0.5, 0.5, 0.5, 0.5]


def test_a_step_may_begin_below_where_it_may_grow_to():
    safeguard = watch(1.0, ceiling=3.0)
    for value in (3.0, 2.0, 1.0, 0.0, -1.0):
        safeguard, _ = safeguard.judge(found(value), recovery=1.5)
    assert safeguard.step_size == 3.0


@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=30), st.sampled_from([1.0, 1.3, 1.9]))
def test_accepted_values_never_rise_and_steps_stay_within_their_bounds(values, recovery):
    best = math.inf
    for safeguard, place in judged(values, recovery):
        assert safeguard.accepted.value <= best + 1e-8
        assert place is safeguard.accepted
        assert 0.0 < safeguard.step_size <= safeguard.largest <= safeguard.ceiling == 1.0
        best = safeguard.accepted.value

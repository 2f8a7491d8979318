"""Line searches: which trials are good enough, and which length comes next."""

import math

import pytest
import torch

from drobench.solver import Measured, backtrack, falls_enough, rounding, shorter
from drobench.solver.estimators import Estimates

NOTHING = torch.zeros(1, dtype=torch.float64)
NO_ESTIMATES = Estimates(NOTHING, NOTHING[None], NOTHING[0], NOTHING, NOTHING[0])


def at(value: float) -> Measured:
    return Measured(value, NOTHING, NO_ESTIMATES)


def test_armijo_s_rule():
    assert falls_enough(1.0, 0.9, 0.5, -1.0, torch.float64, sufficient=0.2)
    assert not falls_enough(1.0, 0.9001, 0.5, -1.0, torch.float64, sufficient=0.2)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_finite_number_never_falls_enough(value):
    assert not falls_enough(1.0, value, 1.0, -1.0, torch.float64)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rounding_does_not_fail_a_trial(dtype):
    value = torch.tensor(3.0, dtype=dtype)
    above = float(torch.nextafter(value, torch.tensor(math.inf, dtype=dtype)))
    assert 0.0 < above - 3.0 <= rounding(3.0, dtype)
    assert falls_enough(3.0, above, 1.0, -1e-30, dtype)
    assert not falls_enough(3.0, 3.0 + 10.0 * (above - 3.0), 1.0, -1e-30, dtype)


def test_the_next_length_is_the_lowest_of_the_parabola():
    # t -> 5 t^2 - t has its minimum at 0.1, and is tried at 1 / 2.
    assert shorter(0.0, 5.0 * 0.25 - 0.5, 0.5, -1.0) == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("after", "expected"), [(1e6, 0.1), (-0.9, 0.5), (-2.0, 0.5), (math.nan, 0.1), (math.inf, 0.1)]
)
def test_the_next_length_is_between_a_tenth_and_a_half(after, expected):
    assert shorter(0.0, after, 1.0, -1.0) == expected


def test_backtracking_ends_at_the_first_length_that_is_good_enough():
    asked = []

    def measure(length: float) -> Measured:
        asked.append(length)
        return at(50.0 * length * length - length if length < 0.5 else math.inf)

    length, found = backtrack(measure, at(0.0), -1.0)
    # Infinite at 1, too high at a tenth, and then at the minimum of the parabola.
    assert asked == [1.0, 0.1, pytest.approx(0.01)]
    assert length == asked[-1]
    assert found.value == pytest.approx(-0.005)


def test_backtracking_that_fails_stays_where_it_was():
    before = at(1.0)
    asked = []

    def measure(length: float) -> Measured:
        asked.append(length)
        return at(2.0)

    assert backtrack(measure, before, -1.0, length=3.0, most_trials=7) == (0.0, before)
    assert len(asked) == 7
    assert asked[0] == 3.0

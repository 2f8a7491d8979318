"""Line searches one trial at a time: what they accept satisfies the conditions, on functions of one variable."""

import math
from itertools import pairwise

import pytest
import torch

from drobench_plugins.solvers.pieces.line_state import SearchRule, search

ARMIJO, WOLFE = SearchRule(1e-4, None), SearchRule(1e-4, 0.1)
# Value and slope; all of them fall at zero. In some the length 1 is far too long, in some far too short.
FUNCTIONS = {
    "parabola": lambda t: (0.5 * (t - 1.0) ** 2, t - 1.0),
    "steep parabola": lambda t: (500.0 * t * t - t, 1000.0 * t - 1.0),
    "shallow parabola": lambda t: (0.5e-3 * t * t - t, 1e-3 * t - 1.0),
    "quartic": lambda t: ((t - 3.0) ** 4, 4.0 * (t - 3.0) ** 3),
    "root": lambda t: (math.sqrt(1.0 + (t - 20.0) ** 2), (t - 20.0) / math.sqrt(1.0 + (t - 20.0) ** 2)),
    "exponential": lambda t: (math.exp(10.0 * t) - 11.0 * t, 10.0 * math.exp(10.0 * t) - 11.0),
    "waves": lambda t: (math.cos(6.0 * t) - t, -6.0 * math.sin(6.0 * t) - 1.0),
    "two valleys": lambda t: (-t + 8.0 * t * t - 9.0 * t**3 + 2.4 * t**4, -1.0 + 16.0 * t - 27.0 * t * t + 9.6 * t**3),
    "wall": lambda t: (-math.log(0.3 - t) - 5.0 * t, 1.0 / (0.3 - t) - 5.0) if t < 0.3 else (math.inf, math.inf),
}


def lengths(function, rule, most=60):
    """Return the lengths that were tried; the last one was accepted."""
    value, slope = function(0.0)
    line, tried = search(value, slope), []
    while line is not None:
        tried.append(line.length)
        assert len(tried) <= most
        line = line.tried(*function(line.length), torch.float64, rule)
    return tried


def falls(function, length):
    value, slope = function(0.0)
    return function(length)[0] <= value + 1e-4 * length * slope + 1e-15


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_is_accepted_falls_enough(name):
    function = FUNCTIONS[name]
    tried = lengths(function, ARMIJO)
    assert falls(function, tried[-1])
    # Nothing longer that was tried would have done.
    assert not any(falls(function, length) for length in tried[:-1])
    assert tried == sorted(tried, reverse=True)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_is_accepted_is_also_flat_where_that_is_asked_for(name):
    function = FUNCTIONS[name]
    tried = lengths(function, WOLFE)
    assert len(tried) <= 10
    assert falls(function, tried[-1])
    assert abs(function(tried[-1])[1]) <= -0.1 * function(0.0)[1]


@pytest.mark.parametrize("seed", range(8))
def test_polynomials_of_all_scales(seed):
    generator = torch.Generator().manual_seed(seed)
    for _ in range(40):
        a, b, c, stretch = torch.randn(4, generator=generator, dtype=torch.float64).tolist()
        width = 10.0**stretch

        def quartic(t, a=a, b=b, c=c, width=width):
            u = t / width
            slope = -1.0 - abs(a) + 2.0 * b * u + 3.0 * c * u * u + 4.0 * u**3
            return -(1.0 + abs(a)) * u + b * u * u + c * u**3 + u**4, slope / width

        tried = lengths(quartic, WOLFE)
        assert falls(quartic, tried[-1])
        if len(tried) <= 10:
            assert abs(quartic(tried[-1])[1]) <= -0.1 * quartic(0.0)[1]


def test_a_length_of_one_is_tried_first_and_taken_where_it_is_good():
    assert lengths(FUNCTIONS["parabola"], ARMIJO) == lengths(FUNCTIONS["parabola"], WOLFE) == [1.0]


def test_a_search_that_is_too_short_grows_by_at_most_four():
    tried = lengths(FUNCTIONS["root"], WOLFE)
    assert tried[1] > tried[0]
    assert all(after <= 4.0 * before for before, after in pairwise(tried))


def test_a_trial_above_the_lowest_one_is_the_other_end_of_the_interval():
    line = search(0.0, -1.0).tried(-1.0, -0.9, torch.float64, WOLFE)
    assert line.low.length == 1.0
    assert line.length > 1.0
    # It falls enough and falls on, but is higher than at length 1: the lowest is in between.
    after = line.tried(-0.5, -0.9, torch.float64, WOLFE)
    assert after.low == line.low
    assert after.high.length == line.length
    assert 1.0 < after.length < line.length


def test_the_slope_is_given_up_after_ten_trials():
    line = search(0.0, -1.0)
    # A slope that never flattens: every trial falls enough and is as steep as the origin.
    for _ in range(10):
        line = line.tried(-line.length, -1.0, torch.float64, WOLFE)
        assert line is not None
    assert line.tried(-line.length, -1.0, torch.float64, WOLFE) is None


@pytest.mark.parametrize("rule", [ARMIJO, WOLFE])
def test_what_is_no_number_is_never_accepted(rule):
    line = search(1.0, -1.0)
    for value in (math.nan, math.inf):
        shorter = line.tried(value, math.nan, torch.float64, rule)
        assert shorter.length == pytest.approx(0.1 * line.length)
        assert shorter.trials == line.trials + 1


def test_a_rise_within_rounding_is_no_failure():
    line = search(1.0, -1e-20)
    assert line.tried(1.0 + 2e-16, 0.0, torch.float64, ARMIJO) is None
    assert line.tried(1.0 + 1e-7, 0.0, torch.float32, ARMIJO) is None
    assert line.tried(1.0 + 1e-7, 0.0, torch.float64, ARMIJO) is not None

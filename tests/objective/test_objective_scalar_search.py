"""The minimum of a convex function of one variable, from its slopes."""

import math

import pytest

from drobench.objective.scalar_search import minimise_convex


@pytest.mark.parametrize("start", [-50.0, 0.0, 3.0, 3.1, 1e4])
@pytest.mark.parametrize(
    ("slope", "minimum"),
    [
        (lambda u: u - 3.0, 3.0),
        (lambda u: math.expm1(min(u - 3.0, 500.0)), 3.0),
        (lambda u: (u - 3.0) ** 3, 3.0),
        (lambda u: 1.0 if u > 3.0 else -0.1, 3.0),
    ],
    ids=["line", "exponential", "flat", "step"],
)
def test_finds_the_change_of_sign_from_anywhere(slope, minimum, start):
    assert minimise_convex(slope, start) == pytest.approx(minimum, abs=1e-4 if slope(3.1) < 0.01 else 1e-11)


def test_stays_above_the_lowest():
    assert minimise_convex(lambda u: u + 1.0, 5.0, lowest=0.5) == 0.5
    assert minimise_convex(lambda u: u - 1.0, -5.0, lowest=0.5) == pytest.approx(1.0, abs=1e-12)


def test_a_function_without_minimum_leaves_the_start():
    assert minimise_convex(lambda _: 1.0, 2.0) == 2.0


def test_few_looks_at_a_smooth_slope():
    looks = []

    def slope(u: float) -> float:
        looks.append(u)
        return math.tanh(u - 0.7)

    assert minimise_convex(slope, 0.6) == pytest.approx(0.7, abs=1e-12)
    assert len(looks) < 25


@pytest.mark.parametrize("start", [-30.0, 0.0, 400.0])
def test_an_overflow_is_a_slope_too(start):
    """`x + mean exp(1000 - x)` overflows below 290; its minimum is at 1000."""
    import numpy as np

    def slope(at):
        with np.errstate(over="ignore"):
            return 1.0 - float(np.exp(1000.0 - at))

    assert minimise_convex(slope, start) == pytest.approx(1000.0, abs=1e-9)

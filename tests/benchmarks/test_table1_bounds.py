"""The stated bounds, by hand and by their exponents."""

import math

import pytest

from benchmarks.studies.table1 import bounds
from benchmarks.studies.table1.growth import fit, sort


def test_the_hidden_factor_makes_the_stated_rate_a_power():
    cells = {(m, eps): [bounds.strongly_convex(m, eps, 10.0)] * 2 for m in (10**6, 10**7) for eps in (1e-2, 1e-4)}
    hidden = {(m, eps): [bounds.strongly_convex_hidden(m, eps)] * 2 for m in (100, 1000) for eps in (1e-6, 1e-8)}
    stated, true = fit(sort(cells).complete), fit(sort(hidden).complete)
    assert stated.size.value == pytest.approx(1.0, abs=0.02)
    assert stated.accuracy.value < 0.2
    assert true.size.value == pytest.approx(0.5, abs=0.25)
    assert true.accuracy.value == pytest.approx(1.0, abs=0.1)


def test_the_bound_of_non_convex_problems_is_the_smaller_of_its_two():
    assert bounds.non_convex(100, 1e-4) == pytest.approx(1e5)
    assert bounds.non_convex(10**6, 1e-4) == pytest.approx(1e6)
    assert bounds.non_convex_below(100, 1e-4) == pytest.approx(1e5)


def test_midtouch_by_hand():
    """At eps = 1 all four terms are powers of m and ln m."""
    log = math.log(50)
    expected = log + 50**1.5 * log**1.5 + 50 * log ** (2 / 3) + 2500 * log
    assert bounds.midtouch(50, 1.0) == pytest.approx(expected)

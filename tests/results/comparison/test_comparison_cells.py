"""The text of one cell."""

import math

import pytest

from drobench.results.comparison import cells
from drobench.results.comparison.rows import Comparison, Reached, Row, Summary
from drobench.results.comparison.targets import Target
from drobench.results.comparison.tuning import Tuning


def compared(quantity, size, better="a", worse="b"):
    effect = None if size is None else Summary(size, size, size)
    return Comparison(better, worse, 8, 8, 0, 0.01, 0.0312, True, quantity, effect, None)


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (math.inf, "failed"), (1e-6, "1e-6"), (123456.0, "1.23e5"), (0.12345, "0.123"), (-0.5, "-0.5")],
)
def test_a_number_has_three_digits_and_a_short_exponent(value, text):
    assert cells.quality(value) == text


@pytest.mark.parametrize(
    ("summary", "text"),
    [
        (None, "-"),
        (Summary(0.5, 0.25, 1.0), "0.5 [0.25, 1]"),
        (Summary(0.5, 0.5, 0.5), "0.5"),
        (Summary(2.0, 1.0, math.inf), "2 [1, never]"),
        (Summary(math.inf, 1.0, math.inf), "never"),
    ],
)
def test_an_interval_is_shown_unless_all_runs_agree(summary, text):
    assert cells.with_interval(summary, cells.NEVER) == text


@pytest.mark.parametrize(
    ("comparison", "solver", "text"),
    [
        (None, "b", "-"),
        (compared("gap", None), "b", "-"),
        (compared("gap", 0.3), "b", "+0.3 gap"),
        (compared("gap", 0.3), "a", "-0.3 gap"),
        (compared("train_max_violation", 0.3), "b", "+0.3 viol."),
        (compared("test_error", 0.3), "b", "+0.3 error"),
        (compared("gap", math.inf), "b", "failed"),
        (compared("passes", 2.5), "b", "2.5x"),
        (compared("passes", 2.5), "a", "0.4x"),
        (compared("passes", math.inf), "b", "never"),
        (compared("passes", 0.0), "a", "never"),
    ],
)
def test_an_effect_is_seen_from_the_row_it_stands_in(comparison, solver, text):
    assert cells.effect(comparison, solver) == text


def test_a_cost_says_how_many_runs_paid_it_where_not_all_did():
    target = Target.of(gap=0.1)
    row = Row(1, "a", "a", {}, (0, 1), ("x", "y"), 0, 1.0, {})

    def shown(share, with_ends):
        return cells.cost(Reached(target, share, {"passes": Summary(2.0, 1.0, 3.0)}), row, "passes", with_ends)

    assert shown(1.0, with_ends=True) == "2 [1, 3]"
    assert shown(0.5, with_ends=False) == "2 (1/2)"
    assert shown(0.0, with_ends=False) == "2"


@pytest.mark.parametrize(
    ("target", "text"),
    [
        (Target.of(gap=1e-4), "1e-4"),
        (Target.of(gap=0.05), "0.05"),
        (Target.of(error=0.2), "target"),
        (Target.of(gap=0.1, violation=0.0), "target"),
    ],
)
def test_a_gap_alone_names_its_column(target, text):
    assert cells.short_target(target) == text


def test_places_p_values_and_tuning():
    assert [cells.positions(found) for found in (None, (2, 2), (1, 3))] == ["-", "2", "1-3"]
    assert [cells.p_value(found) for found in (None, compared("gap", 0.1))] == ["-", "0.031"]
    assert cells.tried(None) == "-"
    assert cells.tried(Tuning(3, 9, 12345.0, 1.5)) == "3 (1.23e4 calls, 1.5 s)"

"""The axes of the figures."""

import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drobench.results.report.axes import NUMBER_LABEL, channel, digits, log_ticks
from drobench.results.report.series import MEASURES, Quantity


def test_log_axis_starts_below_the_smallest_positive_value_and_clamps_the_rest():
    gap = MEASURES[1]
    log = channel(gap, "log", (1e-4, 1.0))
    assert log["scale"] == {"type": "log", "domainMin": 7e-5, "clamp": True, "nice": False}
    assert channel(gap, "linear", (1e-4, 1.0))["scale"]["type"] == "linear"
    assert channel(gap, "log", None)["scale"]["type"] == "linear", "nothing positive: no logarithm"
    signed = Quantity("train_max_violation", "violation", "linear")
    assert channel(signed, "log", (1e-4, 1.0))["scale"]["type"] == "symlog"


def test_log_ticks_are_powers_of_ten_and_few():
    assert log_ticks(3e-4, 2.0) == [0.001, 0.01, 0.1, 1.0]
    assert log_ticks(0.15, 7.0) == [0.2, 0.5, 1.0, 2.0, 5.0]
    many = log_ticks(1e-15, 1e3)
    assert 3 <= len(many) <= 8
    assert many == sorted(many)


@given(st.floats(1e-200, 1e200), st.floats(1.0, 1e12))
@settings(derandomize=True, deadline=None, max_examples=80)
def test_ticks_of_any_log_axis_lie_on_it_in_order(low, factor):
    ticks = log_ticks(low, low * factor)
    assert all(low <= tick <= low * factor for tick in ticks)
    assert ticks == sorted(set(ticks))


def test_counts_and_numbers_have_labels_of_their_own():
    calls, gap = Quantity("oracle_calls", "oracle calls", "linear"), Quantity("gap", "gap", "log")
    assert channel(calls, "linear", None)["axis"]["labelExpr"] == "format(datum.value, '~s')"
    assert channel(gap, "linear", None)["axis"]["labelExpr"] == NUMBER_LABEL


def test_a_number_keeps_the_digits_that_a_figure_can_show():
    assert digits(0.123456789) == 0.12346
    assert digits(123456789.0) == 123460000.0


@pytest.mark.parametrize("ends", [(5e-324, 1.0), (1.0, sys.float_info.max), (5e-324, sys.float_info.max)])
def test_an_axis_to_the_end_of_all_numbers_has_ticks(ends):
    ticks = channel(MEASURES[1], "log", ends)["axis"]["values"]
    assert ticks
    assert all(0 < tick <= sys.float_info.max for tick in ticks)

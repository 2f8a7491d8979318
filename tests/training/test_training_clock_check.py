"""The clock of this machine, checked on a run whose times are known."""

import pytest

from drobench.training.clock_check import ClockCheck, check_clock


def test_the_clock_can_check_itself():
    found = check_clock()
    assert found.good
    assert found.solver >= 0.1
    # The start, the last row of the curve and the last iterate.
    assert found.evaluation >= 0.3


@pytest.mark.parametrize("timed", [0.05, 0.4, 0.31])
def test_the_check_finds_a_clock_that_forgets_the_solver_or_counts_the_scoring(timed):
    assert ClockCheck(0.1, 0.3, 0.101).good
    assert not ClockCheck(0.1, 0.3, timed).good

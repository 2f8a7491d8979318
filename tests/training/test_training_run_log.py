"""A log is closed once, and told whether the run failed."""

from types import SimpleNamespace

import pytest

from drobench.results.record import Status
from drobench.training.run_log import RunLog


class Remembering(RunLog):
    def __init__(self):
        self.closed = []

    def close(self, failed):
        self.closed.append(failed)


@pytest.mark.parametrize(("status", "failed"), [(Status.BUDGET_SPENT, False), (Status.DIVERGED, True)])
def test_the_outcome_decides_whether_it_is_closed_as_failed(status, failed):
    with Remembering() as log:
        log.conclude(SimpleNamespace(status=status))
    assert log.closed == [failed]


def test_an_error_closes_it_as_failed_and_goes_on():
    log = Remembering()
    with pytest.raises(ArithmeticError), log:
        raise ArithmeticError
    assert log.closed == [True]


def test_the_plain_log_leads_nowhere():
    assert RunLog().open(continued=False) is None

import contextlib
import signal
import threading
import time

import pytest

from drobench.registry.time_limit import TimeLimitExpired, time_limit

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="the system has no interval timers")


@pytest.fixture
def own_timer():
    """Put aside the timer of the test runner, and give it back."""
    delay, interval = signal.setitimer(signal.ITIMER_REAL, 0)
    handler = signal.getsignal(signal.SIGALRM)
    yield
    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, delay, interval)


def test_a_block_that_takes_too_long_is_stopped():
    started = time.monotonic()
    with pytest.raises(TimeLimitExpired), time_limit(0.1):
        time.sleep(20)
    assert time.monotonic() - started < 10


def test_an_except_exception_in_the_block_does_not_swallow_it():
    def block():
        with contextlib.suppress(Exception):
            time.sleep(20)
        pytest.fail("swallowed")

    with pytest.raises(TimeLimitExpired), time_limit(0.1):
        block()


def test_a_block_that_swallows_it_once_is_stopped_the_next_time():
    swallowed = []

    def block():
        try:
            time.sleep(20)
        except BaseException as error:
            swallowed.append(error)
        time.sleep(20)

    started = time.monotonic()
    with pytest.raises(TimeLimitExpired), time_limit(0.1):
        block()
    assert len(swallowed) == 1
    assert time.monotonic() - started < 10


def test_a_quick_block_is_left_alone_and_nothing_goes_off_later(own_timer):
    with time_limit(0.05):
        pass
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    time.sleep(0.1)


def test_zero_means_no_limit(own_timer):
    with time_limit(0):
        assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_the_timer_and_handler_of_somebody_else_are_put_back(own_timer):
    def handler(_signal, _frame):
        pytest.fail("went off")

    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 50.0, 7.0)
    with time_limit(10):
        assert signal.getitimer(signal.ITIMER_REAL)[0] <= 10
        time.sleep(0.05)
    delay, interval = signal.setitimer(signal.ITIMER_REAL, 0)
    assert 30 < delay <= 49.96
    assert interval == 7.0
    assert signal.getsignal(signal.SIGALRM) is handler


def test_the_timer_of_somebody_else_that_ran_out_meanwhile_goes_off_afterwards(own_timer):
    calls = []
    signal.signal(signal.SIGALRM, lambda _signal, _frame: calls.append("late"))
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    with time_limit(10):
        time.sleep(0.2)
        assert calls == []
    deadline = time.monotonic() + 10
    while not calls and time.monotonic() < deadline:
        time.sleep(0.01)
    assert calls == ["late"]


def test_another_thread_runs_without_a_limit():
    finished = []

    def work():
        with time_limit(0.01):
            time.sleep(0.1)
        finished.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert finished == [True]

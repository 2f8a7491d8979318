"""A time limit for code that is not ours: the import and the hooks of a plugin, a whole run."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

# The alarm repeats, because its exception is lost when it arrives inside a finalizer or a bare `except`.
_REPEAT_SECONDS = 1.0


class TimeLimitExpired(BaseException):
    """Raised inside a block that took too long.

    It is no `Exception`, so that an `except Exception` in the block does not swallow it.
    """


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise `TimeLimitExpired` in the block once `seconds` have passed; zero means no limit.

    Only Python code and interruptible calls can be stopped this way, only in the main thread, and only where the
    system has interval timers. Elsewhere the block runs without a limit.
    """
    if seconds == 0 or not _alarms_work_here():
        yield
        return
    started = time.monotonic()
    # A timer that somebody else has set is put aside first, or it would go off in our handler.
    other_delay, other_interval = signal.setitimer(signal.ITIMER_REAL, 0)
    other_handler = signal.signal(signal.SIGALRM, _expire)
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds, _REPEAT_SECONDS)
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        # `None` stands for a handler that Python did not install and cannot put back.
        signal.signal(signal.SIGALRM, signal.SIG_DFL if other_handler is None else other_handler)
        if other_delay > 0:
            # A timer that ran out meanwhile goes off at once; zero would cancel it.
            remaining = max(other_delay - (time.monotonic() - started), 1e-3)
            signal.setitimer(signal.ITIMER_REAL, remaining, other_interval)


def _alarms_work_here() -> bool:
    return hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()


def _expire(_signal: int, _frame: FrameType | None) -> None:
    raise TimeLimitExpired

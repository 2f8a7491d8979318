"""Ends that code of a plugin must not bring about: it may fail, but whether the program ends is not for it to say.

`sys.exit` raises, so whoever calls the plugin can answer it. `os._exit` does not: while code of a plugin runs it is
replaced by one that does.
"""

import os
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from drobench.reasons import tidy

# Children of this process have every right to it, also those that are forked while it is replaced.
_END_AT_ONCE = os._exit


class AskedToEnd(BaseException):
    """Raised where this process was asked to end by whoever started it: nobody's failure, and nothing to record."""


class EndedAtOnce(SystemExit):
    """Raised in place of `os._exit`."""


@contextmanager
def exits_raise() -> Iterator[None]:
    """Let `os._exit` raise `EndedAtOnce` in this process, as `sys.exit` raises `SystemExit`, while the block runs."""
    guarded, before = os.getpid(), os._exit

    def refuse(status: int) -> NoReturn:
        if os.getpid() != guarded:
            _END_AT_ONCE(status)
        raise EndedAtOnce(status)

    os._exit = refuse
    try:
        yield
    finally:
        os._exit = before


def attempt_to_end(error: SystemExit) -> str:
    """Say who tried to end the program, and how."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    if isinstance(error, EndedAtOnce):
        frames = frames[:-1]  # the last is `refuse`
    who = f"`{frames[-1].f_globals.get('__name__', '?')}`" if frames else "it"
    return f"{who} tried to end the program ({way_to_end(error)})"


def way_to_end(error: SystemExit) -> str:
    """Return which function was called, with which code."""
    name = "os._exit" if isinstance(error, EndedAtOnce) else "SystemExit"
    return name if error.code is None else tidy(f"{name}: {error.code}")

"""Ends that code of a plugin must not bring about: it may fail, but whether the program ends is not for it to say.

`sys.exit` raises, so whoever calls the plugin can answer it. `os._exit` does not: while code of a plugin runs it is
replaced by one that does.
"""

import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

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
    before = os._exit
    os._exit = _refusing(os.getpid())
    try:
        yield
    finally:
        os._exit = before


def _refusing(guarded: int) -> Any:
    """Return what takes the place of `os._exit` in the process with this number."""

    def refuse(status: int) -> NoReturn:
        if os.getpid() != guarded:
            _END_AT_ONCE(status)
        raise EndedAtOnce(status)

    return refuse


def attempt_to_end(error: SystemExit) -> str:
    """Say who tried to end the program, and how."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    # The last may be `refuse`, or the function of a library that has put its own in the place of `sys.exit`.
    functions = {_REFUSAL, getattr(getattr(sys.exit, "__func__", sys.exit), "__code__", None)}
    while frames and frames[-1].f_code in functions:
        frames.pop()
    who = f"`{frames[-1].f_globals.get('__name__', '?')}`" if frames else "it"
    return f"{who} tried to end the program ({way_to_end(error)})"


_REFUSAL = _refusing(0).__code__


def way_to_end(error: SystemExit) -> str:
    """Return which function was called, with which code."""
    name = "os._exit" if isinstance(error, EndedAtOnce) else "SystemExit"
    return name if error.code is None else tidy(f"{name}: {error.code}")

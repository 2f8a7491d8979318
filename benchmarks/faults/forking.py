"""Children forked from a fresh process that has imported everything and computed nothing.

Such a child starts within milliseconds, where a new interpreter takes seconds, and may be killed, cut off from its disk
or led astray. It must not be forked from a process that has computed: the threads of polars and of OpenMP do not
survive a fork, and the child would wait for them for ever.
"""

import os
import pickle
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context, resource_tracker
from pathlib import Path
from typing import Any, TypeVar

Result = TypeVar("Result")
RAISED = 70
"""The code of a child whose function raised."""


def in_fresh_process(
    function: Callable[..., Result], *arguments: Any, variables: Mapping[str, str] | None = None
) -> Result:
    """Call a function in a new process, from which it may fork, and return what it returns.

    Args:
        function: What to call.
        arguments: Its arguments.
        variables: The environment of the process; none: that of this one.
    """
    # It outlives the process that starts it, and must not be taken for something left behind.
    resource_tracker.ensure_running()
    before = dict(os.environ)
    if variables is not None:
        os.environ.clear()
        os.environ.update(variables)
    try:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            return pool.submit(_called, function, *arguments).result()
    finally:
        os.environ.clear()
        os.environ.update(before)


def _called(function: Callable[..., Result], *arguments: Any) -> Result:
    # As at the command line: a program of the background would ignore Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    return function(*arguments)


@dataclass(frozen=True)
class ChildEnded:
    """How a child ended: its code, negative for a signal, `None` if it had to be stopped; its output and its value."""

    code: int | None
    text: str
    value: Any = None


class Child:
    """A function at work in a child of this process."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="drobench-child-"))
        sys.stdout.flush()
        sys.stderr.flush()
        self.number = os.fork()
        if self.number == 0:
            self._be_child(function, arguments)

    def _be_child(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        """Do it, and end without whatever the parent would do at its end."""
        code = RAISED
        try:
            sink = os.open(self.folder / "output", os.O_WRONLY | os.O_CREAT)
            os.dup2(sink, 1)
            os.dup2(sink, 2)
            # Until the end of the process.
            sys.stdout, sys.stderr = (open(number, "w", closefd=False, errors="replace") for number in (1, 2))  # noqa: SIM115
            value = function(*arguments)
            (self.folder / "value").write_bytes(pickle.dumps(value))
            code = 0
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else int(error.code is not None)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def wait(self, seconds: float = 120.0) -> ChildEnded:
        """Wait for its end; one that does not come is brought about."""
        end = time.monotonic() + seconds
        code: int | None = None
        while (ended := os.waitpid(self.number, os.WNOHANG))[0] == 0:
            if time.monotonic() > end:
                os.kill(self.number, signal.SIGKILL)
                os.waitpid(self.number, 0)
                break
            time.sleep(0.002)
        else:
            code = os.waitstatus_to_exitcode(ended[1])
        output, value = self.folder / "output", self.folder / "value"
        text = output.read_text(encoding="utf-8", errors="replace") if output.exists() else ""
        found = pickle.loads(value.read_bytes()) if value.exists() else None
        shutil.rmtree(self.folder, ignore_errors=True)
        return ChildEnded(code, text, found)


def forked(function: Callable[..., Any], *arguments: Any, seconds: float = 120.0) -> ChildEnded:
    """Call a function in a child and wait for it."""
    return Child(function, *arguments).wait(seconds)


def command(*words: object, seconds: float = 120.0) -> ChildEnded:
    """Run the command line of drobench in a child."""
    from drobench.app.cli import main

    return forked(main, [str(word) for word in words], seconds=seconds)

"""A guard over a process that computes: whatever is started below it does not outlive it.

A plugin may start processes of its own, and a killed sweep cannot end its workers any more. So each worker forks: the
child computes, and the process that it was watches over it. When the child has ended, when the guard is asked to end,
or when whoever started it is gone, everything below is killed. On Linux that is every descendant, since those that lose
their parent become children of the guard; elsewhere it is the process group.
"""

import contextlib
import ctypes
import multiprocessing
import multiprocessing.connection
import os
import resource
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from drobench.app.ranks import end_with_parent

_ADOPT_ORPHANS = 36  # PR_SET_CHILD_SUBREAPER, from <sys/prctl.h>
_PATIENCE = 5.0
_POLL_SECONDS = 0.01
# Of a scale to 1000. When memory runs out, the kernel ends what has the most of it plus this share.
_OUT_OF_MEMORY_SCORE = "500"
# The fork server has imported this module before it forked: its process, as its children know it.
_IMPORTED_IN = os.getpid()


def become_guarded(grace: float) -> None:
    """Fork; return in the child, which goes on as before, while this process becomes its guard and never returns.

    Args:
        grace: Seconds that the child has to end when it is asked to.
    """
    os.setpgrp()  # Ctrl-C in the terminal is for the sweep, which then ends its workers
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_ADOPT_ORPHANS, 1)
    watching = _Watch(grace)
    end_with_parent(signal.SIGTERM, _IMPORTED_IN if os.getpid() != _IMPORTED_IN else None)
    guard = os.getpid()
    child = os.fork()
    if child:
        _end_like(watching.watch(child))
    watching.close()
    os.setpgrp()
    end_with_parent(signal.SIGKILL, guard)
    _offer_to_kernel()


def _offer_to_kernel() -> None:
    """Have the kernel end this process, rather than the sweep, when memory runs out."""
    with contextlib.suppress(OSError):  # not there, or not allowed: then as it was
        Path("/proc/self/oom_score_adj").write_text(_OUT_OF_MEMORY_SCORE)


class _Watch:
    """What the guard waits for: signals, among them that of an ended child, and the end of whoever started it."""

    def __init__(self, grace: float) -> None:
        self.grace = grace
        self.signals, self.sink = os.pipe()
        os.set_blocking(self.sink, False)
        os.set_blocking(self.signals, False)
        signal.set_wakeup_fd(self.sink, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, lambda *_: None)
        parent = multiprocessing.parent_process()
        self.parents = [] if parent is None else [parent.sentinel]

    def close(self) -> None:
        """Be no guard any more, in the child."""
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        os.close(self.signals)
        os.close(self.sink)

    def watch(self, child: int) -> int:
        """Return the code of the child when nothing that was started below is left."""
        deadline = None
        while (code := _reap(child)) is None:
            left = None if deadline is None else max(deadline - time.monotonic(), 0.0)
            ready = multiprocessing.connection.wait([self.signals, *self.parents], left)
            if self.signals in ready and signal.SIGTERM in os.read(self.signals, 4096) and deadline is None:
                deadline = time.monotonic() + self.grace
                os.kill(child, signal.SIGTERM)
            gone = any(sentinel in ready for sentinel in self.parents)
            if gone or (deadline is not None and time.monotonic() >= deadline):
                os.kill(child, signal.SIGKILL)
                code = _wait(child)
                break
        _end_all(child)
        return code


def _reap(child: int) -> int | None:
    """Fetch all children that have ended, adopted ones among them; return the code of this one if it has."""
    code = None
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == child:
                code = os.waitstatus_to_exitcode(ended[1])
    return code


def _wait(child: int) -> int:
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def _end_all(group: int) -> None:
    """Kill everything that is left. The children of a killed process become ours and are killed in the next round."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return  # there are none
        for process in _children(os.getpid()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        time.sleep(_POLL_SECONDS)


def _children(parent: int) -> Iterator[int]:
    """Find the children of a process, where the system shows them."""
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            # The name, in brackets, may hold anything.
            if int(file.read_text(errors="replace").rpartition(")")[2].split()[1]) == parent:
                yield int(file.parent.name)


def _end_like(code: int) -> None:
    """End this process with the code of its child, or by the signal that has ended the child."""
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # it is not this process that has crashed
        with contextlib.suppress(OSError):  # those that cannot be handled
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code if code >= 0 else 1)

"""Putting a finished folder in its place in one move.

A folder is built under a temporary name beside its target and then renamed. Renaming is the one operation that other
processes see either not at all or completely.
"""

import ctypes
import errno
import os
import shutil
import sys
import time
from pathlib import Path

from drobench.errors import DrobenchError
from drobench.files import host_name, is_alive, temporary_name

DAY = 24 * 60 * 60
_ATTEMPTS = 10
_OCCUPIED = (errno.ENOTEMPTY, errno.EEXIST)
# From <fcntl.h> and <linux/fs.h>: resolve against the working directory; exchange the two names.
_AT_WORKING_DIRECTORY = -100
_RENAME_EXCHANGE = 2
# The kernel, the C library or the file system may not know the exchange.
_NO_EXCHANGE = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP)


def install(built: Path, target: Path) -> Path | None:
    """Rename `built` to `target`, whatever is there.

    Returns:
        The folder that now holds what was at `target` before, or `None` if nothing was. It is the caller's to remove.
    """
    for _ in range(_ATTEMPTS):
        try:
            built.rename(target)
        except OSError as error:
            if error.errno not in _OCCUPIED:
                raise
        else:
            return None
        try:
            return built if _exchange(built, target) else _move_aside(built, target)
        except FileNotFoundError:
            continue  # what was there has been moved away by another process, so the plain rename may work now
    raise DrobenchError(
        f"{target} is replaced by other processes again and again; expected at most one writer per run. "
        "Hold the lock of the run while writing."
    )


def remove_leftovers(parent: Path, age: float = DAY) -> None:
    """Remove temporary folders of dead processes that nobody has touched for `age` seconds."""
    if not parent.is_dir():
        return
    for folder in parent.iterdir():
        if _is_abandoned(folder, age):
            # Another process may be cleaning too; what it removes first is not an error.
            shutil.rmtree(folder, ignore_errors=True)


def _exchange(first: Path, second: Path) -> bool:
    """Swap two names in one step; False where the system cannot."""
    if sys.platform != "linux":
        return False
    library = ctypes.CDLL(None, use_errno=True)
    if not hasattr(library, "renameat2"):
        return False
    result = library.renameat2(
        _AT_WORKING_DIRECTORY, os.fsencode(first), _AT_WORKING_DIRECTORY, os.fsencode(second), _RENAME_EXCHANGE
    )
    if result == 0:
        return True
    code = ctypes.get_errno()
    if code in _NO_EXCHANGE:
        return False
    raise OSError(code, os.strerror(code), str(second))


def _move_aside(built: Path, target: Path) -> Path:
    """Swap in two steps; for a moment the target is missing, which is the best such a system offers."""
    aside = built.with_name(temporary_name())
    target.rename(aside)
    try:
        built.rename(target)
    except OSError:
        # If another process was faster, its folder stays; the caller still has both of ours.
        if not target.exists():
            aside.rename(target)
        raise
    return aside


def _is_abandoned(folder: Path, age: float) -> bool:
    try:
        touched = folder.stat().st_mtime
    except OSError:
        return False
    host, _, process = folder.name.rpartition("-")[0].rpartition("-")
    if time.time() - touched < age or not process.isdigit():
        return False
    # Whether a process of another machine lives cannot be asked; writing takes seconds, so a day is proof enough.
    return host != host_name() or not is_alive(int(process))

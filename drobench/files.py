"""Files and folders that other processes see complete or not at all.

What is written is built under another name in the same folder, brought to the disk and then renamed. Where anything
fails on the way, what was there before stays, and nothing of the new is left behind.
"""

import hashlib
import os
import platform
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

_BUILDING = ".building-"


def temporary_name() -> str:
    """Return a name that no other process uses and that tells which process it belongs to."""
    return f"{host_name()}-{os.getpid()}-{uuid.uuid4().hex}"


def host_name() -> str:
    """Return the name of this machine as it stands in temporary names."""
    return platform.node().replace(os.sep, "_") or "host"


def maker_is_dead(name: str) -> bool:
    """Whether a temporary name belongs to a process of this machine that is not there any more."""
    host, _, process = name.rpartition("-")[0].rpartition("-")
    return host == host_name() and process.isdecimal() and not is_alive(int(process))


def is_alive(process: int) -> bool:
    """Whether there is a process of this number here."""
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True  # it exists, but belongs to somebody else
    return True


def sync(path: Path) -> None:
    """Wait until a file's contents, or a folder's list of names, is on the disk."""
    if path.is_dir() and os.name != "posix":
        return  # only POSIX systems open a folder for this
    descriptor = os.open(path, os.O_RDONLY if os.name == "posix" else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def file_sha256(path: Path) -> str:
    """Return the checksum of a file's content."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@contextmanager
def whole_file(target: Path) -> Iterator[IO[bytes]]:
    """Open a file for writing that takes its name, in place of an older one, when the block ends without error."""
    target.parent.mkdir(parents=True, exist_ok=True)
    built = _beside(target)
    try:
        with built.open("xb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        built.replace(target)
    finally:
        built.unlink(missing_ok=True)


def write_atomically(target: Path, content: str | bytes) -> None:
    """Write a file; a text is written as UTF-8."""
    with whole_file(target) as stream:
        stream.write(content.encode() if isinstance(content, str) else content)


@contextmanager
def whole_folder(target: Path, *, replace: bool = False) -> Iterator[Path]:
    """Make a folder to be filled that takes its name when the block ends without error.

    Args:
        target: Its name.
        replace: Whether to remove a folder of this name, just before the new one takes its place; otherwise one that is
            not empty is an `OSError`.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    built = _beside(target)
    try:
        built.mkdir()
        yield built
        for path in (*built.rglob("*"), built):
            sync(path)
        if replace:
            shutil.rmtree(target, ignore_errors=True)
        built.rename(target)
    finally:
        # Of a folder that has its name by now nothing is found here.
        shutil.rmtree(built, ignore_errors=True)


def _beside(target: Path) -> Path:
    """Return where to build it; what killed writers have left there goes."""
    for left in target.parent.glob(f"{_BUILDING}*"):
        if maker_is_dead(left.name.removeprefix(_BUILDING)):
            # Another process may be cleaning too; what it removes first is not an error.
            shutil.rmtree(left, ignore_errors=True)
            with suppress(OSError):
                left.unlink()
    return target.with_name(_BUILDING + temporary_name())

"""The command line as processes that can be told from all others, so that none is overlooked in the end."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import benchmarks

MARK = "DROBENCH_FAULTS"
PATIENCE = 30.0
"""Seconds after which nothing may be left of a command that has ended."""
COMMAND = "from drobench.app.cli import main; main()"
_HIDDEN = ("DROBENCH_RESULTS", "DROBENCH_DISABLE_PLUGINS", "DROBENCH_PLUGIN_TIMEOUT", "FORCE_COLOR")


@dataclass(frozen=True)
class Process:
    """A living process."""

    number: int
    parent: int
    words: str
    variables: frozenset[str]
    """Its environment when it was started, as NAME=VALUE."""


@dataclass(frozen=True)
class Ended:
    """How a command ended: its code, negative for a signal, `None` if it had to be stopped, and what it printed."""

    code: int | None
    text: str

    def troubles(self, what: str) -> list[str]:
        """Return what no user should see, whatever happened: a traceback, or a command without an end."""
        found = []
        if self.code is None:
            found.append(f"{what}: did not end")
        if "Traceback (most recent call last)" in self.text:
            found.append(f"{what}: a traceback in the terminal: {self.text[-1500:]}")
        return found


class Family:
    """Commands and everything that they start, in a folder of their own. Leaving the block ends and removes all.

    Args:
        paths: Folders where Python looks for packages before anything else.
        variables: Further variables of the environment.
    """

    def __init__(self, *paths: Path, **variables: str) -> None:
        self.mark = f"{MARK}={uuid.uuid4().hex}"
        self.folder = Path(tempfile.mkdtemp(prefix="drobench-faults-"))
        self.temporary = self.folder / "tmp"
        self.temporary.mkdir()
        kept = {name: value for name, value in os.environ.items() if name not in _HIDDEN}
        self.variables = {
            **kept,
            MARK: self.mark.partition("=")[2],
            "PYTHONPATH": os.pathsep.join([*map(str, paths), *_sources()]),
            "TMPDIR": str(self.temporary),
            "OMP_NUM_THREADS": "1",
            "COLUMNS": "250",
            **variables,
        }

    def __enter__(self) -> "Family":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.end_all()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self, *words: object, name: str = "output") -> "Command":
        """Start `drobench` with these words; it works in the family's folder."""
        return Command(self, [str(word) for word in words], self.folder / f"{name}.txt")

    def run(self, *words: object, seconds: float = 300.0) -> Ended:
        """Start `drobench`, wait until it has ended and return how."""
        return self.start(*words).wait(seconds)

    def living(self) -> list[Process]:
        """Return the processes of this family that live."""
        return [found for found in _all_processes() if self.mark in found.variables]

    def left_behind(self, seconds: float = PATIENCE) -> list[str]:
        """Return the command lines of what still lives after some seconds, and end it, so that it is told once."""
        end = time.monotonic() + seconds
        while (found := self.living()) and time.monotonic() < end:
            time.sleep(0.05)
        self.end_all()
        return [f"left after {seconds:g} s: {process.words[:200]}" for process in found]

    def end_all(self) -> None:
        """Kill whatever lives."""
        while found := self.living():
            for process in found:
                kill(process.number)
            time.sleep(0.02)


class Command:
    """A command at work."""

    def __init__(self, family: Family, words: list[str], output: Path) -> None:
        self.output = output
        with output.open("wb") as sink:
            self.process = subprocess.Popen(
                [sys.executable, "-c", COMMAND, *words],
                env=family.variables,
                cwd=family.folder,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                start_new_session=True,
            )

    def wait(self, seconds: float = 300.0) -> Ended:
        """Wait until it has ended; one that does not end is killed."""
        try:
            code: int | None = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            code = None
            self.process.kill()
            self.process.wait()
        return Ended(code, self.output.read_text(encoding="utf-8", errors="replace"))

    def wait_for(self, happened: Callable[[], bool], seconds: float = 120.0) -> bool:
        """Wait until something has happened; `False` if the command has ended before, or time is up."""
        end = time.monotonic() + seconds
        while self.process.poll() is None and time.monotonic() < end:
            if happened():
                return True
            time.sleep(0.02)
        return False


def kill(process: int) -> None:
    """Kill a process that may have ended already."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


def _sources() -> list[str]:
    """Return the folders of the packages in use, for processes that are started elsewhere."""
    import drobench
    import drobench_plugins

    modules = (benchmarks, drobench, drobench_plugins)
    return list(dict.fromkeys(str(Path(str(module.__file__)).resolve().parents[1]) for module in modules))


def _all_processes() -> Iterator[Process]:
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError):  # it has ended meanwhile, or belongs to somebody else
            variables = (folder / "environ").read_bytes().decode(errors="replace").split("\0")
            words = (folder / "cmdline").read_bytes().decode(errors="replace").replace("\0", " ")
            # The name, in brackets, may hold anything.
            state, parent = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()[:2]
            if state != "Z":
                yield Process(int(folder.name), int(parent), words, frozenset(variables))

"""Starting ranks, and looking for any that were left behind."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def _start_ranks(processes: int, *words: object) -> None:
    """Start `rank_program.py` with torch's launcher, wait for it, and fail with its output if it fails."""
    program = Path(__file__).with_name("rank_program.py")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    done = subprocess.run(
        [*command, str(program), *map(str, words)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout


@pytest.fixture(scope="session")
def folder_of_two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which two ranks have done everything they can: one start serves all tests."""
    folder = tmp_path_factory.mktemp("two")
    _start_ranks(2, folder, "lightning")
    return folder


@pytest.fixture(scope="session")
def folder_of_three(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which three ranks have run the solvers."""
    folder = tmp_path_factory.mktemp("three")
    _start_ranks(3, folder)
    return folder


def _processes_with(text: str) -> dict[int, str]:
    """Return the command lines of living processes, other than this one, that contain `text`."""
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            try:
                words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue  # it has ended meanwhile
            if text in words:
                found[int(folder.name)] = words
    return found


@pytest.fixture(scope="session")
def left_behind() -> Callable[..., dict[int, str]]:
    """Return the processes that still work for a folder, after a moment for the kernel to end them."""

    def look(folder: Path, seconds: float = 5.0) -> dict[int, str]:
        deadline = time.monotonic() + seconds
        while (found := _processes_with(str(folder))) and time.monotonic() < deadline:
            time.sleep(0.05)
        return found

    return look


@pytest.fixture(scope="module")
def launched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., tuple[Any, Path]]]:
    """Compute a cell whose resolved configuration lies in a folder of its own.

    Returns the record and that folder, which holds the results too.
    """

    folders: list[Path] = []

    def launch(*overrides: str, folder: Path | None = None) -> tuple[Any, Path]:
        from drobench import run

        folder = folder or tmp_path_factory.mktemp("cell")
        folders.append(folder)
        with pytest.MonkeyPatch.context() as patch:
            # The name of the resolved file is what tells our ranks from everybody else's.
            patch.setenv("TMPDIR", str(folder))
            patch.setattr(tempfile, "tempdir", str(folder))
            patch.delenv("RANK", raising=False)
            return run(*overrides, results=folder / "results"), folder

    yield launch
    # Whatever a failing test has found is ended here, or it would slow down the tests after it.
    for folder in folders:
        for process in _processes_with(str(folder)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)

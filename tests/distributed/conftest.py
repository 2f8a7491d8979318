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
import rank_program
import torch


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def _start_ranks(processes: int, *words: object, program: str = "rank_program.py") -> None:
    """Start a program with torch's launcher, wait for it, and fail with its output if it fails."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    done = subprocess.run(
        [*command, str(Path(__file__).with_name(program)), *map(str, words)],
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
    # What one process has begun, the two will end.
    rank_program.train(folder / "grown", processes=1, steps=140, checkpoint_steps=40)
    _start_ranks(2, folder, "lightning")
    return folder


@pytest.fixture(scope="session")
def folder_of_three(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which three ranks have run the solvers."""
    folder = tmp_path_factory.mktemp("three")
    _start_ranks(3, folder)
    return folder


@pytest.fixture(scope="module")
def start_steps() -> Callable[..., list[dict[str, Any]]]:
    """Run tasks of `steps_program.py` on so many ranks, and return what each rank has found."""

    def start(processes: int, folder: Path, *names: str) -> list[dict[str, Any]]:
        _start_ranks(processes, folder, *names, program="steps_program.py")
        return [torch.load(folder / f"steps{rank}.pt", weights_only=True) for rank in range(processes)]

    return start


@pytest.fixture(scope="module")
def breakable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Put a package that looks installed on the path of this process and of all that it starts."""
    from hydra.core.config_store import ConfigStore

    from drobench.registry import load_catalogue

    site = tmp_path_factory.mktemp("site")
    metadata = site / "breakable-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: breakable\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[drobench]\nbreakable = breakable_plugin\n")
    inherited = os.environ.get("PYTHONPATH")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(site)
        words = [str(site), str(Path(__file__).parent), *([inherited] if inherited else [])]
        patch.setenv("PYTHONPATH", os.pathsep.join(words))
        load_catalogue.cache_clear()
        assert "breakable" in load_catalogue().solvers
        yield
    for name in ("breakable", "counted"):
        ConfigStore.instance().repo.get("solver", {}).pop(f"{name}.yaml", None)
    load_catalogue.cache_clear()


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
            return run(*overrides, results=folder / "results"), folder

    yield launch
    # Whatever a failing test has found is ended here, or it would slow down the tests after it.
    for folder in folders:
        for process in _processes_with(str(folder)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)


@pytest.fixture
def command_at_work() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Start `drobench run`, in a process of its own, and wait until a checkpoint shows that it computes."""
    started = []

    def start(folder: Path, *words: str, **variables: str) -> subprocess.Popen[bytes]:
        program = Path(sys.executable).with_name("drobench")
        environment = {**os.environ, "TMPDIR": str(folder), **variables}
        words = (*words, f"results={folder / 'results'}")
        with (folder / "output.txt").open("w") as output:
            command = subprocess.Popen([program, "run", *words], env=environment, stdout=output, stderr=output)
        started.append(command)
        deadline = time.monotonic() + 120.0
        while not list(folder.glob("results/.work/*/last.ckpt")) and time.monotonic() < deadline:
            assert command.poll() is None, (folder / "output.txt").read_text()
            time.sleep(0.05)
        return command

    yield start
    for command in started:
        command.kill()
        command.wait()

"""The guard of a computing process: it hands on how that has ended, and leaves nothing of it behind."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from drobench.app.guard import become_guarded
from drobench.app.sweep_server import start_server

pytestmark = pytest.mark.process
needs_proc = pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks at processes in /proc")


def guarded(act, *words, grace=1.0):
    """The program of a worker that does something under a guard."""
    become_guarded(grace)
    act(*words)


def started(act, *words, grace=1.0):
    process = start_server().Process(target=guarded, args=(act, *words), kwargs={"grace": grace})
    process.start()
    return process


def wait_for(condition, seconds=30):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()


def kill_itself(number):
    os.kill(os.getpid(), number)


@pytest.mark.parametrize(
    ("act", "word", "code"),
    [(sys.exit, 0, 0), (sys.exit, 7, 7), (os._exit, 3, 3), (kill_itself, 9, -9), (kill_itself, 11, -11)],
)
def test_the_end_of_the_child_is_handed_on(act, word, code):
    process = started(act, word)
    process.join(30)
    assert process.exitcode == code


def note_itself(file):
    score = Path("/proc/self/oom_score_adj")
    Path(file).write_text(f"{os.getpid()} {os.getppid()} {score.read_text().strip() if score.exists() else 500}")
    time.sleep(4711)


def note_and_ignore(file):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    note_itself(file)


def noted(file):
    assert wait_for(lambda: file.exists() and len(file.read_text().split()) == 3)
    return map(int, file.read_text().split())


@pytest.mark.parametrize(("act", "code"), [(note_itself, -signal.SIGTERM), (note_and_ignore, -signal.SIGKILL)])
def test_a_request_to_end_reaches_the_child_which_is_killed_if_it_does_not_listen(tmp_path, act, code):
    process = started(act, str(tmp_path / "note"))
    child, guard, score = noted(tmp_path / "note")
    assert guard == process.pid
    # The kernel chooses it, and not the sweep, when memory runs out.
    assert score == 500
    process.terminate()
    process.join(30)
    assert process.exitcode == code
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child of its parent's end")
def test_the_child_ends_with_a_killed_guard(tmp_path):
    process = started(note_itself, str(tmp_path / "note"))
    child, _, _ = noted(tmp_path / "note")
    process.kill()
    process.join(30)

    def gone():
        try:
            return Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        except (FileNotFoundError, ProcessLookupError):
            return True

    assert wait_for(gone)


def breed(number):
    """Start one process that stays in the group, and one that leaves it and whose parent is gone."""
    subprocess.Popen(["sleep", number])
    subprocess.Popen(["sh", "-c", f"setsid sleep {number} &"]).wait()
    assert wait_for(lambda: len(processes_called(f"sleep {number}")) == 2)


@needs_proc
def test_everything_that_the_child_has_started_ends_with_it():
    number = str(4_711_000_000 + os.getpid())
    process = started(breed, number)
    process.join(30)
    assert process.exitcode == 0
    assert processes_called(f"sleep {number}") == set()


@needs_proc
def test_processes_that_a_solver_has_started_end_with_its_cell(command, sweep_file, misbehaving, results):
    before = processes_called("sleep 4711")
    ended = command("sweep", sweep_file("grid: {solver: [breeding]}"), "--results", results)
    assert ended.code == 0, ended
    # Five steps have started two each.
    assert processes_called("sleep 4711") == before


def processes_called(words):
    """Return the living processes with this command line."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (entry / "cmdline").read_bytes().decode(errors="replace").replace("\0", " ").strip() == words:
                found.add(entry.name)
    return found

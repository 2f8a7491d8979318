"""What torch's launcher tells a process, and what other launchers say that is not for us."""

import os
import signal
import subprocess
import sys

import pytest

from drobench.app.ranks import STARTED_BY, started_by, told_by_launcher


@pytest.mark.parametrize(("name", "alone"), [("RANK", 0), ("LOCAL_RANK", 0), ("WORLD_SIZE", 1)])
def test_only_torchs_launcher_is_listened_to(monkeypatch, name, alone):
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    # As srun or mpirun would set it.
    monkeypatch.setenv(name, "5")
    assert told_by_launcher(name, alone) == alone
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "here")
    assert told_by_launcher(name, alone) == 5


def test_who_has_started_a_process_is_said_once(monkeypatch):
    monkeypatch.setenv(STARTED_BY, "123")
    assert started_by() == 123
    assert started_by() is None
    assert STARTED_BY not in os.environ


@pytest.mark.process
@pytest.mark.parametrize(("parent", "code"), [("os.getppid()", 0), ("os.getppid() + 1", 1), ("None", 0)])
def test_a_process_whose_parent_was_gone_before_it_asked_ends_at_once(parent, code):
    program = f"import os, signal; from drobench.app.ranks import end_with_parent as e; e(signal.SIGKILL, {parent})"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == code


@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child of its parent's end")
def test_a_process_ends_with_its_parent():
    program = """
import os, signal, time
from drobench.app.ranks import end_with_parent
parent = os.getpid()
child = os.fork()
if child == 0:
    end_with_parent(signal.SIGKILL, parent)
    print("ready", flush=True)
    time.sleep(60)
time.sleep(60)
"""
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    # The child held the other end of the pipe.
    assert process.communicate(timeout=10) == ("", None)

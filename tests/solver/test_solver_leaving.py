"""How a rank ends: with its code, after what was to be done at the end, and whatever its threads do."""

import subprocess
import sys

import pytest

PROGRAM = """
import atexit, sys, threading, time
from drobench.solver.leaving import leave
atexit.register(print, "at the end")
threading.Thread(target=time.sleep, args=(600.0,)).start()
sys.stdout.write("said, ")
leave(3)
"""


@pytest.mark.process
def test_a_rank_ends_with_its_code_after_all_is_said_and_waits_for_no_thread():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (3, "said, at the end\n", "")

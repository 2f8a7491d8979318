"""A sweep of cells with several processes, killed: nothing of it goes on, and the next one takes it up."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from drobench.results.store import ResultStore

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("breakable")]
SWEEP = """
overrides: [dataset=synthetic, dataset.rows=300, problem=kl_classification, solver=breakable, budget.passes=null,
            budget.steps=400, trainer=ddp_cpu, trainer.devices=2, trainer.checkpoint_steps=50]
grid: {seed: [0]}
"""


def sweep(folder, **variables):
    """Start the sweep in a session of its own, whose processes can be told from all others."""
    (folder / "two.yaml").write_text(SWEEP)
    program = Path(sys.executable).with_name("drobench")
    words = [program, "sweep", folder / "two.yaml", "--results", folder / "results"]
    environment = {**os.environ, "TMPDIR": str(folder), **variables}
    return subprocess.Popen(
        words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )


def members_of(session):
    found = []
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = file.read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue  # it has ended meanwhile
        if int(fields[3]) == session and fields[0] != "Z":
            found.append(file.parent.name)
    return found


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks at processes in /proc")
def test_a_killed_sweep_leaves_neither_worker_nor_launcher_nor_ranks(tmp_path, left_behind):
    first = sweep(tmp_path, BREAKABLE_STOPS_AT="250")
    try:
        end = time.monotonic() + 120
        while not list(tmp_path.glob("results/.work/*/last.ckpt")) and time.monotonic() < end:
            assert first.poll() is None, first.communicate()
            time.sleep(0.05)
        # The sweep, its fork server and its tracker, guard, worker, launcher; the ranks are sessions of their own.
        assert len(members_of(first.pid)) >= 6
        assert len(left_behind(tmp_path, seconds=0.0)) >= 4
    finally:
        os.kill(first.pid, signal.SIGKILL)
        first.communicate()
    assert left_behind(tmp_path, seconds=15.0) == {}
    end = time.monotonic() + 15
    while members_of(first.pid) and time.monotonic() < end:
        time.sleep(0.05)
    assert members_of(first.pid) == []
    assert not list(tmp_path.glob("results/*/record.json"))

    second = sweep(tmp_path)
    out, _ = second.communicate(timeout=120)
    assert second.returncode == 0, out
    assert "skipped" not in out
    (record,) = ResultStore(tmp_path / "results").records().records
    assert (record.status, record.iterates.last.step) == ("budget_spent", 400)
    assert not list(tmp_path.glob("results/.work/*"))

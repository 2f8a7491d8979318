"""A rank that fails, dies or hangs costs its cell, says why, and leaves no process behind."""

import json
import os
import signal
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from drobench.app import launching
from drobench.errors import DrobenchError
from drobench.results.record import Record
from drobench.results.store import StoreUnusable

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("breakable")]
CELL = (
    "dataset=synthetic",
    "dataset.rows=300",
    "problem=kl_classification",
    "solver=breakable",
    "budget.passes=null",
    "budget.steps=40",
    "trainer=ddp_cpu",
)


def test_a_rank_that_raises_ends_its_cell_as_failed_with_its_reason(launched, left_behind, monkeypatch):
    # The threads of the run are those of each rank, whatever the user has set for other programs.
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "7")
    record, folder = launched(*CELL, "solver.fault=raise", "trainer.threads=2")
    ended = time.time()
    assert record.status == "failed"
    assert record.reason == "rank 1: ArithmeticError: broken on purpose"
    assert ended - (folder / "broken").stat().st_mtime < 30.0
    assert left_behind(folder) == {}
    # It is recorded once, without a result, and without its temporary files.
    assert [path.parent.name for path in (folder / "results").glob("*/record.json")] == [record.run_id]
    assert record.iterates.last is None
    assert record.environment.world_size == 2
    assert not list(folder.glob("results/.work/*/ranks"))
    assert [(folder / f"threads{rank}.txt").read_text() for rank in range(2)] == [repr((2, "2", "2"))] * 2


def test_a_cell_that_hangs_is_ended_by_its_timeout_with_all_its_processes(launched, left_behind, tmp_path, monkeypatch):
    """One rank hangs, the other waits for it in an exchange: neither listens when it is asked to end."""
    broken = tmp_path / "broken"

    def clock():
        """Jump past the timeout when a rank has hung for a moment, however long the start took."""
        hangs = broken.exists() and time.time() - broken.stat().st_mtime > 0.5
        return time.monotonic() + (1000.0 if hangs else 0.0)

    monkeypatch.setattr("drobench.app.launching.time", SimpleNamespace(**{**vars(time), "monotonic": clock}))
    record, folder = launched(*CELL, "solver.fault=hang", "timeout=200", folder=tmp_path)
    ended = time.time()
    assert left_behind(folder) == {}
    assert record.status == "failed"
    assert record.reason == "timed out after 200 s"
    assert ended - broken.stat().st_mtime < 30.0
    assert not list(folder.glob("results/.work/*/ranks"))


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("exit", "rank 1: `breakable_plugin` tried to end the program (SystemExit: 0)"),
        ("vanish", "the ranks ended with code 0 without a record"),
    ],
)
def test_a_rank_that_ends_as_if_it_were_done_fails_its_cell(launched, left_behind, tmp_path, fault, reason):
    # What a killed attempt has left is no obstacle and is not taken for a result.
    record, folder = launched(*CELL, f"solver.fault={fault}", folder=tmp_path)
    stale = folder / "results" / ".work" / record.run_id / "ranks"
    stale.mkdir(parents=True)
    (stale / "recorded").touch()
    again, _ = launched(*CELL, f"solver.fault={fault}", folder=tmp_path)
    assert [(found.status, found.reason) for found in (record, again)] == [("failed", reason)] * 2
    assert left_behind(folder) == {}
    assert not stale.exists()


def test_a_full_disk_is_not_the_failure_of_a_rank(launched, left_behind, tmp_path):
    with pytest.raises(StoreUnusable, match=r"nothing can be written any more \(rank 1: OSError.*No space left"):
        launched(*CELL, "solver.fault=fill", folder=tmp_path)
    assert left_behind(tmp_path) == {}
    assert not list(tmp_path.glob("results/*/record.json"))


def test_the_timeout_covers_what_comes_before_the_ranks(launched, tmp_path, monkeypatch):
    monkeypatch.setattr("drobench.app.cell.assemble", lambda *_: time.sleep(60.0))
    record, _ = launched(*CELL, "timeout=0.5", folder=tmp_path)
    assert record.status == "failed"
    assert record.reason == "timed out after 0.5 s"


@pytest.fixture
def command(command_at_work, tmp_path):
    """A command whose ranks compute for ever."""
    return command_at_work(tmp_path, *CELL, "budget.steps=1000000000", "trainer.checkpoint_steps=1")


def rank_process(folder, rank, processes):
    """Return the process of a rank among those that work for a folder."""
    for process in processes:
        if f"\0RANK={rank}\0" in Path(f"/proc/{process}/environ").read_text():
            return process
    raise AssertionError(f"no rank {rank} at work for {folder}")


@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_is_killed_from_outside_ends_its_cell_and_is_named(command, tmp_path, left_behind, rank):
    os.kill(rank_process(tmp_path, rank, left_behind(tmp_path, seconds=0.0)), signal.SIGKILL)
    assert command.wait(timeout=30.0) == 1
    assert left_behind(tmp_path) == {}
    (file,) = tmp_path.glob("results/*/record.json")
    record = Record.from_json(file.read_text())
    assert (record.status, record.reason) == ("failed", f"rank {rank} was killed by signal 9 (SIGKILL)")


def test_an_interrupted_command_ends_its_ranks_and_itself(command, tmp_path, left_behind):
    """The signal goes to the command alone, as from a notebook or a scheduler; a terminal would send it to all."""
    command.send_signal(signal.SIGINT)
    assert command.wait(timeout=25.0) == 130
    assert "interrupted" in (tmp_path / "output.txt").read_text()
    assert left_behind(tmp_path) == {}
    assert not list(tmp_path.glob("results/*/record.json"))


@pytest.mark.parametrize(
    ("ends", "reason"),
    [
        ([(0, 1, 50), (1, -9, 50)], "rank 1 was killed by signal 9 (SIGKILL)"),
        ([(1, -11, 50), (0, -15, 51)], "rank 1 was killed by signal 11 (SIGSEGV)"),
        # Rank 1 failed, and the launcher killed rank 0, which did not listen, after the time that it had.
        ([(1, 1, 50), (0, -9, 53)], None),
        ([(1, 1, 50), (0, -15, 50)], None),
        ([(1, 1, 50), (0, -6, 51)], None),
    ],
    ids=["killed", "crashed", "ended late", "ended at once", "aborted"],
)
def test_only_a_rank_that_the_launcher_has_not_ended_itself_counts_as_killed(tmp_path, ends, reason):
    file = tmp_path / "ends.json"
    file.write_text(json.dumps([{"rank": rank, "code": code, "time": time} for rank, code, time in ends]))
    assert launching._killed(file) == reason


def test_variables_of_other_launchers_do_not_reach_the_ranks():
    theirs = {"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "there", "PET_NNODES": "3"}
    ours = {"PATH": "/bin", "SLURM_PROCID": "1", "CUDA_VISIBLE_DEVICES": "0"}
    found = launching.rank_environment({**theirs, **ours, "OMP_NUM_THREADS": "7"}, threads=3)
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "3")
    assert found == {**ours, **threads}


def test_a_run_on_several_machines_cannot_be_started_from_one(launched):
    with pytest.raises(DrobenchError, match=r"torchrun --nnodes 2 --nproc-per-node 1 .*--cfg job --resolve"):
        launched(*CELL, "trainer.nodes=2", "trainer.devices=1")

"""Ranks that a person starts with torchrun, on one machine or on several, from the configuration that Hydra prints."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch.distributed

from drobench.app import cell, one_run
from drobench.app.meeting import Meeting
from drobench.errors import DrobenchError
from drobench.results.record import Status
from drobench.results.store import ResultStore, RunBusy

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
PROGRAMS = Path(sys.executable).parent


def start(folder, *words):
    environment = {**os.environ, "TMPDIR": str(folder), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        list(map(str, words)), cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def output_of(process):
    try:
        return process.communicate(timeout=240)[0]
    finally:
        process.kill()
        process.wait()


def records(folder):
    scan = ResultStore(folder / "results").records()
    assert scan.troubles == []
    return scan.records


@pytest.fixture(scope="module")
def resolved(tmp_path_factory):
    """What the command prints for a run on two machines."""
    folder = tmp_path_factory.mktemp("printed")
    settings = ("trainer.nodes=2", "trainer.devices=1", "--cfg", "job", "--resolve")
    command = start(folder, PROGRAMS / "drobench", "run", *CELL, *settings)
    text = output_of(command)
    assert command.returncode == 0, text
    return text


@pytest.fixture(scope="module")
def two_machines(resolved, tmp_path_factory):
    """The folder in which two launchers, as on two machines, have computed one run."""
    folder = tmp_path_factory.mktemp("machines")
    (folder / "resolved.yaml").write_text(resolved)
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    words = ["--nnodes", 2, "--nproc-per-node", 1, "--rdzv-backend", "c10d", "--rdzv-endpoint", f"localhost:{port}"]
    command = [PROGRAMS / "torchrun", *words, "-m", "drobench.app.one_run", "resolved.yaml"]
    launchers = [start(folder, *command) for _ in range(2)]
    for launcher in launchers:
        text = output_of(launcher)
        assert launcher.returncode == 0, text
    return folder


def test_two_machines_write_one_record_of_what_one_process_finds(two_machines, launched):
    (record,) = records(two_machines)
    alone, _ = launched(*CELL, "trainer.devices=1")
    assert (record.status, record.reason) == ("budget_spent", "steps 40 of 40")
    assert record.environment.world_size == 2
    assert (record.trainer["nodes"], record.trainer["devices"]) == (2, 1)
    assert record.iterates.last.objective == pytest.approx(alone.iterates.last.objective, rel=0, abs=1e-12)
    assert record.oracle == alone.oracle
    assert record.communication.rounds == 40


def test_ranks_started_by_hand_look_for_the_optimum_once(two_machines):
    """Every reference solver is asked in turn, and one of them counts."""
    assert len((two_machines / "asked.txt").read_text().split()) == 1
    (record,) = records(two_machines)
    assert record.optimum.method == "exact_convex"
    assert record.iterates.last.gap == pytest.approx(record.iterates.last.objective - record.optimum.value, abs=1e-15)


def test_a_run_by_hand_is_the_run_that_the_command_would_compute(two_machines, launched, monkeypatch):
    """Two machines with one process each, or one with two: the same run, which need not be computed again."""
    monkeypatch.setattr(cell, "start_ranks", None)
    (record,) = records(two_machines)
    again, _ = launched(*CELL, "trainer.devices=2", folder=two_machines)
    assert again == record


def test_a_rank_that_fails_is_recorded_by_the_first(resolved, tmp_path, left_behind):
    text = resolved.replace("nodes: 2", "nodes: 1").replace("devices: 1", "devices: 2")
    (tmp_path / "resolved.yaml").write_text(text.replace("fault: none", "fault: raise"))
    words = ["--standalone", "--nproc-per-node", 2, "-m", "drobench.app.one_run", tmp_path / "resolved.yaml"]
    launcher = start(tmp_path, PROGRAMS / "torchrun", *words)
    text = output_of(launcher)
    assert launcher.returncode == 1, text
    (record,) = records(tmp_path)
    assert (record.status, record.reason) == ("failed", "rank 1: ArithmeticError: broken on purpose"), text
    assert left_behind(tmp_path) == {}


class FakeMeeting:
    """The meeting of two ranks, one of which is this process."""

    def __init__(self, rank=0, word=None):
        self.rank = rank
        self.word = word
        self.over = False

    def tell(self, word):
        self.word = word
        self.over = True

    def answer(self, run_id):
        return self.word


class MeetingOf(Meeting):
    """The meeting of two ranks over a store that is given."""

    def __init__(self, store, rank):
        self.rank, self.size, self.over, self._store = rank, 2, False, store


@pytest.fixture
def meet(monkeypatch):
    """Make this process a rank of two that were started by hand."""

    def arrange(meeting):
        monkeypatch.setenv("TORCHELASTIC_RUN_ID", "here")
        monkeypatch.setenv("WORLD_SIZE", "2")
        monkeypatch.setenv("RANK", str(meeting.rank))
        monkeypatch.setenv("LOCAL_RANK", str(meeting.rank))
        monkeypatch.setattr(one_run, "Meeting", lambda: meeting)
        return meeting

    return arrange


def test_a_finished_run_is_left_alone_and_the_others_are_sent_home(two_machines, meet, monkeypatch, capsys):
    monkeypatch.chdir(two_machines)
    (before,) = records(two_machines)
    meeting = meet(FakeMeeting())
    assert one_run.be_rank(two_machines / "resolved.yaml") == before
    assert meeting.word == {"end": 0}
    assert f"run {before.short_id} ended as budget_spent before" in capsys.readouterr().out


def test_a_run_that_somebody_computes_is_refused_by_all_ranks(two_machines, resolved, meet, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "resolved.yaml").write_text(resolved)
    (record,) = records(two_machines)
    meeting = meet(FakeMeeting())
    with ResultStore(tmp_path / "results").lock(record.run_id), pytest.raises(RunBusy, match="another process"):
        one_run.be_rank(tmp_path / "resolved.yaml")
    assert meeting.word == {"end": DrobenchError.exit_code}
    assert records(tmp_path) == []


def test_a_run_that_fails_before_it_starts_is_recorded_and_the_others_are_sent_home(
    resolved, meet, tmp_path, monkeypatch
):
    def fail(*_):
        raise ArithmeticError("no problem today")

    monkeypatch.chdir(tmp_path)
    (tmp_path / "resolved.yaml").write_text(resolved)
    monkeypatch.setattr(cell, "assemble", fail)
    meeting = meet(FakeMeeting())
    record = one_run.be_rank(tmp_path / "resolved.yaml")
    assert (record.status, record.reason) == ("failed", "ArithmeticError: no problem today")
    assert records(tmp_path) == [record]
    assert meeting.word == {"end": 1}


def test_ranks_with_other_data_or_other_plugins_are_found_before_they_compute():
    """Two meetings in one process, over a store of their own."""
    store = torch.distributed.HashStore()
    first, second = (MeetingOf(store, rank) for rank in range(2))
    first.tell({"end": 1})
    assert second.answer("b" * 64) == {"end": 1}
    first.check("b" * 64)
    with pytest.raises(DrobenchError, match=r"Rank 1 would compute run b{12}, and rank 0 run a{12}"):
        first.check("a" * 64)


@pytest.mark.parametrize("code", [0, 2])
def test_a_rank_that_is_sent_home_ends_with_the_code_it_is_told(resolved, meet, tmp_path, code):
    (tmp_path / "resolved.yaml").write_text(resolved)
    meet(FakeMeeting(rank=1, word={"end": code}))
    with pytest.raises(SystemExit) as ended:
        one_run.be_rank(tmp_path / "resolved.yaml")
    assert ended.value.code == code


def test_a_configuration_for_two_is_refused_by_one(resolved, tmp_path):
    (tmp_path / "resolved.yaml").write_text(resolved)
    with pytest.raises(DrobenchError, match=r"for 2 processes .*found 1\. Start `torchrun --nnodes 2"):
        one_run.be_rank(tmp_path / "resolved.yaml")


def test_a_configuration_for_one_is_computed_by_one(resolved, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "resolved.yaml").write_text(resolved.replace("nodes: 2", "nodes: 1"))
    record = one_run.be_rank(tmp_path / "resolved.yaml")
    assert record.status is Status.BUDGET_SPENT
    assert records(tmp_path) == [record]

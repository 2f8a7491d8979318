"""A rank that fails, dies or hangs costs its cell, says why, and leaves no process behind."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

PLUGIN = '''
"""A solver that breaks on rank 1 in the step it is told to."""

import os
import signal
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from drobench import SolverEntry, hookimpl
from drobench.objective.forms import FiniteSum
from drobench.solver import Communicator, Solver


@dataclass
class BreakableConfig:
    fault: str = "none"
    at_step: int = 5


@dataclass(frozen=True)
class BreakableState:
    point: Tensor
    steps: int


class Breakable(Solver[BreakableState]):
    def __init__(self, config: BreakableConfig) -> None:
        self.config = config

    def init(self, start: Tensor, oracle, communicator: Communicator) -> BreakableState:
        return BreakableState(start, 0)

    def step(self, state: BreakableState, oracle, communicator: Communicator) -> BreakableState:
        if os.environ.get("RANK") == "1" and state.steps + 1 == self.config.at_step:
            self.break_down()
        rows = oracle.draw(8)
        _, gradients = oracle.estimate(state.point[None], rows)
        (gradient,) = communicator.total([gradients[0] * rows.sample_share])
        return BreakableState(oracle.prox(state.point - 0.1 * gradient, 0.1), state.steps + 1)

    def break_down(self) -> None:
        Path(tempfile.gettempdir(), "broken").touch()
        if self.config.fault == "raise":
            raise ArithmeticError("broken on purpose")
        if self.config.fault == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        while self.config.fault == "hang":
            time.sleep(0.1)

    def solution(self, state: BreakableState) -> Tensor:
        return state.point


@hookimpl
def drobench_solvers() -> list[SolverEntry]:
    return [
        SolverEntry(
            name="breakable",
            summary="Breaks on request.",
            config=BreakableConfig,
            factory=Breakable,
            accepts=(FiniteSum,),
        )
    ]
'''
CELL = (
    "dataset=synthetic",
    "dataset.rows=300",
    "problem=kl_classification",
    "solver=breakable",
    "budget.passes=null",
    "budget.steps=40",
    "trainer=ddp_cpu",
)


@pytest.fixture(scope="module", autouse=True)
def _breakable_is_installed(tmp_path_factory):
    """Put a package that looks installed on the path of this process and of all that it starts."""
    from hydra.core.config_store import ConfigStore

    from drobench.registry import load_catalogue

    site = tmp_path_factory.mktemp("site")
    (site / "breakable_plugin.py").write_text(PLUGIN)
    metadata = site / "breakable-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: breakable\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[drobench]\nbreakable = breakable_plugin\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(site)
        inherited = os.environ.get("PYTHONPATH")
        patch.setenv("PYTHONPATH", os.pathsep.join([str(site), *([inherited] if inherited else [])]))
        load_catalogue.cache_clear()
        assert "breakable" in load_catalogue().solvers
        yield
    sys.modules.pop("breakable_plugin", None)
    ConfigStore.instance().repo.get("solver", {}).pop("breakable.yaml", None)
    load_catalogue.cache_clear()


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("raise", r"^rank 1: ArithmeticError: broken on purpose$"),
        # A rank that is killed cannot say why; the other one, or the launcher, notices that it is gone.
        ("die", r"(?i)^rank 0: .*(closed|reset|peer)|SIGKILL"),
    ],
    ids=["raise", "die"],
)
def test_a_rank_that_breaks_ends_its_cell_as_failed(launched, left_behind, fault, reason):
    record, folder = launched(*CELL, f"solver.fault={fault}")
    ended = time.time()
    assert record.status == "failed"
    assert record.reason is not None
    assert re.search(reason, record.reason), record.reason
    assert ended - (folder / "broken").stat().st_mtime < 60.0
    assert left_behind(folder) == {}
    # It is recorded once, without a result, and without its temporary files.
    assert [path.parent.name for path in (folder / "results").glob("*/record.json")] == [record.run_id]
    assert record.iterates.last is None
    assert record.environment.world_size == 2
    assert not list(folder.glob("drobench-*"))


def test_a_cell_that_hangs_is_ended_by_its_timeout_with_all_its_processes(launched, left_behind, tmp_path, monkeypatch):
    """One rank hangs, the other waits for it in an exchange: neither listens when it is asked to end."""
    broken = tmp_path / "broken"

    def clock():
        """Jump past the timeout when a rank has hung for a moment, however long the start took."""
        hangs = broken.exists() and time.time() - broken.stat().st_mtime > 0.5
        return time.monotonic() + (1000.0 if hangs else 0.0)

    monkeypatch.setattr("drobench.app.one_run.time", SimpleNamespace(**{**vars(time), "monotonic": clock}))
    record, folder = launched(*CELL, "solver.fault=hang", "timeout=200", folder=tmp_path)
    ended = time.time()
    assert left_behind(folder) == {}
    assert record.status == "failed"
    assert record.reason == "timed out after 200 s"
    assert ended - broken.stat().st_mtime < 30.0
    assert not list(folder.glob("drobench-*"))


def test_the_timeout_covers_what_comes_before_the_ranks(launched, tmp_path, monkeypatch):
    monkeypatch.setattr("drobench.app.one_run.assemble", lambda *_: time.sleep(60.0))
    record, _ = launched(*CELL, "timeout=0.5", folder=tmp_path)
    assert record.status == "failed"
    assert record.reason == "timed out after 0.5 s"


@pytest.fixture
def command_at_work(tmp_path):
    """A command whose ranks compute for ever, in a process of its own; a checkpoint shows that they do."""
    program = Path(sys.executable).with_name("drobench")
    words = [*CELL, "budget.steps=1000000000", "trainer.checkpoint_steps=1", f"results={tmp_path / 'results'}"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with (tmp_path / "output.txt").open("w") as output:
        command = subprocess.Popen([program, "run", *words], env=environment, stdout=output, stderr=output)
    try:
        deadline = time.monotonic() + 120.0
        while not list(tmp_path.glob("results/.work/*/last.ckpt")) and time.monotonic() < deadline:
            assert command.poll() is None, (tmp_path / "output.txt").read_text()
            time.sleep(0.05)
        yield command
    finally:
        command.kill()
        command.wait()


def test_a_killed_command_leaves_no_process_behind(command_at_work, tmp_path, left_behind):
    """Nobody is there any more to end launcher and ranks, so they have to do it themselves."""
    # The command, the launcher, and its two ranks.
    assert len(left_behind(tmp_path, seconds=0.0)) == 4
    command_at_work.kill()
    command_at_work.wait()
    assert left_behind(tmp_path, seconds=30.0) == {}
    assert not list(tmp_path.glob("results/*/record.json"))


def test_an_interrupted_command_ends_its_ranks_and_itself(command_at_work, tmp_path, left_behind):
    """The signal goes to the command alone, as from a notebook or a scheduler; a terminal would send it to all."""
    command_at_work.send_signal(signal.SIGINT)
    assert command_at_work.wait(timeout=25.0) == 130
    assert "interrupted" in (tmp_path / "output.txt").read_text()
    assert left_behind(tmp_path) == {}
    assert not list(tmp_path.glob("results/*/record.json"))

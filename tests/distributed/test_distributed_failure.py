"""A rank that fails, dies or hangs costs its cell, says why, and leaves no process behind."""

import os
import re
import sys

import pytest

PLUGIN = '''
"""A solver that breaks on rank 1 in the step it is told to."""

import os
import signal
import time
from dataclasses import dataclass

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
    ConfigStore.instance().repo["solver"].pop("breakable.yaml")
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
    record, folder, seconds = launched(*CELL, f"solver.fault={fault}")
    assert record.status == "failed"
    assert record.reason is not None
    assert re.search(reason, record.reason), record.reason
    assert seconds < 60.0
    assert left_behind(folder) == {}
    # It is recorded once, without a result, and without its temporary files.
    assert [path.parent.name for path in (folder / "results").glob("*/record.json")] == [record.run_id]
    assert record.iterates.last is None
    assert record.environment.world_size == 2
    assert not list(folder.glob("drobench-*"))


def test_a_cell_that_hangs_is_ended_by_its_timeout_with_all_its_processes(launched, left_behind):
    """Long enough for the ranks to be at work, which is when they are hardest to end."""
    record, folder, seconds = launched(*CELL, "solver.fault=hang", "timeout=20")
    assert left_behind(folder) == {}
    assert record.status == "failed"
    assert record.reason == "timed out after 20 s"
    assert 20.0 <= seconds < 80.0

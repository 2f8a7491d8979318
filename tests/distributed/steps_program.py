"""What every rank of the tests of ends does: run tasks under Lightning and note in which steps something happened.

    python -m torch.distributed.run --standalone --nproc-per-node N steps_program.py FOLDER NAME...

Also imported by the tests, which run the same tasks in one process.
"""

import sys
import time
import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import rank_program
import torch
import torch.distributed
from rank_program import GROUPS, Case

from drobench.errors import DrobenchError
from drobench.objective.forms import Constrained, FiniteSum
from drobench.objective.oracles.build import build_oracle
from drobench.objective.sampling import Rows
from drobench.reformulation.reformulation import ReformulationConfig
from drobench.solver.communicator import Communicator
from drobench.solver.leaving import leave
from drobench.training.run_log import RunLog
from drobench.training.settings import TrainerConfig
from drobench.training.solver_module import SolverModule
from drobench.training.trainer import train as train_task
from drobench_plugins.solvers.dist_gcivr import DistGcivr, DistGcivrConfig
from drobench_plugins.solvers.gcivr import Gcivr
from drobench_plugins.solvers.heavily_constrained import HeavilyConstrained, HeavilyConstrainedConfig
from drobench_plugins.solvers.pieces.gcivr_config import GcivrConfig
from drobench_plugins.solvers.unconstrained import Unconstrained, UnconstrainedConfig


class OwnRows(Unconstrained):
    """Makes its rows itself, a number of them that differs from step to step, and says of itself what is its part."""

    says: int | None = None

    def step(self, state: Any, oracle: Any, communicator: Communicator) -> Any:
        numbers = torch.arange(1 + state.steps % 7)
        first, last = oracle.shard.bounds(len(numbers))
        rows = Rows(numbers[first:last], sample_share=(last - first) / len(numbers), drawn_samples=self.says)
        gradient = oracle.estimate(state.point[None], rows)[1][0]
        (gradient,) = communicator.total([rows.sample_share * gradient])
        return replace(state, point=state.point - 0.1 * gradient, steps=state.steps + 1)


class WrongRows(OwnRows):
    """Says of its rows that they are three, which mostly they are not."""

    says = 3


class SlowOnRankOne(Unconstrained):
    """Asks nobody and exchanges nothing; a step takes one of the ranks its time."""

    def step(self, state: Any, oracle: Any, communicator: Communicator) -> Any:
        time.sleep(0.05 * communicator.rank)
        return state


class Run(NamedTuple):
    """A case, and how it is run."""

    case: Case
    limits: dict[str, Any]
    checkpoint_steps: int | None = None
    stage_passes: float = 1.0


STEADY = {"step_size": 0.05, "epoch_length": 40, "monotone": False}
STAGED = ReformulationConfig(continuation=[0.3, 0.1, 0.03])
CLIENTS = Case(DistGcivr(DistGcivrConfig(clients=4)))
OWN = Case(OwnRows(UnconstrainedConfig()), form=FiniteSum)
MODEL = HeavilyConstrained(HeavilyConstrainedConfig(batch=50, constraint_batch=7, constraint_order="cyclic"))
RUNS = {
    "clients": Run(CLIENTS, {"passes": 10}),
    "clients_saved": Run(CLIENTS, {"passes": 10}, checkpoint_steps=37),
    # Begun by somebody else, whose checkpoint is there.
    "clients_continued": Run(CLIENTS, {"passes": 10}),
    "gcivr": Run(Case(Gcivr(GcivrConfig(batch=11, **STEADY))), {"passes": 6.5}),
    "gcivr_calls": Run(Case(Gcivr(GcivrConfig(batch=11, **STEADY))), {"oracle_calls": 3210}),
    "groups_pooled": Run(
        Case(DistGcivr(DistGcivrConfig(clients=4, **STEADY)), GROUPS, reformulation=rank_program.WIDE), {"passes": 3}
    ),
    "multiplier_model": Run(Case(MODEL, GROUPS, form=Constrained), {"oracle_calls": 3333}),
    "stages": Run(
        Case(Gcivr(GcivrConfig(batch=11, **STEADY)), "cvar_classification", reformulation=STAGED),
        {"passes": 7},
        stage_passes=2.3,
    ),
    "own_rows": Run(OWN, {"passes": 1.3}),
    "wrong_rows": Run(Case(WrongRows(UnconstrainedConfig()), form=FiniteSum), {"passes": 3}),
    "slow": Run(Case(SlowOnRankOne(UnconstrainedConfig()), form=FiniteSum), {"seconds": 0.6}),
}


def compute(name: str, folder: Path, processes: int) -> dict[str, Any]:
    """Return what this rank of a run ends with."""
    run = RUNS[name]
    folder.mkdir(parents=True, exist_ok=True)
    task, (route, start) = rank_program.task(run.case, **run.limits), rank_program.prepare(run.case)
    stages = [partial(build_oracle, form, 7, start) for form in route.stages]
    entered: list[int] = []
    next_stage = SolverModule._next_stage

    def enter(module: SolverModule, point: Any) -> None:
        entered.append(module.steps)
        next_stage(module, point)

    task = replace(task, build_oracles=stages, stage_passes=run.stage_passes)
    config = TrainerConfig(
        name="ddp_cpu" if processes > 1 else "cpu",
        devices=processes,
        checkpoint_seconds=None,
        checkpoint_steps=run.checkpoint_steps,
    )
    try:
        with patch.object(SolverModule, "_next_stage", enter):
            module = train_task(task, config, RunLog(), folder)
    except DrobenchError as error:
        return {"error": str(error)}
    assert module.verdict is not None
    return {
        "steps": module.steps,
        "reason": module.verdict.reason,
        "curve": module.curve,
        "counts": module.counts(),
        "entered": entered,
        "seconds": module.clock.seconds["solver"],
        "point": module.final["last"][1],
    }


def main() -> None:
    """Be one rank."""
    warnings.simplefilter("error")
    folder, *names = sys.argv[1:]
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    rank, world = torch.distributed.get_rank(), torch.distributed.get_world_size()
    found = {name: compute(name, Path(folder) / name, world) for name in names}
    torch.save(found, Path(folder) / f"steps{rank}.pt")
    leave()


if __name__ == "__main__":
    main()

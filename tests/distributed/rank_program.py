"""What every rank of the tests does: run some solvers side by side and write down where they got to.

    python -m torch.distributed.run --standalone --nproc-per-node N rank_program.py FOLDER [lightning]

Also imported by the tests, which run the same solvers in one process.
"""

import sys
import warnings
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed
from torch import Tensor

from drobench.objective.composite import Composite
from drobench.objective.forms import FiniteSum
from drobench.objective.oracle import CompositeOracle, Shard, build_oracle
from drobench.objective.predictor import ModelConfig
from drobench.reformulation.reformulation import ReformulationConfig
from drobench.reformulation.routes import find_route
from drobench.registry import load_catalogue
from drobench.solver.communicator import Communicator, ProcessGroup
from drobench.solver.solver import Solver
from drobench_plugins.solvers.gcivr import Gcivr, GcivrConfig
from drobench_plugins.solvers.scgd import Scgd, ScgdConfig
from drobench_plugins.solvers.unconstrained import Unconstrained, UnconstrainedConfig

ROWS, FEATURES = 600, 5


class Case(NamedTuple):
    """A solver, the price of the adversary, and how long to run."""

    solver: Solver[Any]
    gamma: float = 1.0
    steps: int = 150


CASES = {
    "gcivr": Case(Gcivr(GcivrConfig())),
    "gcivr_fixed": Case(Gcivr(GcivrConfig(step_size=1.0, epoch_length=30, batch=10))),
    "gcivr_random": Case(Gcivr(GcivrConfig(output="random", average=True))),
    "gcivr_one_row": Case(Gcivr(GcivrConfig(step_size=0.2, batch=1))),
    "gcivr_repeated_rows": Case(Gcivr(GcivrConfig(step_size=0.5, batch=12, refresh_batch=200, replacement=True))),
    # Exponents above 500 within an epoch: the ranks must agree on a higher shift.
    "gcivr_raised": Case(Gcivr(GcivrConfig(step_size=3.0, monotone=False, epoch_length=5)), gamma=1e-3, steps=12),
    "scgd": Case(Scgd(ScgdConfig())),
    "scgd_one_row": Case(Scgd(ScgdConfig(step_size=0.2, batch=1))),
    "adagrad": Case(Unconstrained(UnconstrainedConfig(batch=32))),
    "adam_all_rows": Case(Unconstrained(UnconstrainedConfig(optimizer="adam"))),
    "sgd_one_row": Case(Unconstrained(UnconstrainedConfig(optimizer="sgd", batch=1))),
}


def problem(gamma: float = 1.0) -> Any:
    """Return the KL problem that all cases solve."""
    catalogue = load_catalogue()
    data, kl = catalogue.dataset("synthetic").entry, catalogue.problem("kl_classification").entry
    rows = data.factory(data.config(rows=ROWS, features=FEATURES))
    return kl.factory(kl.config(gamma=gamma), rows, ModelConfig(intercept=False))


def oracle_of(solver: Solver[Any], gamma: float, shard: Shard) -> Any:
    """Return a fresh oracle of the form the solver accepts."""
    kind = FiniteSum if isinstance(solver, Unconstrained) else Composite
    native = problem(gamma)
    form = find_route(native.form, (kind,), ReformulationConfig()).form
    return build_oracle(form, 7, native.start(torch.Generator().manual_seed(0)), shard)


def count_estimates(oracle: Any) -> Counter[str]:
    """Return a count, kept up to date, of what a solver asks: refreshes, advances, and advances that overflowed."""
    asked: Counter[str] = Counter()
    original = oracle.estimate

    def estimate(points: Tensor, rows: Any, shift: Tensor | None = None) -> Any:
        found = original(points, rows, shift)
        kind = "advances" if points.shape[0] == 2 else "refreshes"
        asked[kind] += 1
        asked["raised"] += kind == "advances" and found.shift is not shift
        return found

    if isinstance(oracle, CompositeOracle):
        oracle.estimate = estimate
    return asked


@torch.no_grad()
def run_case(case: Case, shard: Shard, communicator: Communicator) -> dict[str, Any]:
    """Return what one rank of a case ends with, as plain values."""
    solver, oracle = case.solver, oracle_of(case.solver, case.gamma, shard)
    asked = count_estimates(oracle)
    state = solver.init(torch.zeros(FEATURES, dtype=torch.float64), oracle, communicator)
    asked.clear()
    begun = {"calls": oracle.counters.sample_calls, "rounds": communicator.rounds, "bytes": communicator.bytes}
    for _ in range(case.steps):
        state = solver.step(state, oracle, communicator)
    return {
        "point": solver.solution(state),
        "average": solver.average(state),
        "epochs": getattr(state, "epoch", 0),
        "asked": dict(asked),
        "calls": oracle.counters.sample_calls,
        "generator": oracle.state_dict()["generator"],
        "rounds": communicator.rounds,
        "bytes": communicator.bytes,
        "begun": begun,
    }


def task(**limits: Any) -> Any:
    """Return a run for Lightning whose result has to be projected at the end."""
    from drobench.training.budget import BudgetConfig
    from drobench.training.evaluation import EvaluationConfig
    from drobench.training.solver_module import Task

    solver = Gcivr(GcivrConfig(output="random", average=True))
    return Task(
        problem=problem(),
        solver=solver,
        build_oracles=[partial(oracle_of, solver, 1.0)],
        stage_passes=1.0,
        start=torch.zeros(FEATURES, dtype=torch.float64),
        recover=lambda point: point,
        projects=True,
        budget=BudgetConfig(**limits),
        evaluation=EvaluationConfig(),
        optimum=None,
    )


def train(folder: Path, *, processes: int, checkpoint_steps: int | None = None, **limits: Any) -> dict[str, Any]:
    """Return what this rank of a run under Lightning ends with."""
    from drobench.training.settings import LoggerConfig, TrainerConfig
    from drobench.training.trainer import train as train_task

    folder.mkdir(parents=True, exist_ok=True)
    name = "ddp_cpu" if processes > 1 else "cpu"
    config = TrainerConfig(name=name, devices=processes, checkpoint_seconds=None, checkpoint_steps=checkpoint_steps)
    module = train_task(task(**limits), config, LoggerConfig(), folder, folder / "log")
    assert module.verdict is not None
    return {
        "points": {name: point for name, (_, point) in module.final.items()},
        "curve": module.curve,
        "counts": module.counts(),
        "local_calls": module.oracle.counters.sample_calls,
        "oracle": module.oracle.state_dict(),
        "steps": module.steps,
        "reason": module.verdict.reason,
        "global_step": module.trainer.global_step,
    }


def train_all(folder: Path) -> dict[str, Any]:
    """Run straight, interrupted and resumed, and by passes."""
    resumed = folder / "resumed"
    return {
        "straight": train(folder / "straight", processes=2, steps=300),
        "interrupted": train(resumed, processes=2, steps=140, checkpoint_steps=40),
        "resumed": train(resumed, processes=2, steps=300),
        "passes": train(folder / "passes", processes=2, passes=6),
    }


def main() -> None:
    """Be one rank."""
    warnings.simplefilter("error")
    folder, *parts = sys.argv[1:]
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    rank, world = torch.distributed.get_rank(), torch.distributed.get_world_size()
    found = {name: run_case(case, Shard(rank, world), ProcessGroup()) for name, case in CASES.items()}
    torch.save(found, Path(folder) / f"rank{rank}.pt")
    if "lightning" in parts:
        torch.save(train_all(Path(folder)), Path(folder) / f"lightning{rank}.pt")
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()

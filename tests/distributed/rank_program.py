"""What every rank of the tests does: run some solvers side by side and write down where they got to.

    python -m torch.distributed.run --standalone --nproc-per-node N rank_program.py FOLDER [lightning]

Also imported by the tests, which run the same solvers in one process.
"""

import sys
import time
import warnings
from collections import Counter
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
import torch.distributed
from torch import Tensor

from drobench.objective.composite import Composite
from drobench.objective.forms import Constrained, FiniteSum
from drobench.objective.oracles.build import build_oracle
from drobench.objective.oracles.composite import CompositeOracle
from drobench.objective.predictor import ModelConfig
from drobench.objective.sampling import Shard
from drobench.reformulation.reformulation import ReformulationConfig
from drobench.reformulation.routes import find_route
from drobench.registry import load_catalogue
from drobench.solver.communicator import Communicator, ProcessGroup
from drobench.solver.leaving import leave
from drobench.solver.solver import Solver
from drobench_plugins.solvers.dist_gcivr import DistGcivr, DistGcivrConfig
from drobench_plugins.solvers.gcivr import Gcivr
from drobench_plugins.solvers.heavily_constrained import HeavilyConstrained, HeavilyConstrainedConfig
from drobench_plugins.solvers.lagrangian import Lagrangian, LagrangianConfig
from drobench_plugins.solvers.pieces.gcivr_config import GcivrConfig
from drobench_plugins.solvers.scgd import Scgd, ScgdConfig
from drobench_plugins.solvers.unconstrained import Unconstrained, UnconstrainedConfig

ROWS, FEATURES = 600, 5


class Case(NamedTuple):
    """A solver, what it solves, and how long it runs."""

    solver: Solver[Any]
    problem: str = "kl_classification"
    settings: Mapping[str, Any] = MappingProxyType({})
    reformulation: ReformulationConfig = ReformulationConfig()
    steps: int = 150
    form: type = Composite


def steady(batch: int = 12) -> Gcivr:
    """Return GCIVR with a short step that no rounding error can change."""
    return Gcivr(GcivrConfig(step_size=0.02, epoch_length=30, batch=batch, monotone=False))


# Few communities, so that the groups of the twin are small and many.
GROUPS = "intersectional_fairness"
WIDE = ReformulationConfig(gamma=0.3)
SHORT = {"step_size": 0.02, "epoch_length": 30, "monotone": False}


def _clients(batch: int = 12, **settings: Any) -> DistGcivr:
    """Return DistGCIVR with five clients of unequal size, more than there are processes."""
    settings = {"shards": [5.0, 1.0, 2.0, 1.5, 2.5], **SHORT, **settings}
    return DistGcivr(DistGcivrConfig(batch=batch, **settings))


CASES = {
    "gcivr": Case(Gcivr(GcivrConfig())),
    "gcivr_fixed": Case(Gcivr(GcivrConfig(step_size=1.0, epoch_length=30, batch=10))),
    "gcivr_random": Case(Gcivr(GcivrConfig(output="random", average=True))),
    "gcivr_one_row": Case(Gcivr(GcivrConfig(step_size=0.2, batch=1))),
    "gcivr_repeated_rows": Case(Gcivr(GcivrConfig(step_size=0.5, batch=12, refresh_batch=200, replacement=True))),
    # Exponents above 500 within an epoch: the ranks must agree on a higher shift.
    "gcivr_raised": Case(
        Gcivr(GcivrConfig(step_size=3.0, monotone=False, epoch_length=5)), settings={"gamma": 1e-3}, steps=12
    ),
    # Other ways to a composite: with further variables, projections, and constraints instead of samples.
    "kl_ball": Case(steady(), settings={"variant": "ball"}),
    "kl_ball_one_row": Case(steady(batch=1), settings={"variant": "ball"}),
    "chi2_variance": Case(steady(), "chi2_classification", {"variant": "variance"}),
    "chi2_variance_one_row": Case(steady(batch=1), "chi2_classification", {"variant": "variance"}),
    "chi2_exact": Case(steady(), "chi2_classification", {"variant": "exact"}),
    "chi2_ball": Case(steady(), "chi2_classification", {"variant": "ball"}),
    # A wide hinge: a narrow one turns rounding errors into 1e-9.
    "cvar": Case(steady(), "cvar_classification", reformulation=ReformulationConfig(gamma=0.3)),
    "wasserstein": Case(steady(), "wasserstein_logistic"),
    "wasserstein_literal": Case(
        steady(), "wasserstein_logistic", reformulation=ReformulationConfig(wasserstein="literal")
    ),
    "wasserstein_literal_one_row": Case(
        steady(batch=1), "wasserstein_logistic", reformulation=ReformulationConfig(wasserstein="literal")
    ),
    "scgd": Case(Scgd(ScgdConfig())),
    "scgd_one_row": Case(Scgd(ScgdConfig(step_size=0.2, batch=1))),
    "adagrad": Case(Unconstrained(UnconstrainedConfig(batch=32)), form=FiniteSum),
    "adam_all_rows": Case(Unconstrained(UnconstrainedConfig(optimizer="adam")), form=FiniteSum),
    "sgd_one_row": Case(Unconstrained(UnconstrainedConfig(optimizer="sgd", batch=1)), form=FiniteSum),
    # Clients: their number and sizes, not the number of processes, decide what is computed.
    "clients_global": Case(_clients(sampling="global")),
    "clients_local": Case(_clients()),
    "clients_local_one_row": Case(_clients(batch=1)),
    "clients_paper": Case(_clients(local_batch="paper", replacement=True)),
    "clients_paper_global": Case(_clients(local_batch="paper", sampling="global")),
    "clients_refresh": Case(_clients(refresh_batch=200)),
    "clients_kl_ball": Case(_clients(), settings={"variant": "ball"}),
    "clients_chi2": Case(_clients(), "chi2_classification", {"variant": "variance"}),
    "clients_wasserstein": Case(_clients(), "wasserstein_logistic"),
    "clients_raised": Case(_clients(step_size=3.0, epoch_length=5), settings={"gamma": 1e-3}, steps=12),
    # Constraints on the rates of groups, by sums over everybody's rows and by parts of the constraints.
    "groups": Case(Gcivr(GcivrConfig(batch=12, **SHORT)), GROUPS, reformulation=WIDE, steps=90),
    "groups_pooled": Case(_clients(), GROUPS, reformulation=WIDE, steps=90),
    "groups_pooled_global": Case(_clients(sampling="global"), GROUPS, reformulation=WIDE, steps=90),
    "groups_replicated": Case(_clients(constraint_sums="replicated"), GROUPS, reformulation=WIDE, steps=90),
    # A shorter step, which no epoch has to end early for: at a kink rounding errors would become 1e-9.
    "groups_hinge": Case(_clients(step_size=0.002), GROUPS, {"surrogate": "hinge"}, WIDE, steps=90),
    "multiplier_model": Case(
        HeavilyConstrained(HeavilyConstrainedConfig(batch=50, constraint_batch=7)), GROUPS, form=Constrained
    ),
    "multipliers": Case(Lagrangian(LagrangianConfig(constraint_batch=7)), GROUPS, form=Constrained),
}


def problem_of(case: Case) -> Any:
    """Return the problem of a case, always on the same rows."""
    catalogue = load_catalogue()
    kind = catalogue.problem(case.problem).entry
    if case.problem == GROUPS:
        data = catalogue.dataset("communities_twin").entry
        rows = data.factory(data.config())
    else:
        data = catalogue.dataset("synthetic").entry
        rows = data.factory(data.config(rows=ROWS, features=FEATURES))
    return kind.factory(kind.config(**case.settings), rows, ModelConfig(intercept=False))


def prepare(case: Case) -> tuple[Any, Tensor]:
    """Return the route to the form that the case's solver works on, and its start there."""
    native = problem_of(case)
    route = find_route(native.form, (case.form,), case.reformulation)
    return route, route.lift(native.start(torch.Generator().manual_seed(0)))


def count_estimates(oracle: Any) -> Counter[str]:
    """Return a count, kept up to date, of what a solver asks: refreshes, advances, and advances that overflowed."""
    asked: Counter[str] = Counter()
    if not isinstance(oracle, CompositeOracle):
        return asked
    refresh, advance = oracle.estimate, oracle.change

    def estimate(points: Tensor, rows: Any, shift: Tensor | None = None, *pooling: Any) -> Any:
        asked["refreshes"] += 1
        return refresh(points, rows, shift, *pooling)

    def change(points: Tensor, rows: Any, shift: Tensor, *pooling: Any) -> Any:
        found = advance(points, rows, shift, *pooling)
        asked["advances"] += 1
        asked["raised"] += found.shift is not shift
        return found

    oracle.estimate, oracle.change = estimate, change  # type: ignore[method-assign]
    return asked


@torch.no_grad()
def run_case(case: Case, shard: Shard, communicator: Communicator) -> dict[str, Any]:
    """Return what one rank of a case ends with, as plain values."""
    solver, (route, start) = case.solver, prepare(case)
    oracle = build_oracle(route.form, 7, start, shard)
    asked = count_estimates(oracle)
    state = solver.init(start, oracle, communicator)
    asked.clear()
    interrupted = 0
    begun = {"calls": oracle.counters.sample_calls, "rounds": communicator.rounds, "bytes": communicator.bytes}
    for _ in range(case.steps):
        before = state
        state = solver.step(state, oracle, communicator)
        # An epoch that ends early has paid for an advance and then for a refresh.
        begins = getattr(state, "epoch", 0) > getattr(before, "epoch", 0)
        interrupted += begins and getattr(before, "position", 0) > 0
    return {
        "point": solver.solution(state),
        "distance": float((solver.solution(state) - start).norm()),
        "average": solver.average(state),
        "epochs": getattr(state, "epoch", 0),
        "interrupted": interrupted,
        "form": _form(oracle),
        "asked": dict(asked),
        "calls": oracle.counters.sample_calls,
        "counters": oracle.counters.as_dict(),
        "totals": oracle.totals.as_dict(),
        "settled": oracle.settled,
        "generator": oracle.state_dict()["generator"],
        "rounds": communicator.rounds,
        "bytes": communicator.bytes,
        "begun": begun,
    }


def _form(oracle: Any) -> dict[str, Any]:
    """Return what decides how many numbers a composite solver sends."""
    if not isinstance(oracle, CompositeOracle):
        return {}
    names = ("dimension", "outputs", "constraints", "has_losses", "uses_shift")
    return {name: getattr(oracle, name) for name in names}


def task(case: Case, **limits: Any) -> Any:
    """Return a case as a run for Lightning, whose result counts as projected at the end."""
    from drobench.training.budget import BudgetConfig
    from drobench.training.settings import EvaluationConfig
    from drobench.training.task import Task

    route, start = prepare(case)
    return Task(
        problem=problem_of(case),
        solver=case.solver,
        build_oracles=[partial(build_oracle, route.form, 7, start)],
        stage_passes=1.0,
        start=start,
        recover=route.recover,
        projects=True,
        budget=BudgetConfig(**limits),
        evaluation=EvaluationConfig(),
        optimum=None,
    )


def train(
    folder: Path,
    *,
    processes: int,
    case: str = "gcivr_random",
    checkpoint_steps: int | None = None,
    **limits: Any,
) -> dict[str, Any]:
    """Return what this rank of a run under Lightning ends with."""
    from drobench.training.run_log import RunLog
    from drobench.training.settings import TrainerConfig
    from drobench.training.trainer import train as train_task

    folder.mkdir(parents=True, exist_ok=True)
    name = "ddp_cpu" if processes > 1 else "cpu"
    config = TrainerConfig(name=name, devices=processes, checkpoint_seconds=None, checkpoint_steps=checkpoint_steps)
    module = train_task(task(CASES[case], **limits), config, RunLog(), folder)
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


class RestsOnRankOne(Unconstrained):
    """Asks nobody and exchanges nothing, so that no rank waits for another, and one of them takes its time."""

    def step(self, state: Any, oracle: Any, communicator: Communicator) -> Any:
        if communicator.rank == 1:
            time.sleep(0.1)
        return state


def train_resting(folder: Path) -> dict[str, float]:
    """Return the seconds of the run and those of this rank."""
    from drobench.training.run_log import RunLog
    from drobench.training.settings import TrainerConfig
    from drobench.training.trainer import train as train_task

    folder.mkdir(exist_ok=True)
    case = Case(RestsOnRankOne(UnconstrainedConfig()), form=FiniteSum)
    config = TrainerConfig(name="ddp_cpu", devices=2, checkpoint_seconds=None)
    module = train_task(task(case, steps=5), config, RunLog(), folder)
    return {"run": module.curve[-1]["solver_seconds"], "rank": module.clock.seconds["solver"]}


def train_all(folder: Path) -> dict[str, Any]:
    """Run straight, interrupted and resumed, begun by one, with a slow rank, by passes, and with projections."""
    resumed = folder / "resumed"
    return {
        "straight": train(folder / "straight", processes=2, steps=300),
        "interrupted": train(resumed, processes=2, steps=140, checkpoint_steps=40),
        "resumed": train(resumed, processes=2, steps=300),
        "grown": train(folder / "grown", processes=2, steps=300),
        "resting": train_resting(folder / "resting"),
        "passes": train(folder / "passes", processes=2, passes=6),
        "projecting": train(folder / "projecting", processes=2, case="wasserstein", steps=20),
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
    leave()


if __name__ == "__main__":
    main()

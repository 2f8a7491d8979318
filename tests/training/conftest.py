"""A small problem, solvers that do as they are told, and the way from both to a trained module."""

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from drobench.objective.composite import Composite
from drobench.objective.forms import FiniteSum, NativeForm
from drobench.objective.oracle import Oracle
from drobench.objective.oracles.build import build_oracle
from drobench.objective.predictor import ModelConfig
from drobench.objective.regularizers import Zero
from drobench.problem.metrics import SplitScore
from drobench.problem.problem import Problem
from drobench.reformulation.reformulation import ReformulationConfig
from drobench.reformulation.routes import find_route
from drobench.registry import load_catalogue
from drobench.solver import Communicator, SingleProcess, Solver
from drobench.training.budget import BudgetConfig
from drobench.training.settings import EvaluationConfig
from drobench_plugins.solvers.exact_convex import ExactConvex, ExactConvexConfig
from drobench_plugins.solvers.gcivr import Gcivr
from drobench_plugins.solvers.pieces.gcivr_config import GcivrConfig
from drobench_plugins.solvers.scgd import Scgd, ScgdConfig
from drobench_plugins.solvers.unconstrained import Unconstrained, UnconstrainedConfig


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@dataclass(frozen=True)
class ToldState:
    """Where a told solver stands."""

    point: Tensor
    steps: int
    mean: Tensor | None = None


class Told(Solver[ToldState]):
    """Asks for `rows` samples in every step and moves to `act(point, number of the step)`."""

    def __init__(self, act: Callable[[Tensor, int], Tensor], rows: int = 30, average: bool = False) -> None:
        self.act = act
        self.rows = rows
        self.averages = average

    def init(self, start: Tensor, oracle: Any, communicator: Communicator) -> ToldState:
        return ToldState(start, 0)

    def step(self, state: ToldState, oracle: Any, communicator: Communicator) -> ToldState:
        oracle.estimate(state.point[None], oracle.draw(self.rows))
        steps = state.steps + 1
        point = self.act(state.point, steps)
        mean = point if state.mean is None else state.mean + (point - state.mean) / steps
        return ToldState(point, steps, mean if self.averages else None)

    def solution(self, state: ToldState) -> Tensor:
        return state.point

    def average(self, state: ToldState) -> Tensor | None:
        return state.mean


class Bowl(NativeForm):
    """`|x|^2 / 2`, whose value, gradient and stationarity are known by heart."""

    dimension = 2
    samples = 1
    convex = True
    regularizer = Zero()

    def value(self, point: Tensor) -> Tensor:
        return 0.5 * point.square().sum()

    def smooth_gradient(self, point: Tensor) -> Tensor:
        return point


class ScriptedProblem(Problem):
    """A bowl whose scores are written down by a test: split -> score, or a function of the point."""

    def __init__(self, scores: dict[str, Any], tolerance: float = 0.0) -> None:
        self.form = Bowl()
        self.scores = scores
        self.tolerance = tolerance
        self.asked: list[str] = []

    def score(self, point: Tensor, split: str) -> SplitScore | None:
        self.asked.append(split)
        found = self.scores.get(split)
        return found(point) if callable(found) else found


class Watched(Problem):
    """Another problem, and something that happens whenever it is scored."""

    def __init__(self, problem: Problem, event: Callable[[], None]) -> None:
        self.inner = problem
        self.form = problem.form
        self.predictor = problem.predictor
        self.tolerance = problem.tolerance
        self.event = event

    def score(self, point: Tensor, split: str) -> SplitScore | None:
        self.event()
        return self.inner.score(point, split)


def kl_problem(gamma: float = 1.0, dtype: torch.dtype = torch.float64) -> Problem:
    """Return KL-robust classification of 300 rows, with 100 more for each of validation and test."""
    catalogue = load_catalogue()
    dataset, problem = catalogue.dataset("synthetic").entry, catalogue.problem("kl_classification").entry
    data = dataset.factory(dataset.config(rows=500, features=4, split=[0.6, 0.2, 0.2])).to("cpu", dtype)
    return problem.factory(problem.config(gamma=gamma, l2=1e-2), data, ModelConfig())


class Bench:
    """KL-robust classification, and everything needed to train on it."""

    kl_problem = staticmethod(kl_problem)

    def __init__(self) -> None:
        self.problem: Any = kl_problem()
        self.samples = self.problem.form.samples
        self.start = self.problem.start(torch.Generator().manual_seed(0))

    def optimum(self) -> float:
        """Return the optimal value, to machine accuracy."""
        solver, oracle = ExactConvex(ExactConvexConfig()), self.oracle(Composite)
        solved = solver.step(solver.init(self.start, oracle, None), oracle, None)
        return float(self.problem.form.value(solver.solution(solved)))

    def solver(self, name: str) -> Solver[Any]:
        """Return one of the solvers that are trained here."""
        return {
            "gcivr": lambda: Gcivr(GcivrConfig()),
            "gcivr_random": lambda: Gcivr(GcivrConfig(output="random")),
            "gcivr_average": lambda: Gcivr(GcivrConfig(average=True)),
            "scgd": lambda: Scgd(ScgdConfig(batch=16)),
            "adam": lambda: Unconstrained(UnconstrainedConfig(optimizer="adam", batch=16)),
            "adagrad": lambda: Unconstrained(UnconstrainedConfig(batch=16)),
            "exact_convex": lambda: ExactConvex(ExactConvexConfig()),
        }[name]()

    def oracle(self, kind: type, seed: int = 0, *shard: Any) -> Oracle:
        """Return a fresh oracle of the problem in one of its forms."""
        route = find_route(self.problem.form, (kind,), ReformulationConfig())
        return build_oracle(route.form, seed, self.start, *shard)

    def task(self, solver: Solver[Any], **changes: Any) -> Any:
        """Return the task of a run; limits of the budget and fields of the task by keyword."""
        from drobench.training.task import Task

        names = BudgetConfig.__dataclass_fields__
        budget = BudgetConfig(**{name: changes.pop(name) for name in list(changes) if name in names})
        every_passes, seed = changes.pop("every_passes", 1.0), changes.pop("seed", 0)
        every_seconds = changes.pop("every_seconds", None)
        kind = FiniteSum if isinstance(solver, Unconstrained | Told) else Composite
        task = Task(
            problem=self.problem,
            solver=solver,
            build_oracles=[partial(self.oracle, kind, seed)],
            stage_passes=1.0,
            start=self.start,
            recover=lambda point: point,
            projects=False,
            budget=budget,
            evaluation=EvaluationConfig(every_passes=every_passes, every_seconds=every_seconds),
            optimum=None,
        )
        return replace(task, **changes)

    def train(
        self,
        task: Any,
        folder: Path,
        *,
        logger: str = "none",
        on_evaluation: Callable[[dict[str, Any]], None] | None = None,
        **settings: Any,
    ) -> Any:
        """Train the task in `folder`, with checkpoints only where a test asks for them."""
        from drobench.registry import load_catalogue
        from drobench.training.loggers import make_log
        from drobench.training.settings import TrainerConfig
        from drobench.training.trainer import train

        folder.mkdir(parents=True, exist_ok=True)
        trainer = TrainerConfig(**{"checkpoint_seconds": None, **settings})
        entry = load_catalogue().logger(logger).entry
        settings = {"group": "bench"} if logger == "wandb" else {}
        with make_log(entry, entry.config(**settings), self.card(), folder / "log") as log:
            return train(task, trainer, log, folder, on_evaluation)

    def alone(self, name: str, steps: int) -> tuple[Tensor, dict[str, Any]]:
        """Return solution, counters and generator after so many steps of a solver with nothing around it."""
        task = self.task(self.solver(name), steps=1)
        oracle, communicator = task.build_oracles[0](), SingleProcess()
        with torch.no_grad():
            state = task.solver.init(task.start, oracle, communicator)
            for _ in range(steps):
                state = task.solver.step(state, oracle, communicator)
        return task.solver.solution(state), oracle.state_dict()

    @staticmethod
    def card() -> Any:
        """Return what a log says about a run of this bench."""
        from drobench.training.run_log import RunCard

        return RunCard("0123456789abcdef" * 4, "a run", "scgd", {"solver": {"name": "scgd", "batch": 16}, "seed": 3})


@pytest.fixture(scope="session")
def bench() -> Bench:
    return Bench()


@pytest.fixture(scope="session")
def told() -> type[Told]:
    return Told


@pytest.fixture(scope="session")
def scripted_problem() -> type[ScriptedProblem]:
    return ScriptedProblem


@pytest.fixture(scope="session")
def watched() -> type[Watched]:
    return Watched


class FakeTime:
    """A clock that stands still unless it is told otherwise."""

    def __init__(self) -> None:
        self.at = 100.0

    def __call__(self) -> float:
        return self.at

    def advance(self, seconds: float) -> None:
        self.at += seconds


@pytest.fixture
def fake_time() -> FakeTime:
    return FakeTime()


@pytest.fixture
def trained_by_fake_time(monkeypatch: pytest.MonkeyPatch, fake_time: FakeTime) -> FakeTime:
    """Make the module read its times from a fake clock."""
    from drobench.training import loop
    from drobench.training.clock import Clock

    monkeypatch.setattr(loop, "Clock", lambda device: Clock(device, fake_time))
    return fake_time


def _same(first: Any, second: Any) -> bool:
    if isinstance(first, Tensor):
        return isinstance(second, Tensor) and first.dtype == second.dtype and torch.equal(first, second)
    if isinstance(first, dict):
        return (
            isinstance(second, dict)
            and first.keys() == second.keys()
            and all(_same(first[k], second[k]) for k in first)
        )
    if isinstance(first, float) and isinstance(second, float) and np.isnan(first):
        return bool(np.isnan(second))
    return type(first) is type(second) and first == second


@pytest.fixture(scope="session")
def same() -> Callable[[Any, Any], bool]:
    """Return whether two values, tensors or nested dictionaries of them agree bit for bit."""
    return _same


@pytest.fixture(scope="session")
def untimed() -> Callable[[list[dict[str, Any]]], list[dict[str, Any]]]:
    """Return a curve without the one column that no two runs share."""
    return lambda curve: [{key: row[key] for key in row if key != "solver_seconds"} for row in curve]


@pytest.fixture(scope="session")
def wait_until() -> Callable[..., bool]:
    """Return whether a condition becomes true within some seconds."""

    def wait(condition: Callable[[], bool], seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if condition():
                return True
            time.sleep(0.01)
        return condition()

    return wait


AWAY = ("WANDB_DIR", "WANDB_CACHE_DIR", "WANDB_CONFIG_DIR", "WANDB_DATA_DIR", "WANDB_ARTIFACT_DIR")


@pytest.fixture(scope="session")
def wandb_away(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A place for what wandb would keep in the home directory."""
    import wandb

    yield tmp_path_factory.mktemp("wandb")
    wandb.teardown()


@pytest.fixture
def nobody_is_logged_in(monkeypatch: pytest.MonkeyPatch, wandb_away: Path, tmp_path: Path) -> Iterator[None]:
    """Hide the account of whoever runs the tests, and see that nothing is left where they run."""
    import wandb

    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        monkeypatch.delenv(name)
    for name in AWAY:
        monkeypatch.setenv(name, str(wandb_away / name))
    monkeypatch.setenv("NETRC", str(wandb_away / "netrc"))
    monkeypatch.setenv("HOME", str(wandb_away))
    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")
    yield
    assert wandb.run is None
    assert list((tmp_path / "cwd").iterdir()) == []

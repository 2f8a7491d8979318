"""Whether the clock times what it should: a tiny run under Lightning, with rests of known length in and off the solver.

It shows on the machine at hand what the tests show elsewhere, in about half a second.
"""

import math
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from drobench.objective.forms import NativeForm
from drobench.objective.oracles.build import build_oracle
from drobench.objective.regularizers import Zero
from drobench.problem.metrics import SplitScore
from drobench.problem.problem import Problem
from drobench.solver.communicator import Communicator
from drobench.solver.solver import Solver
from drobench.training.budget import BudgetConfig
from drobench.training.run_log import RunLog
from drobench.training.settings import EvaluationConfig, TrainerConfig
from drobench.training.task import Task
from drobench.training.trainer import train

_STEPS = 2
_STEP_SECONDS = 0.05
_SCORE_SECONDS = 0.1


@dataclass(frozen=True)
class ClockCheck:
    """What was spent where, and what the clock made of it."""

    solver: float
    """Seconds that the solver spent, by its own account."""
    evaluation: float
    """Seconds that scoring spent, by its own account."""
    timed: float
    """Seconds that the run reports for its solver."""

    @property
    def good(self) -> bool:
        """Whether all of the solver is timed, and nothing of the scoring.

        The margin is for what lies between, and for a machine that is busy with other things.
        """
        return self.solver <= self.timed < self.solver + self.evaluation / 2


class _Resting:
    """Sleeps, and remembers for how long: a busy machine sleeps longer than it was asked to."""

    def __init__(self, seconds: float) -> None:
        self.asked = seconds
        self.slept = 0.0

    def rest(self) -> None:
        begin = time.perf_counter()
        time.sleep(self.asked)
        self.slept += time.perf_counter() - begin


class _Bowl(NativeForm):
    """Half the square of one number."""

    regularizer = Zero()
    dimension = 1
    samples = 1
    convex = True

    def value(self, point: Tensor) -> Tensor:
        return 0.5 * point.square().sum()

    def smooth_gradient(self, point: Tensor) -> Tensor:
        return point


class _RestingProblem(Problem, _Resting):
    form = _Bowl()

    def score(self, point: Tensor, split: str) -> SplitScore | None:
        if split == "train":
            self.rest()
        return None


@dataclass(frozen=True)
class _Point:
    point: Tensor


class _RestingSolver(_Resting, Solver[_Point]):
    def init(self, start: Tensor, oracle: Any, communicator: Communicator) -> _Point:
        return _Point(start)

    def step(self, state: _Point, oracle: Any, communicator: Communicator) -> _Point:
        self.rest()
        return state

    def solution(self, state: _Point) -> Tensor:
        return state.point


def check_clock() -> ClockCheck:
    """Run the check, on the CPU."""
    solver, problem = _RestingSolver(_STEP_SECONDS), _RestingProblem(_SCORE_SECONDS)
    start = torch.ones(1, dtype=torch.float64)
    task = Task(
        problem=problem,
        solver=solver,
        build_oracles=[partial(build_oracle, problem.form, 0, start)],
        stage_passes=math.inf,
        start=start,
        recover=lambda point: point,
        projects=False,
        budget=BudgetConfig(steps=_STEPS),
        evaluation=EvaluationConfig(),
        optimum=None,
    )
    with tempfile.TemporaryDirectory(prefix="drobench-") as folder:
        module = train(task, TrainerConfig(checkpoint_seconds=None), RunLog(), Path(folder))
    return ClockCheck(solver.slept, problem.slept, module.curve[-1]["solver_seconds"])

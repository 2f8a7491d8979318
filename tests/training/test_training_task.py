"""How a task is put together, and where its stages end."""

import math

import pytest
import torch

from drobench.objective.composite import Composite
from drobench.reformulation.reformulation import ReformulationConfig
from drobench.reformulation.routes import find_route
from drobench.training.budget import BudgetConfig
from drobench.training.loop import run_alone
from drobench.training.settings import EvaluationConfig
from drobench.training.task import stage_limits, task_of


@pytest.mark.parametrize(
    ("limits", "given", "expected"),
    [
        ({"passes": 30.0, "steps": 900}, None, {"stage_passes": 10.0}),
        ({"seconds": 6.0, "steps": 900}, None, {"stage_passes": math.inf, "stage_seconds": 2.0}),
        ({"steps": 900}, None, {"stage_passes": math.inf, "stage_steps": 300.0}),
        ({"oracle_calls": 900}, None, {"stage_passes": 20.0}),
        ({"passes": 30.0}, 4.0, {"stage_passes": 4.0}),
    ],
)
def test_stages_share_the_first_limit_there_is(limits, given, expected):
    assert stage_limits(BudgetConfig(**limits), given, 3) == expected


def test_a_task_is_what_its_parts_say(bench):
    options, budget = ReformulationConfig(stage_passes=3.0, adapt_alpha=True), BudgetConfig(passes=4)
    route, solver = find_route(bench.problem.form, (Composite,), options), bench.solver("gcivr")
    task = task_of(bench.problem, route, solver, options, budget, EvaluationConfig(), seed=5, optimum=0.5)
    assert (task.problem, task.solver, task.budget, task.optimum) == (bench.problem, solver, budget, 0.5)
    assert (task.stage_passes, task.adapt_weight, task.stages_stall) == (3.0, True, False)
    assert task.start.dtype == torch.float64
    expected = bench.oracle(Composite, 5)
    assert task.build_oracles[0]((0, 1)).generator.random() == expected.generator.random()
    assert run_alone(task).curve[-1]["passes"] >= 4.0

"""The loop alone, without Lightning: the same as a run, number for number."""

import math

import pytest
import torch

from drobench.training.loop import run_alone
from drobench.training.task import stage_limits


@pytest.mark.parametrize("name", ["gcivr", "scgd", "adam", "gcivr_average"])
def test_a_task_run_alone_ends_where_lightning_ends_it(bench, same, untimed, tmp_path, name):
    task = bench.task(bench.solver(name), passes=7.5, optimum=0.1)
    alone, driven = run_alone(task), bench.train(task, tmp_path)
    assert untimed(alone.curve) == untimed(driven.curve)
    assert alone.verdict == driven.verdict
    assert set(alone.final) == set(driven.final)
    for which, (scores, point) in alone.final.items():
        assert scores == driven.final[which][0]
        assert torch.equal(point, driven.final[which][1])
    assert alone.counts() == driven.counts()
    assert same(alone.oracle.state_dict(), driven.oracle.state_dict())


def test_stages_are_passed_through_alone_too(bench, told):
    stages = [bench.task(bench.solver("gcivr"), steps=1).build_oracles[0]] * 3
    loop = run_alone(bench.task(bench.solver("gcivr"), build_oracles=stages, stage_passes=2.0, passes=9.0))
    assert loop.stage == 2
    assert loop.curve[-1]["passes"] >= 9.0


def test_every_evaluation_is_told(bench):
    seen = []
    loop = run_alone(bench.task(bench.solver("scgd"), passes=3), seen.append)
    assert seen == loop.curve
    assert len(seen) == 4


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
    from drobench.training.budget import BudgetConfig

    assert stage_limits(BudgetConfig(**limits), given, 3) == expected

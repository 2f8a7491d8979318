"""The loop alone, without Lightning: the same as a run, number for number."""

import pytest
import torch

from drobench.training.loop import run_alone


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

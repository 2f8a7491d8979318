"""Routes with several stages: the solver starts each from the solution of the one before."""

import itertools
from functools import partial

import pytest
import torch

from drobench.objective.composite import Composite
from drobench.objective.oracles.build import build_oracle
from drobench.reformulation.reformulation import ReformulationConfig
from drobench.reformulation.routes import find_route
from drobench.results.record import Status

GAMMAS = (8.0, 2.0, 1.0)


@pytest.fixture(scope="module")
def stages(bench):
    """Return the KL problem of the bench behind two easier ones."""
    problems = [bench.kl_problem(gamma) for gamma in GAMMAS]
    forms = [find_route(problem.form, (Composite,), ReformulationConfig()).form for problem in problems]
    return [partial(build_oracle, form, 0, bench.start) for form in forms]


@pytest.fixture
def starts(told):
    """Return a told solver, and where and with which oracle it was started."""
    seen = []

    class Watching(told):
        def init(self, start, oracle, communicator):
            calls = oracle.counters.sample_calls
            seen.append((start.clone(), oracle.materialise(), calls))
            # The look is the test's, and its pass is not the solver's.
            oracle.counters.sample_calls = calls
            return super().init(start, oracle, communicator)

    return Watching(lambda point, step: point + 0.01), seen


def test_each_stage_starts_where_the_one_before_ended(bench, stages, starts, tmp_path):
    solver, seen = starts
    task = bench.task(solver, build_oracles=stages, stage_passes=2.0, steps=100)
    module = bench.train(task, tmp_path)
    # Steps of 30 rows among 300: a stage of two passes is twenty steps, and the last one takes the rest.
    assert [calls for _, _, calls in seen] == [0, 600, 1200]
    for number, (start, form, _) in enumerate(seen):
        torch.testing.assert_close(start, bench.start + 0.2 * number, rtol=0, atol=1e-14)
        assert form is stages[number]().materialise()
    assert module.steps == 100
    assert module.counts()["sample_calls"] == 3000
    assert module.verdict.status is Status.BUDGET_SPENT


def test_draws_go_on_from_stage_to_stage(bench, stages, told, tmp_path):
    task = bench.task(told(lambda point, step: point), build_oracles=stages, stage_passes=2.0, steps=70)
    module = bench.train(task, tmp_path)
    oracle = stages[0]()
    for _ in range(70):
        oracle.draw(30)
    assert module.oracle.generator.bit_generator.state == oracle.generator.bit_generator.state


def test_a_stage_ends_by_its_own_passes_and_not_only_at_evaluations(bench, stages, starts, tmp_path):
    solver, seen = starts
    task = bench.task(solver, build_oracles=stages, stage_passes=1.5, steps=100, every_passes=10.0)
    bench.train(task, tmp_path)
    assert [calls for _, _, calls in seen] == [0, 450, 900]


def test_a_budget_that_ends_first_leaves_the_other_stages_out(bench, stages, starts, tmp_path):
    solver, seen = starts
    module = bench.train(bench.task(solver, build_oracles=stages, stage_passes=5.0, steps=60), tmp_path)
    assert len(seen) == 2
    assert module.steps == 60


def test_all_stages_are_scored_on_the_problem_itself(bench, stages, told, tmp_path):
    task = bench.task(told(lambda point, step: point + 0.01), build_oracles=stages, stage_passes=1.0, steps=30)
    module = bench.train(task, tmp_path)
    for row in module.curve:
        assert row["objective"] == pytest.approx(float(bench.problem.form.value(bench.start + 0.01 * row["step"])))


@pytest.mark.parametrize("interrupted_after", [1.0, 3.0, 5.0, 8.0])
def test_a_run_is_resumed_in_the_stage_it_was_in(bench, stages, same, untimed, tmp_path, interrupted_after):
    def task(passes):
        return bench.task(bench.solver("gcivr_random"), build_oracles=stages, stage_passes=3.0, passes=passes)

    straight = bench.train(task(12), tmp_path / "straight")
    bench.train(task(interrupted_after), tmp_path / "resumed", checkpoint_steps=1)
    if interrupted_after > 3.0:
        assert torch.load(tmp_path / "resumed" / "last.ckpt", weights_only=True)["drobench"]["stage"] >= 1
    resumed = bench.train(task(12), tmp_path / "resumed")
    assert resumed.stage == straight.stage == 2
    assert torch.equal(resumed.final["last"][1], straight.final["last"][1])
    assert same(resumed.oracle.state_dict(), straight.oracle.state_dict())
    assert untimed(resumed.curve) == untimed(straight.curve)


def test_a_stage_ends_after_its_share_of_the_time_as_well(bench, told, tmp_path, stages):
    task = bench.task(
        told(lambda point, step: point), build_oracles=stages, stage_passes=1e9, stage_seconds=0.3, seconds=1.0
    )
    module = bench.train(task, tmp_path)
    assert module.stage == len(stages) - 1


def test_looks_can_be_kept_apart_in_time(bench, told, tmp_path):
    task = bench.task(told(lambda point, step: point), every_passes=0.01, every_seconds=0.3, seconds=1.0)
    module = bench.train(task, tmp_path)
    seconds = [row["solver_seconds"] for row in module.curve]
    assert 3 <= len(seconds) <= 5
    assert all(later - sooner >= 0.3 for sooner, later in itertools.pairwise(seconds[:-1]))


def test_a_stage_ends_after_its_share_of_the_steps_as_well(bench, stages, starts, tmp_path):
    solver, seen = starts
    task = bench.task(solver, build_oracles=stages, stage_passes=1e9, stage_steps=20, steps=60)
    module = bench.train(task, tmp_path)
    assert module.stage == len(stages) - 1
    assert [float((start - bench.start).max()) for start, _, _ in seen] == pytest.approx([0.0, 0.2, 0.4])

"""A method may come to its end before its budget does."""

import pytest

from drobench.results.record import Status


@pytest.fixture
def ending(told):
    """Return a solver that takes so many steps and then no more."""

    class Ending(told):
        def __init__(self, last):
            super().__init__(lambda point, step: point + 0.01)
            self.last = last

        def ended(self, state):
            return state.steps == self.last

    return Ending


@pytest.mark.parametrize("limit", [{"passes": 50.0}, {"steps": 500}, {"seconds": 60.0}])
def test_the_run_ends_with_the_method_and_counts_no_empty_step(bench, ending, tmp_path, limit):
    module = bench.train(bench.task(ending(7), **limit), tmp_path)
    assert module.steps == 7
    assert module.counts()["sample_calls"] == 7 * 30
    assert (module.verdict.status, module.verdict.reason) == (Status.BUDGET_SPENT, "the method has come to its end")


def test_a_stage_ends_with_the_method_too(bench, ending, tmp_path):
    stages = [bench.task(ending(7), steps=1).build_oracles[0]] * 3
    module = bench.train(bench.task(ending(7), build_oracles=stages, stage_passes=40.0, passes=200.0), tmp_path)
    assert module.stage == 2
    assert module.steps == 3 * 7
    assert module.verdict.reason == "the method has come to its end"

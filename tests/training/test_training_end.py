"""A method may come to its end before its budget does."""

import pytest

from drobench.results.record import Status
from drobench.training import loop


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


@pytest.fixture
def quiet(told):
    """Return a solver that asks for rows in its first steps, and in each of a given multiple after them."""

    class Quiet(told):
        def __init__(self, asks, again):
            super().__init__(lambda point, step: point + 0.001)
            self.asks, self.again = asks, again

        def step(self, state, oracle, communicator):
            if state.steps < self.asks or state.steps % self.again == 0:
                return super().step(state, oracle, communicator)
            return type(state)(state.point, state.steps + 1, state.mean)

    return Quiet


@pytest.mark.parametrize("chunk_seconds", [0.0, 1e6])
class TestAQuietSolver:
    """Neither a fast nor a slow machine changes the step in which it is found to ask for no more data."""

    @pytest.fixture(autouse=True)
    def _chunks(self, chunk_seconds, monkeypatch):
        monkeypatch.setattr(loop, "_CHUNK_SECONDS", chunk_seconds)

    def test_ends_after_so_many_steps_in_a_row(self, bench, quiet, tmp_path):
        module = bench.train(bench.task(quiet(5, 10**9), passes=50.0), tmp_path)
        assert module.steps == 5 + loop._QUIET_STEPS
        assert module.verdict.reason == "the solver asks for no more data"

    def test_is_not_over_while_it_comes_back(self, bench, quiet, tmp_path):
        module = bench.train(bench.task(quiet(1, loop._QUIET_STEPS), passes=0.4), tmp_path)
        assert module.steps == 3 * loop._QUIET_STEPS + 1
        assert module.verdict.reason.startswith("passes")

    def test_goes_on_where_steps_end_it(self, bench, quiet, tmp_path):
        module = bench.train(bench.task(quiet(5, 10**9), steps=350), tmp_path)
        assert module.steps == 350

    def test_is_as_quiet_after_an_interruption(self, bench, quiet, tmp_path):
        bench.train(bench.task(quiet(5, 10**9), steps=70), tmp_path, checkpoint_steps=30)
        module = bench.train(bench.task(quiet(5, 10**9), passes=50.0), tmp_path)
        assert module.steps == 5 + loop._QUIET_STEPS

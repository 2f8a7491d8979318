"""How fast GCIVR reaches the optimum, and that a method without variance reduction does not."""

import numpy as np
import pytest

from drobench.objective.regularizers import ElasticNet
from drobench.solver import SingleProcess
from drobench_plugins.solvers.gcivr import Gcivr
from drobench_plugins.solvers.pieces.gcivr_config import GcivrConfig
from drobench_plugins.solvers.scgd import Scgd, ScgdConfig

pytestmark = pytest.mark.convergence

MU = 1e-3
GOAL = 1e-6


@pytest.fixture
def passes_to_goal(synthetic):
    """Return after how many passes the relative gap is at most the goal, or `None` if not within `most`."""

    def run(solver, gamma: float, seed: int, most: float, every: int = 20) -> float | None:
        data = synthetic(10_000, 10, seed)
        problem = data.numpy()
        _, optimum = problem.optimum(gamma, MU)
        at_start, _ = problem.robust(np.zeros(10), gamma, MU)
        oracle, communicator = data.oracle(gamma, seed, ElasticNet(l2=MU)), SingleProcess()
        state, steps = solver.init(data.start, oracle, communicator), 0
        while oracle.passes < most:
            state, steps = solver.step(state, oracle, communicator), steps + 1
            if steps % every == 0:
                value, _ = problem.robust(solver.solution(state).numpy(), gamma, MU)
                if oracle.passes <= most and (value - optimum) <= GOAL * (at_start - optimum):
                    return oracle.passes
        return None

    return run


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("gamma", "most"), [(1.0, 23.0), (0.2, 32.0)])
def test_gcivr_reaches_the_goal_with_default_settings(passes_to_goal, gamma, most, seed):
    passes = passes_to_goal(Gcivr(GcivrConfig()), gamma, seed, most)
    assert passes is not None
    # Fewer than two epochs would mean that calls are not counted.
    assert passes > 6


@pytest.mark.parametrize("step_scale", [0.5, 1.0, 2.0])
def test_scgd_does_not(passes_to_goal, step_scale):
    assert passes_to_goal(Scgd(ScgdConfig(step_scale=step_scale)), 1.0, 0, 40.0, every=500) is None

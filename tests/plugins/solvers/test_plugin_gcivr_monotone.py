"""What GCIVR, its kin and the methods on all rows return was measured on all rows, and is never above the start."""

from functools import partial

import numpy as np
import pytest
import torch

from drobench.objective.ambiguity_sets import Chi2Ball, CVaR, KLBall
from drobench.objective.composite import Composite
from drobench.objective.forms import RobustRisk
from drobench.objective.losses import LinearMarginLosses, LogisticLoss
from drobench.objective.oracles.composite import CompositeOracle
from drobench.objective.regularizers import ElasticNet
from drobench.reformulation.reformulation import ReformulationConfig
from drobench.reformulation.routes import find_route
from drobench.solver import SingleProcess
from drobench_plugins.solvers.accelerated_gradient import AcceleratedGradient, AcceleratedGradientConfig
from drobench_plugins.solvers.civr import Civr, CivrConfig
from drobench_plugins.solvers.dist_gcivr import DistGcivr, DistGcivrConfig
from drobench_plugins.solvers.gcivr import Gcivr
from drobench_plugins.solvers.lbfgs import Lbfgs, LbfgsConfig
from drobench_plugins.solvers.newton import Newton, NewtonConfig
from drobench_plugins.solvers.pieces.gcivr_config import GcivrConfig
from drobench_plugins.solvers.prox_gradient import ProxGradient, ProxGradientConfig
from drobench_plugins.solvers.vrsc_pg import VrscPg, VrscPgConfig

GAMMA, MU = 0.5, 1e-2
METHODS = {
    "gcivr": partial(Gcivr, GcivrConfig()),
    "civr": partial(Civr, CivrConfig()),
    "dist_gcivr": partial(DistGcivr, DistGcivrConfig(clients=3)),
    "vrsc_pg": partial(VrscPg, VrscPgConfig()),
    "prox_gradient": partial(ProxGradient, ProxGradientConfig()),
    "accelerated_gradient": partial(AcceleratedGradient, AcceleratedGradientConfig()),
    # The promise does not depend on how exact the steps are, and on these scales exact ones are slow.
    "lbfgs": partial(Lbfgs, LbfgsConfig(inner_iterations=20)),
    "newton": partial(Newton, NewtonConfig()),
}


@pytest.fixture
def data(synthetic):
    return synthetic(400, 5, 0)


def rough(seed: int = 0) -> LinearMarginLosses:
    """Return losses whose columns differ in scale by a thousand."""
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(120, 4, generator=generator, dtype=torch.float64) * torch.tensor([30.0, 3.0, 0.3, 0.03])
    signs = torch.where(rows[:, 1] + torch.randn(120, generator=generator) > 0.0, 1.0, -1.0).double()
    return LinearMarginLosses(rows, signs, LogisticLoss())


def test_the_output_is_the_start_until_an_epoch_was_measured(data, trace):
    solver = Gcivr(GcivrConfig(step_size=0.5, epoch_length=10))
    states = trace(solver, data.oracle(GAMMA, 0), data.start, 12)
    for state in states[:11]:
        assert torch.equal(solver.solution(state), data.start)
    assert torch.equal(solver.solution(states[11]), states[10].point)


def test_no_step_size_makes_the_output_rise(data, trace):
    problem = data.numpy()
    for step_size in (1.0, 30.0, 1e4):
        solver = Gcivr(GcivrConfig(step_size=step_size, epoch_length=15))
        states = trace(solver, data.oracle(GAMMA, 0, ElasticNet(l2=MU)), data.start, 200)
        values = [problem.robust(solver.solution(state).numpy(), GAMMA, MU)[0] for state in states]
        assert (np.diff(values) <= 1e-12).all()


@pytest.mark.parametrize("ambiguity", [KLBall(0.1), CVaR(0.3), Chi2Ball(0.5)], ids=repr)
@pytest.mark.parametrize("method", METHODS)
def test_from_stage_to_stage_the_problem_itself_never_gets_worse(method, ambiguity):
    form = RobustRisk(rough(), ambiguity, ElasticNet(l2=1e-3))
    route = find_route(form, (Composite,), ReformulationConfig())
    start, communicator, solver = torch.zeros(4, dtype=torch.float64), SingleProcess(), METHODS[method]()
    state, values = None, [float(form.value(start))]
    for number, stage in enumerate(route.stages):
        oracle = CompositeOracle(stage, number, start)
        # Not at rest: whatever the clock does, nothing unmeasured goes on.
        state = (
            solver.init(route.lift(start), oracle, communicator)
            if state is None
            else solver.sharpen(state, oracle, communicator)
        )
        for _ in range(55):
            values.append(float(form.value(route.recover(solver.solution(state)))))
            state = solver.step(state, oracle, communicator)
    assert (np.diff(values) <= 1e-9).all()
    assert values[-1] < values[0] - 1e-3


def test_where_nothing_curves_there_is_a_step_all_the_same():
    # Every loss is below the threshold: at this width nothing has a slope, and nothing bends.
    form = RobustRisk(rough(), CVaR(0.3), ElasticNet())
    route = find_route(form, (Composite,), ReformulationConfig(gamma=1e-6))
    start = torch.cat([torch.zeros(4, dtype=torch.float64), torch.tensor([50.0], dtype=torch.float64)])
    for build in (METHODS["gcivr"], METHODS["prox_gradient"], METHODS["vrsc_pg"]):
        solver, oracle = build(), CompositeOracle(route.form, 0, start)
        state = solver.init(start, oracle, SingleProcess())
        for _ in range(30):
            state = solver.step(state, oracle, SingleProcess())
        assert bool(solver.solution(state).isfinite().all())


def test_a_stage_stalls_when_an_epoch_gains_less_than_smoothing_may_change(data):
    form = RobustRisk(rough(), KLBall(0.1), ElasticNet(l2=1e-1))
    route = find_route(form, (Composite,), ReformulationConfig())
    start = route.lift(torch.zeros(4, dtype=torch.float64))
    oracle, solver = CompositeOracle(route.stages[0], 0, start), Gcivr(GcivrConfig())
    state = solver.init(start, oracle, SingleProcess())
    assert not solver.stalled(state)
    for _ in range(2000):
        state = solver.step(state, oracle, SingleProcess())
        if solver.stalled(state):
            break
    assert solver.stalled(state)
    safeguard = state.safeguard
    assert safeguard.gained < 0.1 * route.stages[0].smoothing_error or safeguard.failures >= 4
    assert solver.resting(state)

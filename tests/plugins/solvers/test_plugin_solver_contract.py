"""What every solver promises: replay, no side effects, checkpoints."""

import copy
import io
from dataclasses import fields, is_dataclass

import pytest
import torch

from drobench.objective.forms import FiniteSum
from drobench.objective.oracles.build import build_oracle
from drobench.objective.regularizers import ElasticNet
from drobench.solver import SingleProcess
from drobench.solver.solver import state_from_dict, state_to_dict, state_type
from drobench_plugins.solvers.dist_gcivr import DistGcivr, DistGcivrConfig
from drobench_plugins.solvers.exact_convex import ExactConvex, ExactConvexConfig
from drobench_plugins.solvers.gcivr import Gcivr, GcivrConfig, GcivrState
from drobench_plugins.solvers.scgd import Scgd, ScgdConfig
from drobench_plugins.solvers.unconstrained import Unconstrained, UnconstrainedConfig

SOLVERS = {
    "gcivr": Gcivr(GcivrConfig()),
    # Large enough for epochs to be rejected within the steps of these tests.
    "gcivr_large_step": Gcivr(GcivrConfig(step_size=20.0, output="random", average=True)),
    "gcivr_random": Gcivr(GcivrConfig(output="random")),
    "gcivr_average": Gcivr(GcivrConfig(average=True, output="best_snapshot")),
    "gcivr_adaptive": Gcivr(GcivrConfig(schedule="adaptive", growth=1.0, initial=2.0)),
    "gcivr_adaptive_random": Gcivr(GcivrConfig(schedule="adaptive", output="random", average=True)),
    "gcivr_replacement": Gcivr(GcivrConfig(replacement=True, refresh_batch=30)),
    "dist_gcivr": DistGcivr(DistGcivrConfig(clients=3)),
    "dist_gcivr_uneven": DistGcivr(DistGcivrConfig(shards=[5.0, 1.0, 2.0], local_batch="paper", replacement=True)),
    "dist_gcivr_global": DistGcivr(DistGcivrConfig(clients=3, sampling="global", output="random")),
    "scgd": Scgd(ScgdConfig(batch=8)),
    "scgd_strongly_convex": Scgd(ScgdConfig(batch=8, decay="strongly_convex", replacement=True)),
    "sgd": Unconstrained(UnconstrainedConfig(optimizer="sgd", batch=8)),
    "adagrad": Unconstrained(UnconstrainedConfig(optimizer="adagrad", batch=8, initial_accumulator=0.1)),
    "adam": Unconstrained(UnconstrainedConfig(optimizer="adam", batch=8, replacement=True)),
}
STEPS = 90


@pytest.fixture(params=SOLVERS)
def solver(request):
    return SOLVERS[request.param]


@pytest.fixture
def data(synthetic):
    return synthetic(120, 4, 0)


@pytest.fixture
def fresh_oracle(data):
    """Return a new oracle of the kind the solver accepts."""

    def make(solver, seed: int):
        regularizer = ElasticNet(l2=1e-2)
        if isinstance(solver, Unconstrained):
            form = FiniteSum(data.losses, regularizer)
        elif isinstance(solver, ExactConvex):
            form = data.robust(0.3, regularizer)
        else:
            form = data.kl(0.3, regularizer)
        return build_oracle(form, seed, data.start)

    return make


def same(first, second) -> bool:
    """Whether two states agree bit for bit."""
    if is_dataclass(first):
        return type(first) is type(second) and all(
            same(getattr(first, field.name), getattr(second, field.name)) for field in fields(first)
        )
    if isinstance(first, torch.Tensor):
        return isinstance(second, torch.Tensor) and first.dtype == second.dtype and torch.equal(first, second)
    return type(first) is type(second) and first == second


def through_a_file(content):
    buffer = io.BytesIO()
    torch.save(content, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=True)


def test_the_same_seed_gives_the_same_trace(solver, fresh_oracle, data, trace):
    first, second, other = (trace(solver, fresh_oracle(solver, seed), data.start, STEPS) for seed in (3, 3, 4))
    assert all(same(one, two) for one, two in zip(first, second, strict=True))
    assert not torch.equal(first[-1].point, other[-1].point)
    assert not same(first[-1], first[-2])


def test_a_step_changes_none_of_its_arguments(solver, fresh_oracle, data):
    oracle, communicator, start = fresh_oracle(solver, 0), SingleProcess(), data.start
    settings = copy.deepcopy(vars(solver))
    state = solver.init(start, oracle, communicator)
    rows = oracle.materialise().losses.signed_rows.clone()
    for _ in range(STEPS):
        before = copy.deepcopy(state)
        after = solver.step(state, oracle, communicator)
        assert same(state, before)
        state = after
    assert torch.equal(start, torch.zeros(4, dtype=torch.float64))
    assert torch.equal(oracle.materialise().losses.signed_rows, rows)
    assert vars(solver) == settings
    assert (communicator.rounds, communicator.bytes) == (0, 0)


def test_a_state_repeats_its_step(solver, fresh_oracle, data, trace):
    # The generator is the oracle's: with it set back, the step is the same however often it is taken.
    oracle, communicator = fresh_oracle(solver, 0), SingleProcess()
    state = trace(solver, oracle, data.start, 20)[-1]
    position = oracle.state_dict()
    first = solver.step(state, oracle, communicator)
    oracle.load_state_dict(position)
    assert same(solver.step(state, oracle, communicator), first)


@pytest.mark.parametrize("stop", [0, 1, 37])
def test_a_run_continues_from_a_checkpoint_as_if_never_stopped(solver, fresh_oracle, data, trace, stop):
    whole_oracle = fresh_oracle(solver, 5)
    whole = trace(solver, whole_oracle, data.start, STEPS)
    oracle = fresh_oracle(solver, 5)
    stopped = trace(solver, oracle, data.start, stop)[-1]
    saved = through_a_file({"state": state_to_dict(stopped), "oracle": oracle.state_dict()})
    resumed_oracle = fresh_oracle(solver, 999)
    resumed_oracle.load_state_dict(saved["oracle"])
    state = state_from_dict(state_type(solver), saved["state"])
    assert same(state, stopped)
    for expected in whole[stop + 1 :]:
        state = solver.step(state, resumed_oracle, SingleProcess())
        assert same(state, expected)
    assert torch.equal(solver.solution(state), solver.solution(whole[-1]))
    assert resumed_oracle.counters == whole_oracle.counters


def test_these_runs_pass_through_every_kind_of_state(fresh_oracle, data, trace):
    states = trace(SOLVERS["gcivr_large_step"], fresh_oracle(SOLVERS["gcivr_large_step"], 5), data.start, STEPS)
    assert states[0].estimates is None
    assert states[0].accepted is None
    assert states[-1].accepted.estimates.inner_jacobian.shape == (1, 4)
    assert states[-1].step_size < 20.0
    assert isinstance(states[-1], GcivrState)


@pytest.mark.parametrize("name", SOLVERS)
def test_the_type_of_the_state_is_that_of_init(name, fresh_oracle, data):
    solver = SOLVERS[name]
    state = solver.init(data.start, fresh_oracle(solver, 0), SingleProcess())
    assert state_type(solver) is type(state)


def test_the_reference_solver_is_a_solver_too(fresh_oracle, data, trace):
    solver = ExactConvex(ExactConvexConfig())
    first, second = (trace(solver, fresh_oracle(solver, seed), data.start, 1)[-1] for seed in (0, 1))
    assert same(first, second)
    assert same(state_from_dict(state_type(solver), through_a_file(state_to_dict(first))), first)
    assert same(trace(solver, fresh_oracle(solver, 0), data.start, 2)[-1], first)

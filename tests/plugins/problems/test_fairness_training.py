"""Training under rates of groups: the smoothed optimum is reached, at the cost that the formula says."""

import math

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from scipy.special import logsumexp

from drobench.data.build import build_dataset
from drobench.data.dataset import DatasetConfig
from drobench.objective.composite import Composite
from drobench.objective.oracles.composite import CompositeOracle
from drobench.objective.predictor import ModelConfig
from drobench.reformulation.reformulation import ReformulationConfig
from drobench.reformulation.routes import find_route
from drobench.solver import SingleProcess
from drobench_plugins.problems.intersectional_fairness import IntersectionalFairness, IntersectionalFairnessConfig
from drobench_plugins.problems.noisy_group_fairness import NoisyGroupFairness, NoisyGroupFairnessConfig
from drobench_plugins.problems.ranking_fairness import RankingFairness, RankingFairnessConfig
from drobench_plugins.solvers.gcivr import Gcivr
from drobench_plugins.solvers.pieces.gcivr_config import GcivrConfig

ALPHA, GAMMA = 2.0, 0.1


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def dataset_of(rows=200, seed=0):
    """Return data whose groups have labels of their own: a classifier of the majority fails the others."""
    generator = np.random.default_rng(seed)
    features = generator.standard_normal((rows, 4))
    groups = generator.choice(3, rows, p=[0.7, 0.2, 0.1])
    slopes = np.array([[2.0, 0.0], [0.5, 1.5], [-1.0, 2.0]])[groups]
    labels = ((slopes * features[:, :2]).sum(axis=1) + 0.5 * generator.standard_normal(rows) > 0).astype(int)
    columns = {"groups": groups, "attributes": features[:, 2:] + 0.8 * groups[:, None]}
    return build_dataset("groups", features, labels, DatasetConfig(split=[1.0, 0.0, 0.0]), columns=columns)


def ranking_dataset(queries=30, seed=0):
    generator = np.random.default_rng(seed)
    numbers = np.repeat(np.arange(queries), 8)
    features = generator.standard_normal((numbers.size, 4))
    groups = np.tile([0, 0, 0, 0, 1, 1, 1, 1], queries)
    labels = np.tile([1, 1, 0, 0, 1, 0, 0, 0], queries)
    # Relevance shows in other features in the other group, and groups differ in level.
    features[:, 0] += labels * (1 - groups) + groups
    features[:, 1] += labels * groups
    rows = np.arange(numbers.size)
    columns = {"groups": groups, "queries": numbers}
    return build_dataset(
        "ranking", features, labels, DatasetConfig(), columns=columns, parts=[rows, rows[:0], rows[:0]]
    )


def noisy(model, **settings):
    return NoisyGroupFairness(NoisyGroupFairnessConfig(resamples=12, l2=0.01, **settings), dataset_of(), model)


def intersectional(model, **settings):
    config = IntersectionalFairnessConfig(grid=5, smallest_share=0.05, l2=0.01, **settings)
    return IntersectionalFairness(config, dataset_of(), model)


def ranking(model, **settings):
    return RankingFairness(RankingFairnessConfig(l2=0.01, epsilon=0.4, **settings), ranking_dataset(), model)


PROBLEMS = pytest.mark.parametrize("make", [noisy, intersectional, ranking], ids=lambda make: make.__name__)


def smoothed(problem):
    return find_route(problem.form, (Composite,), ReformulationConfig(alpha=ALPHA, gamma=GAMMA)).form


def optimum(form, start):
    """Return the minimiser by L-BFGS, certified by the gradient."""

    def value_and_gradient(numbers):
        point = torch.from_numpy(numbers)
        gradient = form.smooth_gradient(point) + form.regularizer.gradient(point)
        return float(form.value(point)), gradient.numpy()

    options = {"gtol": 1e-10, "ftol": 1e-15, "maxiter": 5000}
    found = minimize(value_and_gradient, start.numpy(), jac=True, method="L-BFGS-B", options=options)
    assert np.abs(found.jac).max() < 1e-6
    return torch.from_numpy(found.x)


def penalised(problem, point):
    """Return the smoothed objective once more, from the objective and all surrogates."""
    values = problem.form.constraints.surrogates(point[None], slice(None))[0][0].numpy()
    exponents = np.concatenate([[0.0], ALPHA * values / GAMMA])
    return float(problem.form.value(point)) + GAMMA * (logsumexp(exponents) - math.log(len(exponents)))


def run(solver, form, start, epochs, seed=0):
    """Return the oracle and the points at the ends of so many epochs."""
    oracle, communicator = CompositeOracle(form, seed, start), SingleProcess()
    state = solver.init(start, oracle, communicator)
    ends, begun = [], state.epoch
    while state.epoch - begun < epochs or state.position != 0:
        state = solver.step(state, oracle, communicator)
        if state.position == 0:
            # What the method returns is judged by the problem itself, and what it minimises is the smoothed one.
            ends.append(state.point)
    return oracle, ends


@pytest.mark.convergence
@PROBLEMS
def test_gcivr_reaches_the_smoothed_optimum(make):
    problem = make(ModelConfig())
    form, start = smoothed(problem), torch.zeros(problem.form.dimension, dtype=torch.float64)
    best = optimum(form, start)
    least = float(form.value(best))
    assert least == pytest.approx(penalised(problem, best), abs=1e-10)
    solver = Gcivr(GcivrConfig(constraint_batch=4, whole_samples=True, epoch_length=10))
    _, ends = run(solver, form, start, epochs=60)
    found = float(form.value(ends[-1]))
    assert least - 1e-9 <= found
    assert found - least <= 1e-4 * (float(form.value(start)) - least)


@pytest.mark.convergence
@PROBLEMS
def test_sampled_objectives_reach_it_too(make):
    problem = make(ModelConfig())
    form, start = smoothed(problem), torch.zeros(problem.form.dimension, dtype=torch.float64)
    least = float(form.value(optimum(form, start)))
    _, ends = run(Gcivr(GcivrConfig()), form, start, epochs=40)
    assert float(form.value(ends[-1])) - least <= 1e-4 * (float(form.value(start)) - least)


@pytest.mark.convergence
@PROBLEMS
def test_constraints_lower_the_largest_violation(make):
    problem = make(ModelConfig())
    form, start = smoothed(problem), torch.zeros(problem.form.dimension, dtype=torch.float64)
    free = optimum(problem.form.objective, start)
    _, ends = run(Gcivr(GcivrConfig(constraint_batch=4, whole_samples=True)), form, start, epochs=30)

    def worst(point):
        return float(problem.form.constraints.surrogates(point[None], slice(None))[0].max())

    assert worst(free) > 0.05
    assert worst(ends[-1]) < 0.6 * worst(free)
    # What the constraints cost.
    assert float(problem.form.value(ends[-1])) > float(problem.form.value(free))


@PROBLEMS
@pytest.mark.parametrize("whole", [True, False])
def test_the_cost_of_an_epoch_is_the_formula(make, whole):
    problem = make(ModelConfig())
    form, start = smoothed(problem), torch.zeros(problem.form.dimension, dtype=torch.float64)
    samples, constraints = problem.form.samples, problem.form.constraints.count
    config = GcivrConfig(step_size=0.01, epoch_length=7, batch=5, constraint_batch=3, whole_samples=whole)
    oracle, ends = run(Gcivr(config), form, start, epochs=4)
    assert len(ends) == 4
    # A refresh on everything, then six steps, each at two points.
    checks = 4 * (constraints + 2 * 3 * 6)
    calls = 4 * (samples + 2 * (samples if whole else 5) * 6)
    assert oracle.counters.constraint_checks == checks
    assert oracle.counters.sample_calls == calls
    assert (oracle.counters.inner_values, oracle.counters.inner_jacobians) == (checks, checks)
    assert oracle.counters.loss_gradients == calls
    assert oracle.counters.oracle_calls == checks + calls
    assert oracle.passes == pytest.approx(calls / samples)


@PROBLEMS
@pytest.mark.parametrize("surrogate", ["bce", "hinge"])
def test_a_network_goes_down(make, surrogate):
    problem = make(ModelConfig("mlp", hidden=[6]), surrogate=surrogate)
    form, start = smoothed(problem), problem.start(torch.Generator().manual_seed(0))
    solver = Gcivr(GcivrConfig(constraint_batch=4, whole_samples=True, epoch_length=8))
    _, ends = run(solver, form, start, epochs=10)
    values = [float(form.value(point)) for point in (start, *ends)]
    assert all(math.isfinite(value) for value in values)
    assert values[-1] < values[0] - 0.02
    assert values[-1] == pytest.approx(penalised(problem, ends[-1]), abs=1e-10)
    score = problem.score(ends[-1], "train")
    assert 0.0 <= score.error <= 1.0
    assert math.isfinite(score.max_violation)


@PROBLEMS
def test_the_same_seed_is_the_same_run(make):
    problem = make(ModelConfig())
    form, start = smoothed(problem), torch.zeros(problem.form.dimension, dtype=torch.float64)
    solver = Gcivr(GcivrConfig(constraint_batch=2, batch=4, epoch_length=5, step_size=0.05))
    first, again, other = (run(solver, form, start, epochs=3, seed=seed)[1] for seed in (1, 1, 2))
    assert all(torch.equal(one, two) for one, two in zip(first, again, strict=True))
    assert not torch.equal(first[-1], other[-1])


@pytest.mark.parametrize(("projection", "tolerance"), [("euclidean", 1e-8), ("polyak", 1e-3)])
def test_a_projection_at_the_end_satisfies_the_surrogates(projection, tolerance):
    """Hinge surrogates of a linear model are convex, so that the nearest point exists and is found."""
    problem = noisy(ModelConfig(), surrogate="hinge", epsilon=1.0)
    route = find_route(problem.form, (Composite,), ReformulationConfig(gamma=0.1, projection=projection))
    assert route.projects
    point = torch.tensor([3.0, -1.0, 0.5, 0.5, 1.0, -1.0, 1.0, -2.0], dtype=torch.float64)
    assert float(problem.form.constraints.surrogates(point[None], slice(None))[0].max()) > 0.1
    found = route.recover(point)
    assert float(problem.form.constraints.surrogates(found[None], slice(None))[0].max()) <= tolerance
    assert 0.0 < float((found - point).norm()) < float(point.norm())


@pytest.mark.parametrize("projection", ["restoration", "none"])
def test_without_a_projection_a_solution_is_scored_as_it_is(projection):
    problem = noisy(ModelConfig())
    route = find_route(problem.form, (Composite,), ReformulationConfig(gamma=0.1, projection=projection))
    point = torch.ones(problem.form.dimension, dtype=torch.float64)
    assert not route.projects
    assert route.recover(point) is point

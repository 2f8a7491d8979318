"""Preconditioned GCIVR against a plain loop in numpy, to certified optima, and where curvature is of no use."""

from itertools import product

import numpy as np
import pytest
import torch
from scipy.special import expit

from drobench.errors import DrobenchError, SettingError
from drobench.objective.ambiguity_sets import Chi2Ball, CVaR, KLBall, KLPenalty
from drobench.objective.composite import Composite
from drobench.objective.forms import RobustRisk
from drobench.objective.losses import LinearMarginLosses, LogisticLoss, NetworkLosses
from drobench.objective.oracles.composite import CompositeOracle
from drobench.objective.regularizers import ElasticNet, Zero
from drobench.reformulation.reformulation import ReformulationConfig
from drobench.reformulation.routes import find_route
from drobench.solver import SingleProcess
from drobench_plugins.solvers.preconditioned_gcivr import PreconditionedGcivr, PreconditionedGcivrConfig

KNOWN = [0.244617892736, -0.184093745094, 1.289486985032]
MU = 1e-2


def method(**settings):
    return PreconditionedGcivr(PreconditionedGcivrConfig(**settings))


def run(solver, oracle, start, passes, most=400):
    """Return the states until so many passes are spent."""
    states = [solver.init(start, oracle, SingleProcess())]
    while oracle.passes < passes and len(states) <= most:
        states.append(solver.step(states[-1], oracle, SingleProcess()))
    return states


def end_of(solver, oracle, start, passes=40):
    return solver.solution(run(solver, oracle, start, passes)[-1]).numpy()


def outputs(solver, form, start, passes, seed=0):
    """Return the objective of what would be returned after each step, the start's first."""
    route = find_route(form, (Composite,), ReformulationConfig())
    states = run(solver, CompositeOracle(route.form, seed, start), route.lift(start), passes)
    return [float(form.value(route.recover(solver.solution(state)))) for state in states]


def rough(seed=0):
    """Return losses whose columns differ in scale by a thousand."""
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(120, 4, generator=generator, dtype=torch.float64) * torch.tensor([30.0, 3.0, 0.3, 0.03])
    signs = torch.where(rows[:, 1] + torch.randn(120, generator=generator) > 0.0, 1.0, -1.0).double()
    return LinearMarginLosses(rows, signs, LogisticLoss())


def test_without_draws_the_iterates_are_newton_steps(synthetic, trace):
    data = synthetic(200, 5, 0)
    states = trace(method(inner_steps=0), data.oracle(1.0, 0, ElasticNet(l2=0.1)), data.start, 5)
    x, numbers = np.zeros(5), data.numpy()
    for state in states[1:]:
        _, gradient = numbers.robust(x, 1.0, 0.1)
        x = x - np.linalg.solve(numbers.hessian(x, 1.0) + 0.1 * np.eye(5), gradient)
        np.testing.assert_allclose(state.point.numpy(), x, rtol=0, atol=1e-10)


def test_the_iterates_are_those_of_a_plain_loop_with_draws_by_leverage(synthetic, trace):
    data, gamma, size, m = synthetic(300, 4, 1), 0.5, 40, 300
    oracle = data.oracle(gamma, 5, ElasticNet(l2=MU))
    states = trace(method(batch=size), oracle, data.start, 9)
    problem, generator, calls = data.numpy(), np.random.default_rng(5), 0
    previous = x = np.zeros(4)

    def terms(at):
        losses, gradients = problem.linearize(at)
        powers = np.exp(losses / gamma)
        return powers, (powers / gamma)[:, None] * gradients

    for step, state in enumerate(states[1:]):
        inner, jacobian = terms(x)
        if step % 3 == 0:
            y, z, calls = inner.mean(), jacobian.mean(axis=0), calls + m
            metric = problem.hessian(x, gamma) + MU * np.eye(4)
            slopes = expit(-problem.signed @ x)
            bends = inner / y * (slopes**2 / gamma + slopes * (1.0 - slopes))
            leverages = bends * np.einsum("ij,jk,ik->i", problem.signed, np.linalg.inv(metric), problem.signed) / m
            sums = np.cumsum(0.2 / m + 0.8 * leverages / leverages.sum())
        else:
            places = (np.arange(size) + generator.random(size)) / size * sums[-1]
            drawn = np.searchsorted(sums, places, side="right")
            weights = 1.0 / (size * m * np.diff(sums, prepend=0.0)[drawn])
            before = terms(previous)
            y = y + weights @ (inner - before[0])[drawn]
            z = z + weights @ (jacobian - before[1])[drawn]
            calls += 2 * np.unique(drawn).size
        previous, x = x, x - np.linalg.solve(metric, gamma * z / y + MU * x)
        np.testing.assert_allclose(state.point.numpy(), x, rtol=0, atol=1e-9)
    assert oracle.counters.sample_calls == calls
    # The matrix and the leverages of every look.
    assert oracle.counters.hessian_rows == 3 * 2 * m


@pytest.mark.parametrize("sampling", ["weighted", "uniform"])
def test_it_ends_at_the_known_optimum_whatever_the_seed(twenty, sampling):
    for seed in range(5):
        oracle = twenty.oracle(0.5, seed, ElasticNet(l2=0.1))
        found = end_of(method(batch=8, sampling=sampling), oracle, twenty.start, 60)
        np.testing.assert_allclose(found, KNOWN, rtol=0, atol=1e-7)


@pytest.mark.convergence
@pytest.mark.parametrize("gamma", [1.0, 0.05])
def test_eight_digits_in_thirty_passes_with_a_tenth_of_the_rows(synthetic, gamma):
    data = synthetic(1000, 8, 0)
    problem = data.numpy()
    _, least = problem.optimum(gamma, MU)
    for seed in range(5):
        oracle = data.oracle(gamma, seed, ElasticNet(l2=MU))
        found = end_of(method(batch=100), oracle, data.start, 29)
        assert oracle.passes <= 30.0
        assert problem.robust(found, gamma, MU)[0] - least < 1e-8


def test_draws_that_are_not_worth_it_are_left_out(synthetic, twenty, trace):
    # Thirty rows for three variables are more than a quarter of twenty; of a thousand they are less than a tenth.
    oracle = twenty.oracle(0.5, 0, ElasticNet(l2=0.1))
    assert [state.position for state in trace(method(), oracle, twenty.start, 4)] == [0] * 5
    assert oracle.counters.sample_calls == oracle.counters.hessian_rows == 4 * 20
    data = synthetic(1000, 3, 0)
    oracle = data.oracle(0.5, 0)
    states = trace(method(), oracle, data.start, 3)
    assert [state.position for state in states] == [0, 1, 2, 0]
    assert 1000 < oracle.counters.sample_calls <= 1000 + 2 * 2 * 100


def test_looks_grow_and_what_is_returned_was_tried_on_fresh_rows(synthetic, trace):
    data, gamma = synthetic(2000, 4, 2), 0.5
    problem, start = data.numpy(), data.start + 1.0
    for seed in range(5):
        solver = method(first_batch=30, growth=4.0, batch=200)
        oracle = data.oracle(gamma, seed, ElasticNet(l2=MU))
        states = trace(solver, oracle, start, 7)
        # 30, 120, 480, each with a try; 1920 would be more than three tenths.
        assert [state.looked for state in states] == [0, 30, 30, 120, 120, 480, 480, 2000]
        assert oracle.counters.sample_calls == (30 + 2 * 7) + (120 + 2 * 30) + (480 + 2 * 120) + 2000
        assert oracle.counters.hessian_rows == 30 + 120 + 480 + 2 * 2000
        assert torch.equal(solver.solution(states[1]), start)
        first, last = (problem.robust(at.numpy(), gamma, MU)[0] for at in (start, solver.solution(states[6])))
        assert last < first - 0.1
        assert torch.equal(solver.solution(states[7]), states[6].point)


def test_a_step_is_kept_or_undone_by_what_it_does_on_fresh_rows(synthetic, trace):
    # Ten rows say little about four variables without a price on them.
    data, solver, kept = synthetic(2000, 4, 3), method(first_batch=10), []
    for seed in range(5):
        states = trace(solver, data.oracle(0.05, seed, Zero()), data.start, 6)
        for look, tried in zip(states[1:6:2], states[2:7:2], strict=True):
            kept.append(torch.equal(tried.point, look.point))
            factor = 1.9 if kept[-1] else 0.5
            assert tried.safeguard.step_size == min(1.0, factor * look.safeguard.step_size)
            assert torch.equal(solver.solution(tried), look.point if kept[-1] else solver.solution(look))
            assert torch.equal(tried.point, look.point if kept[-1] else look.previous)
    assert 0 < sum(kept) < len(kept)


def test_looks_reach_all_rows_however_slowly_they_grow(synthetic):
    data = synthetic(200, 4, 3)
    states = run(method(first_batch=10, growth=1.05), data.oracle(0.5, 0), data.start, 60)
    assert states[-1].looked == 200


@pytest.mark.convergence
def test_a_sketch_converges_with_more_variables_than_products(synthetic):
    data = synthetic(2000, 60, 0)
    problem, oracle = data.numpy(), data.oracle(1.0, 0, ElasticNet(l2=MU))
    point = end_of(method(largest_matrix=59, rank=20), oracle, data.start, 80)
    assert problem.robust(point, 1.0, MU)[0] - problem.optimum(1.0, MU)[1] < 1e-8
    assert oracle.counters.hessian_rows == 0


def test_the_products_of_a_sketch_are_counted(synthetic, trace):
    data = synthetic(400, 6, 0)
    oracle = data.oracle(1.0, 0, ElasticNet(l2=MU))
    trace(method(largest_matrix=5, rank=4, sampling="uniform", inner_steps=0), oracle, data.start, 3)
    # Half a pass each: fifty rows for each of four products.
    assert oracle.counters.hessian_products == 3 * 4 * 50
    assert oracle.counters.sample_calls == 3 * (400 + 4 * 50)


@pytest.mark.parametrize(("rank", "share"), [(4, 0.87), (16, 0.96)])
def test_a_network_goes_down_by_products(rank, share):
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(60, 3, generator=generator, dtype=torch.float64)
    targets = torch.where(features[:, 0] * features[:, 1] > 0, 1.0, -1.0).to(torch.float64)

    def scores(point, rows):
        return torch.tanh(rows @ point[:12].view(3, 4)) @ point[12:]

    losses = NetworkLosses(scores, 16, features, targets, LogisticLoss())
    start = 0.5 * torch.randn(16, generator=generator, dtype=torch.float64)
    values = outputs(method(batch=15, rank=rank), RobustRisk(losses, KLPenalty(1.0), ElasticNet()), start, 20)
    assert max(np.diff(values)) <= 1e-12
    assert values[-1] < share * values[0]


def test_an_l1_part_is_solved_to_its_optimality_conditions(synthetic):
    data, regularizer = synthetic(200, 6, 2), ElasticNet(0.03, 0.01)
    point = torch.from_numpy(end_of(method(batch=60), data.oracle(0.5, 0, regularizer), data.start))
    rest = regularizer.least_subgradient(point, data.kl(0.5, regularizer).smooth_gradient(point))
    assert float(rest.norm()) < 1e-7
    assert 0 < int((point == 0).sum()) < 6


def test_what_it_cannot_do_is_refused_by_name(twenty):
    oracle = twenty.oracle(0.5, 0, ElasticNet(0.1, 0.1))
    with pytest.raises(DrobenchError, match=r"preconditioned_gcivr.*largest_matrix=2.*solver=lbfgs"):
        method(largest_matrix=2).init(twenty.start, oracle, SingleProcess())
    refused = {"growth": 1.0, "batch": 0, "first_batch": 0, "rank": 0, "largest_matrix": 0, "inner_steps": -1}
    for name, value in refused.items():
        with pytest.raises(SettingError, match=f"PreconditionedGcivrConfig.{name} .*`{name}=`"):
            method(**{name: value})
    with pytest.raises(SettingError, match="sampling must be one of weighted, uniform; found 'foo'"):
        method(sampling="foo")


STAGED = [*product((KLBall(0.1), CVaR(0.3)), ({}, {"batch": 20})), (Chi2Ball(0.5), {"first_batch": 20})]


@pytest.mark.parametrize(("ambiguity", "settings"), STAGED, ids=str)
def test_from_stage_to_stage_the_problem_itself_never_gets_worse(ambiguity, settings):
    form, start = RobustRisk(rough(), ambiguity, ElasticNet(l2=1e-3)), torch.zeros(4, dtype=torch.float64)
    route, solver, state = find_route(form, (Composite,), ReformulationConfig()), method(**settings), None
    values = [float(form.value(start))]
    for number, stage in enumerate(route.stages):
        # Not at rest: whatever the clock does, nothing unmeasured goes on.
        now = CompositeOracle(stage, number, start), SingleProcess()
        state = solver.init(route.lift(start), *now) if state is None else solver.sharpen(state, *now)
        for _ in range(6):
            values.append(float(form.value(route.recover(solver.solution(state)))))
            state = solver.step(state, *now)
    assert max(np.diff(values)) <= 1e-9
    assert values[-1] < values[0] - 1e-3


@pytest.mark.parametrize("seed", range(3))
def test_no_output_rises_on_badly_scaled_rows(seed):
    solvers = method(batch=1), method(batch=12, inner_steps=9), method(batch=12, largest_matrix=1, rank=2)
    for solver, gamma in product(solvers, (1.0, 0.05, 1e-4)):
        form = RobustRisk(rough(seed), KLPenalty(gamma), ElasticNet(l2=1e-3))
        values = outputs(solver, form, torch.ones(4, dtype=torch.float64), 20, seed)
        assert max(np.diff(values)) <= 1e-12
        assert values[-1] < values[0] - 0.1


# What becomes of the rows, the temperature, and the price on the parameters.
HARD = {
    "one heavy row": (lambda rows: torch.cat([1000.0 * rows[:1], rows[1:]]), 0.05, MU),
    "twice the same columns": (lambda rows: torch.cat([rows, rows[:, :2]], dim=1), 0.3, 0.0),
    "all rows alike": (lambda rows: rows[:1].expand(400, -1), 1.0, MU),
    "fewer rows than variables": (lambda rows: rows[:3], 1.0, MU),
    "a single row": (lambda rows: rows[:1], 1.0, MU),
    "weights that underflow": (lambda rows: rows, 1e-4, MU),
}


@pytest.mark.parametrize("name", HARD)
def test_the_gradient_vanishes_on_hard_data_too(synthetic, name):
    data, (change, gamma, mu) = synthetic(400, 5, 0), HARD[name]
    rows = change(data.rows * data.signs[:, None])
    data = type(data)(rows, torch.ones(len(rows), dtype=torch.float64))
    for solver in (method(batch=40), method(batch=40, first_batch=40)):
        optimum = end_of(solver, data.oracle(gamma, 1, ElasticNet(l2=mu)), data.start)
        assert np.linalg.norm(data.numpy().robust(optimum, gamma, mu)[1]) < 1e-6
        # A start that is optimal stays.
        values = outputs(solver, data.robust(gamma, ElasticNet(l2=mu)), torch.from_numpy(optimum), 5)
        assert max(values) - min(values) < 1e-9


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_rows_that_are_no_numbers_leave_the_start(synthetic, number):
    data = synthetic(400, 5, 0)
    data.rows[3, 1] = number
    for solver in (method(batch=40), method(batch=40, largest_matrix=1, rank=2)):
        np.testing.assert_array_equal(end_of(solver, data.oracle(1.0, 0), data.start + 1.0, 6), np.ones(5))


def test_single_precision(twenty):
    losses = LinearMarginLosses(twenty.rows.float(), twenty.signs.float(), LogisticLoss())
    route = find_route(RobustRisk(losses, KLPenalty(0.5), ElasticNet(l2=0.1)), (Composite,), ReformulationConfig())
    found = end_of(method(batch=8), CompositeOracle(route.form, 0, twenty.start.float()), twenty.start.float())
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, KNOWN, rtol=0, atol=1e-3)

"""ASC-PG against a plain loop with the same draws, its schedule, and how near it comes to the optimum."""

import numpy as np
import pytest
import torch
from composite_samples import KINDS, composite_sample, half_spaces

from drobench.objective.ambiguity_sets import KLBall
from drobench.objective.composite import Composite
from drobench.objective.composites.functions import FunctionComposite
from drobench.objective.forms import RobustRisk
from drobench.objective.oracles.composite import CompositeOracle
from drobench.objective.regularizers import ElasticNet
from drobench.reformulation.reformulation import ReformulationConfig
from drobench.reformulation.routes import find_route
from drobench.registry import NeedsNotMet, check_requirements
from drobench.solver import SingleProcess
from drobench_plugins.solvers.asc_pg import AscPg, AscPgConfig, entry


@pytest.mark.parametrize("decay", ["convex", "strongly_convex"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_iterates_are_those_of_a_plain_loop(synthetic, trace, kind, decay):
    sample = composite_sample(kind, synthetic(60, 4, 0))
    oracle = sample.oracle(5)
    states = trace(AscPg(AscPgConfig(step_size=0.1, batch=6, delay=3, decay=decay)), oracle, sample.start, 60)
    generator, x, y = np.random.default_rng(5), sample.start.numpy(), None
    powers = (5 / 9, 4 / 9) if decay == "convex" else (1.0, 4 / 5)
    for k, state in enumerate(states[1:], start=1):
        a, b = 0.1 * (1 + (k - 1) / 3) ** -powers[0], k ** -powers[1]
        slopes = sample.terms(x, sample.draw(generator, 6)).mean()
        y = slopes.inner if y is None else y
        after = sample.prox(x - a * sample.direction(slopes, y), a)
        ahead = (1 - 1 / b) * x + after / b
        y = (1 - b) * y + b * sample.terms(ahead, sample.draw(generator, 6)).mean().inner
        x = after
        np.testing.assert_allclose(state.point.numpy(), x, rtol=0, atol=1e-11)
    assert oracle.counters.sample_calls == 60 * 12


def test_a_delay_of_one_is_the_published_schedule():
    for k in (1, 2, 10, 1000):
        assert AscPg(AscPgConfig(delay=1))._weights(k) == pytest.approx((k ** (-5 / 9), k ** (-4 / 9)), rel=1e-14)


def test_the_mean_of_the_extrapolated_points_is_the_present_one(half_square, trace):
    # For a linear inner map without noise the tracked value is therefore exact, which plain averaging is not.
    slopes = torch.tensor([1.0, 3.0], dtype=torch.float64)
    composite = FunctionComposite(
        1, 2, 1, ElasticNet(), inner=lambda point, numbers: slopes[numbers] * point, outer=half_square
    )
    start = torch.ones(1, dtype=torch.float64)
    states = trace(AscPg(AscPgConfig(step_size=0.02)), CompositeOracle(composite, 0, start), start, 40)
    for state in states[1:]:
        assert state.inner_value.item() == pytest.approx(2.0 * state.point.item(), abs=1e-13)


@pytest.mark.convergence
def test_it_comes_nearer_to_the_optimum_than_a_hundredth(synthetic):
    data, mu = synthetic(1024, 10, 0), 1e-2
    data = data._replace(rows=data.rows * 10.0 ** (torch.arange(10, dtype=torch.float64) / 9) / 2)  # well conditioned
    problem, oracle, alone = data.numpy(), data.oracle(1.0, 0, ElasticNet(l2=mu)), SingleProcess()
    least, most = problem.optimum(1.0, mu)[1], problem.robust(np.zeros(10), 1.0, mu)[0]
    solver = AscPg(AscPgConfig(step_scale=0.1, delay=10))
    state = solver.init(data.start, oracle, alone)
    while oracle.passes < 40.0:
        state = solver.step(state, oracle, alone)
    assert problem.robust(state.point.numpy(), 1.0, mu)[0] - least < 5e-3 * (most - least)


def test_a_temperature_that_is_a_variable_is_refused_in_words(synthetic):
    data = synthetic(60, 3, 0)
    risk = RobustRisk(data.losses, KLBall(0.3), ElasticNet(l2=0.1))
    route = find_route(risk, (Composite,), ReformulationConfig(gamma=0.05))
    with pytest.raises(NeedsNotMet, match=r"'asc_pg' requires .* exponentials of a fixed temperature"):
        check_requirements(entry(), route.form)


def test_on_all_rows_it_solves_a_smoothed_constrained_problem(trace):
    # Few rows at a time do not: the exponential of a noisy extrapolated point is far above that of the point.
    oracle, start, least = half_spaces()
    solver = AscPg(AscPgConfig(step_size=0.01, batch=30))
    state = trace(solver, oracle, start, 800)[-1]
    form = oracle.materialise()
    assert float(form.value(solver.solution(state))) - least < 1e-3 * (float(form.value(start)) - least)

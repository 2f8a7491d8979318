"""The oracle of a constrained problem: objective, surrogates and violations, counted apart."""

from dataclasses import replace

import torch
from oracle_samples import DIMENSION, START

from drobench.objective.oracle import Counters
from drobench.objective.oracles.constrained import ConstrainedOracle


def test_a_constrained_problem_counts_objective_surrogates_and_rates(constrained, random_points):
    oracle = ConstrainedOracle(constrained(), 0, START)
    points, rows = random_points(0, 2, DIMENSION), oracle.draw(7, 3)
    oracle.objective(points, rows)
    assert oracle.counters == Counters(sample_calls=14, loss_gradients=14)
    oracle.surrogates(points, rows)
    expected = Counters(sample_calls=14, loss_gradients=14, constraint_checks=6, inner_values=6, inner_jacobians=6)
    assert oracle.counters == expected
    oracle.violations(points, rows)
    assert oracle.counters == replace(expected, constraint_checks=12, inner_values=12)
    assert oracle.counters.oracle_calls == 26


def test_a_constrained_oracle_returns_the_rows_asked_for(constrained, random_points):
    form = constrained()
    oracle, points = ConstrainedOracle(form, 0, START), random_points(0, 2, DIMENSION)
    rows = oracle.draw(None, 3)
    directions = form.constraints.directions[rows.constraints]
    surrogates, pullback = oracle.surrogates(points, rows)
    assert torch.equal(surrogates, points @ directions.T - 1.0)
    cotangents = random_points(1, 2, 1, 3)
    assert torch.equal(pullback(cotangents), cotangents @ directions)
    assert torch.equal(oracle.violations(points, rows), (surrogates > 0).double())
    torch.testing.assert_close(
        oracle.objective(points, rows)[1][0], form.objective.smooth_gradient(points[0]), rtol=1e-13, atol=0
    )
    assert oracle.features is form.constraints.features
    assert oracle.materialise() is form

"""The oracle of a finite sum: gradients counted, means returned."""

import torch
from oracle_samples import DIMENSION, SAMPLES, START

from drobench.objective.oracle import Counters
from drobench.objective.oracles.finite_sum import FiniteSumOracle
from drobench.objective.regularizers import ElasticNet


def test_a_finite_sum_counts_gradients(finite_sum, random_points):
    oracle = FiniteSumOracle(finite_sum(), 0, START)
    oracle.estimate(random_points(0, 2, DIMENSION), oracle.draw(5))
    oracle.estimate(random_points(0, 1, DIMENSION), oracle.draw())
    assert oracle.counters == Counters(sample_calls=10 + SAMPLES, loss_gradients=10 + SAMPLES)
    assert oracle.passes == (10 + SAMPLES) / SAMPLES


def test_a_finite_sum_oracle_returns_means_over_its_rows(finite_sum, random_points):
    form = finite_sum(ElasticNet(0.1, 0.2))
    oracle, points = FiniteSumOracle(form, 0, START), random_points(0, 2, DIMENSION)
    rows = oracle.draw(5)
    values, gradients = oracle.estimate(points, rows)
    expected = torch.stack([form.losses.values(point)[rows.samples].mean() for point in points])
    torch.testing.assert_close(values, expected, rtol=1e-13, atol=0)
    assert gradients.shape == (2, DIMENSION)
    full = oracle.estimate(points[:1], oracle.draw())[1][0]
    torch.testing.assert_close(full, form.smooth_gradient(points[0]), rtol=1e-14, atol=0)
    assert torch.equal(oracle.regularizer_gradient(points[0]), 0.2 * points[0] + 0.1 * points[0].sign())
    assert oracle.materialise() is form

"""The oracle of a saddle problem: operators and projections."""

import torch
from oracle_samples import SAMPLES, Bilinear

from drobench.objective.oracle import Counters
from drobench.objective.oracles.min_max import MinMaxOracle


def test_a_saddle_problem_counts_operators_and_projections():
    oracle = MinMaxOracle(Bilinear(), 0, torch.zeros(1, dtype=torch.float64))
    joint = oracle.start(torch.zeros(1, dtype=torch.float64))
    assert oracle.counters == Counters()
    oracle.operator(joint, oracle.draw(5))
    oracle.operator(joint, oracle.draw())
    oracle.project(joint)
    oracle.project(joint)
    oracle.project(joint)
    assert oracle.counters == Counters(sample_calls=5 + SAMPLES, loss_gradients=5 + SAMPLES, projections=3)


def test_a_saddle_oracle_returns_operator_and_projection():
    form = Bilinear()
    oracle = MinMaxOracle(form, 0, torch.zeros(1, dtype=torch.float64))
    joint = torch.tensor([3.0, -0.5], dtype=torch.float64)
    assert oracle.operator(joint, oracle.draw()).tolist() == [-0.5, -3.0]
    assert oracle.project(joint).tolist() == [1.0, -0.5]
    assert oracle.start(joint[:1]).tolist() == [3.0, 1.0]
    assert oracle.materialise() is form

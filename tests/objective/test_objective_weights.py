"""Weights made fit for an adversary: the nearest under a cap, and the way to the uniform ones."""

import cvxpy as cp
import pytest
import torch

from drobench.objective.weights import normalised, pulled_inside, under_cap

WEIGHTS = torch.tensor([0.9, -0.2, 0.3, 0.05, 0.4], dtype=torch.float64)


def test_normalised_weights_have_no_negative_ones():
    found = normalised(WEIGHTS)
    assert found.tolist() == pytest.approx([0.9 / 1.65, 0.0, 0.3 / 1.65, 0.05 / 1.65, 0.4 / 1.65])


@pytest.mark.parametrize("cap", [0.2, 0.25, 0.6, 1.0])
def test_under_a_cap_they_are_the_nearest(cap):
    found = cp.Variable(5)
    program = cp.Problem(
        cp.Minimize(cp.sum_squares(found - WEIGHTS.numpy())), [cp.sum(found) == 1, found >= 0, found <= cap]
    )
    program.solve(solver=cp.CLARABEL)
    assert under_cap(WEIGHTS, cap).tolist() == pytest.approx(found.value.tolist(), abs=1e-4)


def test_what_is_outside_is_pulled_just_inside():
    def allowed(weights):
        return float(weights.max()) <= 0.3

    found = pulled_inside(WEIGHTS, allowed)
    assert allowed(found)
    assert float(found.max()) == pytest.approx(0.3, rel=1e-12)
    # On the straight line to the uniform weights.
    start = normalised(WEIGHTS)
    shares = (found - start) / (0.2 - start)
    assert shares.tolist() == pytest.approx([float(shares[0])] * 5)
    assert torch.equal(pulled_inside(WEIGHTS, lambda weights: True), start)

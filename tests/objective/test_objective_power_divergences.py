"""Cressie-Read balls of any order against cvxpy and enumeration."""

import cvxpy as cp
import numpy as np
import pytest
import torch

from drobench.errors import SettingError
from drobench.objective.ambiguity_sets import Chi2Ball, KLBall
from drobench.objective.power_divergences import CressieReadBall, CressieReadPenalty, power_divergence

LOSSES = torch.from_numpy(np.random.default_rng(3).gamma(1.0, 1.0, 15))


def by_cvxpy(losses, order, radius):
    weights, samples = cp.Variable(losses.numel(), nonneg=True), losses.numel()
    ratios = samples * weights
    powers = cp.power(ratios, order, approx=False) - order * ratios + order - 1
    distance = cp.sum(powers) / (samples * order * (order - 1))
    program = cp.Problem(cp.Maximize(weights @ losses.numpy()), [cp.sum(weights) == 1, distance <= radius])
    program.solve(solver=cp.CLARABEL)
    return program.value


@pytest.mark.parametrize("radius", [0.05, 0.5, 3.0])
@pytest.mark.parametrize("order", [1.2, 1.5, 2.0, 3.0, 5.0])
def test_the_worst_case_is_that_of_a_convex_solver(order, radius):
    ball = CressieReadBall(order, radius)
    assert float(ball.worst_case(LOSSES)) == pytest.approx(by_cvxpy(LOSSES, order, radius), abs=1e-6)
    weights = ball.weights(LOSSES)
    assert ball.penalty(weights) == 0.0
    assert float(weights.dot(LOSSES)) == pytest.approx(float(ball.worst_case(LOSSES)), abs=1e-9)


@pytest.mark.parametrize("order", [1.5, 2.0, 4.0])
def test_nobody_within_the_ball_does_better(order):
    """Every direction from the uniform weights, as far as the ball goes."""
    ball, losses = CressieReadBall(order, 0.3), torch.tensor([0.1, 0.5, 1.3], dtype=torch.float64)
    grid = torch.linspace(0.0, 1.0, 300, dtype=torch.float64)
    first, second = torch.meshgrid(grid, grid, indexing="ij")
    weights = torch.stack([first, second, 1.0 - first - second], dim=-1).reshape(-1, 3)
    weights = weights[weights[:, 2] >= 0.0]
    inside = power_divergence(3.0 * weights, order).mean(dim=1) <= 0.3
    best = float((weights[inside] @ losses).max())
    assert best <= float(ball.worst_case(losses)) <= best + 0.01


def test_at_order_two_it_is_chi_square_and_near_one_kl():
    for radius in (0.0, 0.2, 2.0, 50.0):
        two = CressieReadBall(2.0, radius)
        torch.testing.assert_close(two.worst_case(LOSSES), Chi2Ball(radius).worst_case(LOSSES), rtol=1e-11, atol=0)
        torch.testing.assert_close(two.weights(LOSSES), Chi2Ball(radius).weights(LOSSES), rtol=0, atol=1e-7)
    near = CressieReadBall(1.0 + 1e-6, 0.4).worst_case(LOSSES)
    torch.testing.assert_close(near, KLBall(0.4).worst_case(LOSSES), rtol=1e-4, atol=0)


def test_ends():
    ball = CressieReadBall(1.5, 1e4)
    assert float(ball.worst_case(LOSSES)) == pytest.approx(float(LOSSES.max()), rel=1e-12)
    assert float(ball.weights(LOSSES)[LOSSES.argmax()]) == pytest.approx(1.0)
    equal = torch.full((4,), 0.3, dtype=torch.float64)
    for radius in (0.0, 0.3):
        assert float(CressieReadBall(3.0, radius).worst_case(equal)) == pytest.approx(0.3, rel=1e-14)
        assert CressieReadBall(3.0, radius).weights(equal).tolist() == [0.25] * 4
    assert float(CressieReadBall(3.0, 0.0).worst_case(LOSSES)) == float(LOSSES.mean())


def test_nearest_and_penalty():
    ball = CressieReadBall(3.0, 0.1)
    lopsided = torch.tensor([1.0, 0.0, 0.0, 0.0], dtype=torch.float64)
    assert ball.penalty(lopsided) == float("inf")
    found = ball.nearest(lopsided)
    distance = float(power_divergence(4.0 * found, 3.0).mean())
    assert distance == pytest.approx(0.1, rel=1e-9)
    assert ball.penalty(found) == 0.0
    uniform = torch.full((4,), 0.25, dtype=torch.float64)
    assert torch.equal(ball.nearest(uniform), uniform)


@pytest.mark.parametrize("order", [1.0, 0.5, -2.0, float("nan")])
def test_an_order_of_one_or_less_is_refused(order):
    for kind in (CressieReadBall, CressieReadPenalty):
        with pytest.raises(SettingError, match="order of a Cressie-Read divergence must be above 1"):
            kind(order, 0.5)

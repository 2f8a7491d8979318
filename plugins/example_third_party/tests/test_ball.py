"""The ball against brute force."""

import numpy as np
import pytest
import torch
from norm_ball_learning.ball import RidgeOnBall
from scipy.optimize import minimize

POINTS = [[0.3, -0.2, 0.1], [2.0, -1.0, 0.5], [0.0, 0.0, 0.0], [-0.6, 0.0, 0.8]]


@pytest.mark.parametrize("values", POINTS)
@pytest.mark.parametrize("step_size", [0.0, 0.5, 10.0])
def test_prox_minimises_its_definition(values, step_size):
    ball, point = RidgeOnBall(1.0, 0.4), torch.tensor(values, dtype=torch.float64)
    found = ball.prox(point, step_size).numpy()
    if step_size == 0.0:
        expected = np.array(values) / max(1.0, np.linalg.norm(values))
    else:
        expected = minimize(
            lambda y: 0.2 * y @ y + np.sum((y - values) ** 2) / (2 * step_size),
            np.zeros(3),
            constraints={"type": "ineq", "fun": lambda y: 1.0 - y @ y},
            options={"ftol": 1e-14},
        ).x
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_the_value_is_infinite_outside():
    ball = RidgeOnBall(1.0, 0.4)
    assert ball.value(torch.tensor([0.6, 0.8], dtype=torch.float64)).item() == pytest.approx(0.2)
    assert ball.value(torch.tensor([0.6, 0.9], dtype=torch.float64)).item() == np.inf


@pytest.mark.parametrize("values", [[0.3, -0.2, 0.1], [-0.6, 0.0, 0.8]])
def test_least_subgradient_supports_the_objective_from_below(values):
    """A subgradient s of q(y) + r(y) at x has q(y) + r(y) >= q(x) + r(x) + <s, y - x> for all y of the ball."""
    ball, point = RidgeOnBall(1.0, 0.4), torch.tensor(values, dtype=torch.float64)
    slope = torch.tensor([3.0, -1.0, -2.0], dtype=torch.float64)
    subgradient = ball.least_subgradient(point, slope)
    generator = torch.Generator().manual_seed(0)
    for _ in range(200):
        other = ball.prox(3.0 * torch.randn(3, generator=generator, dtype=torch.float64), 0.0)
        left = slope.dot(other) + ball.value(other)
        right = slope.dot(point) + ball.value(point) + subgradient.dot(other - point)
        assert left >= right - 1e-12
    assert subgradient.norm() <= (slope + 0.4 * point).norm() + 1e-12

"""The worst-case risk of a regression over a Wasserstein ball: against transport plans, and its lower bounds."""

import math

import numpy as np
import pytest
import torch
from regression_risks import COSTS, LOSSES, NORMS, ORDERS, ROWS, TARGETS, risk_of
from scipy.optimize import minimize

from drobench.errors import DrobenchError
from drobench.objective.losses import LinearTargetLosses
from drobench.objective.regularizers import ElasticNet
from drobench.objective.score_losses import LogisticLoss
from drobench.objective.wasserstein_regression import WassersteinRegressionRisk, joint_norm

POINT = torch.tensor([0.7, -0.4, 0.1, 0.3], dtype=torch.float64)


def cost_of(moves, norm, cost):
    """The distance that each row is moved, by its change of features and target."""
    features, target = moves[:, :-1], moves[:, -1:]
    joint = features if math.isinf(cost) else np.hstack([features, cost * target])
    return np.linalg.norm(joint, ord=ORDERS[norm], axis=1)


def moved_risk(risk, moves):
    """The mean loss after every row has been moved."""
    rows = ROWS.numpy().copy()
    rows[:, :3] += moves[:, :-1]
    targets = TARGETS.numpy() + (0.0 if math.isinf(risk.target_cost) else moves[:, -1])
    residuals = torch.from_numpy(rows @ POINT.numpy() - targets)
    return float(risk.losses.loss.of_residual(residuals)[0].mean())


@pytest.mark.parametrize("cost", COSTS)
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("loss", LOSSES)
def test_no_transport_within_the_ball_does_better(loss, norm, cost):
    """A thousand random ways to spend the radius, and the best of each after a local search."""
    risk = risk_of(loss, norm, cost)
    worst = float(risk.value(POINT))
    power = 2 if risk.squared else 1
    generator, found = np.random.default_rng(1), []
    for _ in range(1000):
        moves = generator.standard_normal((12, 4)) * generator.exponential(1.0, (12, 1)) ** 2
        spent = np.mean(cost_of(moves, norm, cost) ** power)
        found.append(moved_risk(risk, moves * (risk.radius / spent) ** (1.0 / power)))
    assert max(found) <= worst + 1e-12


@pytest.mark.parametrize("cost", COSTS)
@pytest.mark.parametrize("norm", NORMS)
def test_the_squared_worst_case_is_attained(norm, cost):
    """Every pair moves along the direction that the norm favours, in proportion to its residual."""
    risk = risk_of("squared", norm, cost)
    inner = POINT[:3].numpy()
    dual = inner if math.isinf(cost) else np.append(inner, -1.0 / cost)
    if norm == "l2":
        direction = dual / np.linalg.norm(dual)
    elif norm == "linf":
        direction = np.sign(dual)
    else:
        direction = np.sign(dual) * (np.arange(dual.size) == np.abs(dual).argmax())
    residuals = (ROWS @ POINT - TARGETS).numpy()
    scale = math.sqrt(risk.radius / np.mean(residuals**2))
    moves = np.zeros((12, 4))
    moves[:, : dual.size] = scale * residuals[:, None] * direction
    if not math.isinf(cost):
        moves[:, -1] /= cost
    assert np.mean(cost_of(moves, norm, cost) ** 2) == pytest.approx(risk.radius)
    assert moved_risk(risk, moves) == pytest.approx(float(risk.value(POINT)), rel=1e-12)


@pytest.mark.parametrize("cost", COSTS)
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("loss", ["absolute", "huber", "quantile"])
def test_the_lipschitz_worst_case_is_approached(loss, norm, cost):
    """A little mass of one row moves far away: the supremum, which nothing attains for losses that are not straight."""
    risk = risk_of(loss, norm, cost)
    inner = POINT[:3].numpy()
    size = np.linalg.norm(inner, ord=ORDERS[risk.dual_norm])
    size = size if math.isinf(cost) else np.linalg.norm(np.append(inner, 1 / cost), ord=ORDERS[risk.dual_norm])
    values = risk.losses.values(POINT)
    residuals = ROWS @ POINT - TARGETS
    far = 1e7
    rises = [
        float(risk.losses.loss.of_residual(residuals[:1] + side * size * far)[0] - values[0]) for side in (1.0, -1.0)
    ]
    share = risk.radius / far
    reached = float(values.mean()) + share * max(rises)
    assert reached == pytest.approx(float(risk.value(POINT)), rel=1e-5)


@pytest.mark.parametrize("cost", COSTS)
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("loss", LOSSES)
def test_the_gradient_is_that_of_the_value(loss, norm, cost):
    risk = risk_of(loss, norm, cost, l2=0.1)
    step = 1e-6
    differences = [
        float(risk.value(POINT + step * one) - risk.value(POINT - step * one)) / (2 * step)
        for one in torch.eye(4, dtype=torch.float64)
    ]
    found = risk.smooth_gradient(POINT) + risk.regularizer.gradient(POINT)
    torch.testing.assert_close(found, torch.tensor(differences, dtype=torch.float64), rtol=1e-6, atol=1e-7)


def test_without_a_radius_to_speak_of_it_is_least_squares():
    risk = risk_of("squared", "l2", math.inf, radius=1e-14)
    found = minimize(lambda at: float(risk.value(torch.from_numpy(at))), np.zeros(4), method="BFGS").x
    expected = np.linalg.lstsq(ROWS.numpy(), TARGETS.numpy(), rcond=None)[0]
    np.testing.assert_allclose(found, expected, atol=1e-4)


@pytest.mark.parametrize("norm", NORMS)
def test_the_joint_norm_and_its_derivatives(norm):
    for size in (0.3, 1.7):
        at = torch.tensor(size, dtype=torch.float64)
        value, rise, bend = joint_norm(at, 0.9, norm)
        assert float(value) == pytest.approx(np.linalg.norm([size, 0.9], ord=ORDERS[norm]))
        step = 1e-5
        ends = [joint_norm(at + side * step, 0.9, norm) for side in (1.0, -1.0)]
        assert float(rise) == pytest.approx(float(ends[0][0] - ends[1][0]) / (2 * step), abs=1e-8)
        assert float(bend) == pytest.approx(float(ends[0][1] - ends[1][1]) / (2 * step), abs=1e-8)


def test_a_loss_without_a_largest_slope_is_refused():
    logistic = LinearTargetLosses(ROWS, TARGETS.sign(), LogisticLoss())
    with pytest.raises(DrobenchError, match=r"finite worst case .*found LogisticLoss"):
        WassersteinRegressionRisk(logistic, 0.1, math.inf, "l2", ElasticNet())

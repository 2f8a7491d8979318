"""Wasserstein regression as a composite: value, gradient, second derivatives, and the way there and back."""

import math

import pytest
import torch

from drobench.objective.composite import Composite
from drobench.objective.forms import FiniteSum, MinMax
from drobench.objective.losses import LinearTargetLosses
from drobench.objective.regression_losses import HuberLoss, SquaredLoss
from drobench.objective.regularizers import ElasticNet
from drobench.objective.sampling import Rows
from drobench.objective.wasserstein_regression import WassersteinRegressionRisk
from drobench.reformulation.reformulation import ReformulationConfig
from drobench.reformulation.routes import NoRouteError, find_route

CASES = [
    (loss, norm, cost) for loss in ("squared", "huber") for norm in ("l1", "l2", "linf") for cost in (math.inf, 0.8)
]


@pytest.fixture(params=CASES, ids=str)
def risk(request, t20_rows):
    loss, norm, cost = request.param
    targets = torch.sin(torch.arange(20, dtype=torch.float64)) + 0.4
    losses = LinearTargetLosses(t20_rows, targets, SquaredLoss() if loss == "squared" else HuberLoss(0.5))
    return WassersteinRegressionRisk(losses, 0.05, cost, norm, ElasticNet(0.0, 0.1), 0)


@pytest.fixture
def route(risk):
    return find_route(risk, (Composite,), ReformulationConfig())


def test_at_the_norm_it_is_the_risk_and_above_it_more(risk, route, hat):
    best = torch.cat([hat, risk.bound(hat)[None]])
    assert route.names == ["wasserstein_residuals"]
    assert float(route.form.value(best)) == pytest.approx(float(risk.value(hat)), rel=1e-12)
    above = best + torch.tensor([0.0, 0.0, 0.0, 0.7], dtype=torch.float64)
    assert float(route.form.value(above)) >= float(route.form.value(best))
    assert float(route.form.value(best - (above - best))) == math.inf
    lifted = route.lift(hat)
    assert math.isfinite(float(route.form.value(lifted)))
    assert torch.equal(route.recover(lifted), hat)


def test_what_is_settled_is_scored_at_the_best_bound(risk, route, hat):
    lifted = torch.cat([hat, hat.new_tensor([2.0])])
    settled = route.form.settle(lifted, [route.form.everything()], lambda part: part, lambda part: part)
    assert settled.original == pytest.approx(float(risk.value(hat)), rel=1e-10)


def test_gradient_and_hessian_are_derivatives(risk, route, hat):
    form, point, step = route.form, torch.cat([hat, hat.new_tensor([1.6])]), 1e-6
    directions = torch.eye(4, dtype=torch.float64)

    def smooth(at):
        estimate = form.estimate(at[None], form.everything(), None)
        return float(form.outer.value(estimate.inner_value[0], estimate.shift) + estimate.loss_value[0])

    differences = [(smooth(point + step * one) - smooth(point - step * one)) / (2 * step) for one in directions]
    expected = torch.tensor(differences, dtype=torch.float64)
    torch.testing.assert_close(form.smooth_gradient(point), expected, rtol=1e-6, atol=1e-8)
    means = form.estimate(point[None], form.everything(), None)
    weights = form.outer.gradient(means.inner_value[0], means.shift)
    jacobian = means.inner_jacobian[0]
    hessian = form.hessian(point, form.everything(), weights, means.shift)
    hessian = hessian + jacobian.T @ form.outer.hessian(means.inner_value[0], means.shift) @ jacobian
    columns = [
        (form.smooth_gradient(point + step * one) - form.smooth_gradient(point - step * one)) / (2 * step)
        for one in directions
    ]
    torch.testing.assert_close(hessian, torch.stack(columns), rtol=1e-5, atol=1e-6)


def test_draws_are_unbiased(route, hat):
    form, point = route.form, route.lift(hat)
    whole = form.estimate(point[None], form.everything(), None)
    halves = [form.estimate(point[None], Rows(part), None) for part in torch.arange(20).split(10)]
    for name in ("inner_value", "inner_jacobian", "loss_gradient"):
        mean = 0.5 * (getattr(halves[0], name) + getattr(halves[1], name))
        torch.testing.assert_close(mean, getattr(whole, name))


def test_plain_risk_is_a_relaxation_and_there_is_no_saddle(risk):
    assert find_route(risk, (FiniteSum,), ReformulationConfig()).names == ["drop_robustness (relaxation)"]
    with pytest.raises(NoRouteError, match="reach: Composite, FiniteSum"):
        find_route(risk, (MinMax,), ReformulationConfig())

"""Native forms: values, gradients, convexity, and the stationarity measure."""

import cvxpy
import pytest
import torch
from torch.nn.functional import softplus

from drobench.objective.ambiguity_sets import KLPenalty
from drobench.objective.forms import FiniteSum, RobustRisk, stationarity
from drobench.objective.losses import SigmoidLoss
from drobench.objective.regularizers import Box, ElasticNet, Zero

DIMENSION = 4


@pytest.fixture(params=["finite_sum", "robust_risk"])
def form(request, margin_losses):
    """Build either form with a given regularizer."""

    def build(regularizer=None, **changes):
        losses = margin_losses(**changes)
        if request.param == "finite_sum":
            return FiniteSum(losses, regularizer or Zero())
        return RobustRisk(losses, KLPenalty(0.4), regularizer or Zero())

    return build


def smooth_part(form, point):
    """The objective without regularizer, by an independent formula."""
    losses = softplus(-(form.losses.signed_rows @ point))
    if isinstance(form, FiniteSum):
        return losses.mean()
    return 0.4 * (losses / 0.4).exp().mean().log()


def test_value_and_gradient_are_those_of_the_formula(form, random_points):
    built = form(ElasticNet(l1=0.2, l2=0.7))
    point = random_points(1, DIMENSION).requires_grad_(True)
    smooth = smooth_part(built, point)
    smooth.backward()
    point_value = point.detach()
    expected = smooth.detach() + 0.2 * point_value.abs().sum() + 0.35 * point_value.square().sum()
    torch.testing.assert_close(built.value(point_value), expected, rtol=1e-13, atol=0)
    torch.testing.assert_close(built.smooth_gradient(point_value), point.grad, rtol=1e-11, atol=1e-14)
    assert built.value(point_value).shape == ()
    assert built.dimension == DIMENSION


def test_convexity_follows_the_losses(form):
    assert form().convex
    assert not form(loss=SigmoidLoss()).convex


def test_an_adversary_may_destroy_convexity(margin_losses):
    class Spoiler(KLPenalty):
        keeps_convexity = False

    assert not RobustRisk(margin_losses(), Spoiler(1.0), Zero()).convex


def test_the_robust_risk_is_above_the_empirical_risk(margin_losses, random_points):
    losses = margin_losses()
    robust, empirical = RobustRisk(losses, KLPenalty(0.4), Zero()), FiniteSum(losses, Zero())
    for seed in range(5):
        point = random_points(seed, DIMENSION)
        assert robust.value(point) > empirical.value(point)


def test_without_regularizer_stationarity_is_the_squared_gradient(form, random_points):
    built = form()
    for seed in range(3):
        point = random_points(seed, DIMENSION)
        leaf = point.clone().requires_grad_(True)
        smooth_part(built, leaf).backward()
        expected = leaf.grad.square().sum()
        torch.testing.assert_close(stationarity(built, point), expected, rtol=1e-11, atol=0)
        assert stationarity(built, point).shape == ()


def test_stationarity_with_a_regularizer_is_the_gradient_mapping_of_step_one(form, random_points):
    built = form(ElasticNet(l1=0.3, l2=0.5))
    point = random_points(2, DIMENSION)
    moved = point - built.smooth_gradient(point)
    shrunk = moved.sign() * (moved.abs() - 0.3).clamp(min=0) / 1.5
    torch.testing.assert_close(stationarity(built, point), (point - shrunk).square().sum(), rtol=1e-13, atol=0)


@pytest.mark.parametrize(
    ("regularizer", "penalty", "conditions"),
    [
        (
            ElasticNet(l1=0.05, l2=0.1),
            lambda x: 0.05 * cvxpy.norm1(x) + 0.05 * cvxpy.sum_squares(x),
            lambda x: [],
        ),
        (Box(-0.2, 0.3), lambda x: 0.0, lambda x: [x >= -0.2, x <= 0.3]),
    ],
    ids=["elastic_net", "box"],
)
def test_stationarity_vanishes_at_the_optimum_only(form, regularizer, penalty, conditions):
    built = form(regularizer, samples=30)
    rows = built.losses.signed_rows.numpy()
    x = cvxpy.Variable(DIMENSION)
    losses = cvxpy.logistic(-rows @ x)
    if isinstance(built, FiniteSum):
        smooth = cvxpy.sum(losses) / 30
    else:
        bound = cvxpy.Variable(30)
        smooth = 0.4 * cvxpy.log_sum_exp(bound / 0.4)
    limits = [] if isinstance(built, FiniteSum) else [losses <= bound]
    cvxpy.Problem(cvxpy.Minimize(smooth + penalty(x)), conditions(x) + limits).solve(solver="CLARABEL")
    optimum = torch.from_numpy(x.value)
    elsewhere = regularizer.prox(optimum + 0.1, 1e-9)
    assert float(stationarity(built, optimum)) < 1e-9
    assert float(stationarity(built, elsewhere)) > 1e-4
    assert float(built.value(regularizer.prox(optimum, 1e-12))) < float(built.value(elsewhere))

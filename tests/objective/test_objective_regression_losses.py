"""Losses of residuals: values, derivatives, convexity, conjugates, and themselves in cvxpy."""

import cvxpy as cp
import numpy as np
import pytest
import torch

from drobench.objective.regression_losses import AbsoluteLoss, HuberLoss, QuantileLoss, SquaredLoss
from drobench.objective.score_losses import HingeLoss, LogisticLoss, SigmoidLoss, SmoothedHingeLoss

RESIDUAL = {
    "squared": (SquaredLoss(), lambda r: r**2),
    "huber": (HuberLoss(0.7), lambda r: np.where(abs(r) <= 0.7, r**2 / 2, 0.7 * (abs(r) - 0.35))),
    "absolute": (AbsoluteLoss(), abs),
    "quantile": (QuantileLoss(0.8), lambda r: np.maximum(0.2 * r, -0.8 * r)),
}
MARGIN = {
    "logistic": LogisticLoss(),
    "sigmoid": SigmoidLoss(),
    "hinge": HingeLoss(),
    "smoothed_hinge": SmoothedHingeLoss(0.3),
}
LOSSES = {name: loss for name, (loss, _) in RESIDUAL.items()} | MARGIN
CONVEX = [name for name in LOSSES if name != "sigmoid"]


@pytest.fixture
def rows(request):
    """Scores that are at no kink, and targets that fit the loss."""
    generator = torch.Generator().manual_seed(1)
    scores = 2.0 * torch.randn(40, generator=generator, dtype=torch.float64)
    targets = torch.randn(40, generator=generator, dtype=torch.float64)
    return scores, targets.sign() if request.node.callspec.params["name"] in MARGIN else targets


@pytest.mark.parametrize("name", RESIDUAL)
def test_the_value_is_the_formula(name, rows):
    (scores, targets), (loss, formula) = rows, RESIDUAL[name]
    expected = formula((scores - targets).numpy())
    np.testing.assert_allclose(loss.value_and_slope(scores, targets)[0].numpy(), expected, rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("name", LOSSES)
def test_derivatives_are_those_of_finite_differences(name, rows):
    (scores, targets), loss, step = rows, LOSSES[name], 1e-5
    above, below = (loss.value_and_slope(scores + side * step, targets) for side in (1.0, -1.0))
    _, slopes = loss.value_and_slope(scores, targets)
    torch.testing.assert_close(slopes, (above[0] - below[0]) / (2 * step), rtol=1e-7, atol=1e-8)
    bends = loss.score_bend(scores, targets)
    torch.testing.assert_close(bends, (above[1] - below[1]) / (2 * step), rtol=1e-6, atol=1e-6)
    assert float(bends.abs().max()) <= loss.largest_bend


@pytest.mark.parametrize("name", [name for name in LOSSES if name not in ("hinge", "absolute", "quantile")])
def test_the_bound_on_the_curvature_is_reached(name):
    scores = torch.linspace(-6.0, 6.0, 4001, dtype=torch.float64)
    bends = LOSSES[name].score_bend(scores, torch.ones_like(scores))
    assert float(bends.abs().max()) == pytest.approx(LOSSES[name].largest_bend, rel=1e-3)


@pytest.mark.parametrize("name", LOSSES)
def test_convexity_is_what_is_claimed(name):
    grid = torch.linspace(-5.0, 5.0, 1001, dtype=torch.float64)
    _, slopes = LOSSES[name].value_and_slope(grid, torch.ones_like(grid))
    assert bool((slopes.diff() >= -1e-12).all()) == LOSSES[name].convex


@pytest.mark.parametrize("name", CONVEX)
def test_the_conjugate_is_the_largest_difference(name, rows):
    (scores, targets), loss = rows, LOSSES[name]
    _, slopes = loss.value_and_slope(scores, targets)
    # At the score whose slope it is, the inequality of Fenchel is an equation.
    equal = slopes * scores - loss.value_and_slope(scores, targets)[0]
    torch.testing.assert_close(loss.conjugate(slopes, targets), equal, rtol=1e-10, atol=1e-10)
    grid = torch.linspace(-20.0, 20.0, 801, dtype=torch.float64)[:, None]
    differences = slopes * grid - loss.value_and_slope(grid.expand(-1, 40), targets.expand(801, -1))[0]
    assert bool((differences <= loss.conjugate(slopes, targets) + 1e-9).all())


@pytest.mark.parametrize("name", ["absolute", "quantile", "hinge"])
def test_slopes_between_those_beside_a_kink_have_finite_conjugates(name):
    loss = LOSSES[name]
    kink = torch.tensor([1.0], dtype=torch.float64)
    target = torch.ones_like(kink)
    low, high = loss.slope_range(kink, target, 1e-6)
    assert float(high - low) == pytest.approx({"absolute": 2.0}.get(name, 1.0))
    grid = torch.linspace(-9.0, 9.0, 1801, dtype=torch.float64)
    for share in (0.0, 0.3, 1.0):
        slope = low + share * (high - low)
        differences = slope * grid - loss.value_and_slope(grid, target.expand(1801))[0]
        assert float(differences.max()) == pytest.approx(float(loss.conjugate(slope, target)), abs=1e-9)


@pytest.mark.parametrize("name", CONVEX)
def test_the_expression_of_cvxpy_has_the_same_values(name, rows):
    (scores, targets), loss = rows, LOSSES[name]
    expression = loss.expression(cp.Constant(scores.numpy()), targets.numpy())
    assert expression.is_convex()
    np.testing.assert_allclose(expression.value, loss.value_and_slope(scores, targets)[0].numpy(), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", RESIDUAL)
def test_the_largest_slope_is_that_of_far_residuals(name):
    loss = LOSSES[name]
    far = torch.tensor([-1e6, 1e6], dtype=torch.float64)
    _, slopes = loss.value_and_slope(far, torch.zeros_like(far))
    if name != "squared":
        assert float(slopes.abs().max()) == loss.largest_slope
    else:
        assert loss.largest_slope == float("inf")

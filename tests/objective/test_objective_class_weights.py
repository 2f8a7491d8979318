"""Losses weighted by class: against the weighted losses by hand, finite differences and cvxpy."""

import cvxpy as cp
import numpy as np
import pytest
import torch

from drobench.objective.class_weights import ClassWeightedLoss, balanced_weights
from drobench.objective.losses import CrossEntropyLoss, HingeLoss, LogisticLoss, SigmoidLoss, SmoothedHingeLoss

WEIGHTS = (0.5, 3.0)
SCORES = torch.linspace(-3.0, 2.9, 24, dtype=torch.float64)
SIGNS = torch.tensor([1.0, -1.0, -1.0] * 8, dtype=torch.float64)
OF_ROWS = torch.where(SIGNS > 0, WEIGHTS[1], WEIGHTS[0])
BINARY = (LogisticLoss(), HingeLoss(), SmoothedHingeLoss(0.5), SigmoidLoss())


@pytest.mark.parametrize("loss", BINARY)
def test_losses_and_derivatives_are_those_of_the_loss_times_the_weight(loss):
    weighted = ClassWeightedLoss(loss, WEIGHTS)
    values, slopes = weighted.value_and_slope(SCORES, SIGNS)
    torch.testing.assert_close(values, OF_ROWS * loss.of_margin(SCORES * SIGNS)[0])
    step = 1e-6
    above, below = (weighted.value_and_slope(SCORES + side * step, SIGNS) for side in (1, -1))
    torch.testing.assert_close((above[0] - below[0]) / (2 * step), slopes, rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(
        (above[1] - below[1]) / (2 * step), weighted.score_bend(SCORES, SIGNS), rtol=1e-5, atol=1e-8
    )
    assert bool((weighted.score_bend(SCORES, SIGNS).abs() <= weighted.largest_bend).all())


def test_several_classes():
    generator = torch.Generator().manual_seed(3)
    scores = torch.randn(12, 3, generator=generator, dtype=torch.float64, requires_grad=True)
    targets, weights = torch.arange(12) % 3, (1.0, 2.0, 0.25)
    weighted = ClassWeightedLoss(CrossEntropyLoss(), weights)
    values, slopes = weighted.value_and_slope(scores, targets)
    expected = torch.nn.functional.cross_entropy(
        scores, targets, weight=torch.tensor(weights, dtype=torch.float64), reduction="none"
    )
    torch.testing.assert_close(values, expected)
    torch.testing.assert_close(slopes, torch.autograd.grad(expected.sum(), scores)[0])
    bends = weighted.bends(scores.detach(), targets)
    of_row = torch.func.hessian(lambda row: weighted.value_and_slope(row[None], targets[5:6])[0][0])
    torch.testing.assert_close(bends[5], of_row(scores.detach()[5]))


@pytest.mark.parametrize("loss", [LogisticLoss(), HingeLoss(), SmoothedHingeLoss(0.5)])
def test_conjugates_are_the_largest_differences(loss):
    weighted = ClassWeightedLoss(loss, WEIGHTS)
    grid = torch.linspace(-60.0, 60.0, 60001, dtype=torch.float64)
    # Slopes that the loss has: a part of its steepest, which are -1 by the margin.
    for sign, weight in ((1.0, 3.0), (-1.0, 0.5)):
        slope = torch.tensor([-0.3 * sign * weight], dtype=torch.float64)
        target = torch.tensor([sign], dtype=torch.float64)
        values, _ = weighted.value_and_slope(grid, target.expand_as(grid))
        expected = (slope * grid - values).max()
        torch.testing.assert_close(weighted.conjugate(slope, target)[0], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("loss", [LogisticLoss(), HingeLoss(), SmoothedHingeLoss(0.5)])
def test_the_expression_of_a_convex_program_is_the_loss(loss):
    weighted = ClassWeightedLoss(loss, WEIGHTS)
    variable = cp.Variable(SCORES.numel())
    variable.value = SCORES.numpy()
    found = weighted.expression(variable, SIGNS.numpy())
    assert found.is_convex()
    np.testing.assert_allclose(found.value, weighted.value_and_slope(SCORES, SIGNS)[0].numpy(), rtol=1e-12)
    assert ClassWeightedLoss(SigmoidLoss(), WEIGHTS).expression(variable, SIGNS.numpy()) is None


def test_a_kink_is_as_wide_as_the_weight():
    low, high = ClassWeightedLoss(HingeLoss(), WEIGHTS).slope_range(
        torch.tensor([1.0, -1.0]), torch.tensor([1.0, -1.0]), 1e-3
    )
    torch.testing.assert_close(low, torch.tensor([-3.0, 0.0]))
    torch.testing.assert_close(high, torch.tensor([0.0, 0.5]))


def test_balanced_weights_are_those_of_scikit_learn():
    from sklearn.utils.class_weight import compute_class_weight

    labels = np.repeat([0, 1, 2], [50, 7, 3])
    expected = compute_class_weight("balanced", classes=np.arange(3), y=labels)
    np.testing.assert_allclose(balanced_weights(torch.bincount(torch.from_numpy(labels))), expected)
    assert balanced_weights(torch.tensor([4, 0])) == [0.5, 2.0]

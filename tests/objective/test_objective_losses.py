"""Losses of margins and of linear scores, against exact arithmetic and automatic differentiation."""

from decimal import Decimal, localcontext

import pytest
import torch
from torch.nn.functional import softplus

from drobench.objective.losses import LinearMarginLosses, LogisticLoss, SigmoidLoss

# The smallest normal number: below it no function can be accurate to the last digits.
TINY = 2.3e-308
# Around the branch of softplus, at the ends of exp, at tiny arguments, and a grid in between.
MARGINS = sorted(
    {sign * value for value in (0.0, 1e-300, 1e-17, 1e-8, 19.9, 20.1, 36.5, 39.9, 40.0, 40.1, 50.0) for sign in (-1, 1)}
    | {float(margin) for margin in range(-800, 801, 25)}
    | {0.37 * step for step in range(-60, 61, 7)}
)
INDICES = {
    "all": slice(None),
    "slice": slice(3, 9),
    "strided": slice(1, None, 3),
    "tensor": torch.tensor([7, 0, 4]),
    "repeated": torch.tensor([5, 5, 2, 5, 11]),
}


def exactly(function):
    """Evaluate `function` of exp(-t) at all margins with 400 digits."""
    with localcontext() as context:
        context.prec = 400
        return torch.tensor([float(function((-Decimal(t)).exp())) for t in MARGINS], dtype=torch.float64)


@pytest.mark.parametrize(
    ("loss", "value", "slope"),
    [
        (LogisticLoss(), lambda e: (1 + e).ln(), lambda e: -e / (1 + e)),
        (SigmoidLoss(), lambda e: e / (1 + e), lambda e: -e / (1 + e) ** 2),
    ],
    ids=["logistic", "sigmoid"],
)
class TestMargins:
    def test_values_are_accurate_to_the_last_digits(self, loss, value, slope):
        found, _ = loss.of_margin(torch.tensor(MARGINS, dtype=torch.float64))
        torch.testing.assert_close(found, exactly(value), rtol=1e-15, atol=TINY)

    def test_slopes_are_accurate_to_the_last_digits(self, loss, value, slope):
        _, found = loss.of_margin(torch.tensor(MARGINS, dtype=torch.float64))
        torch.testing.assert_close(found, exactly(slope), rtol=1e-15, atol=TINY)

    def test_single_precision_does_not_overflow(self, loss, value, slope):
        values, slopes = loss.of_margin(torch.tensor(MARGINS, dtype=torch.float32))
        assert values.dtype == slopes.dtype == torch.float32
        # The rounding of the margin itself moves a value by up to |t| units of relative rounding.
        torch.testing.assert_close(values.double(), exactly(value), rtol=1e-5, atol=1e-37)
        torch.testing.assert_close(slopes.double(), exactly(slope), rtol=0, atol=1e-7)

    def test_labels_turn_scores_into_margins(self, loss, value, slope, random_points):
        scores = random_points(1, 2, 5)
        labels = torch.tensor([1.0, -1.0, -1.0, 1.0, -1.0], dtype=torch.float64)
        values, slopes = loss.value_and_slope(scores, labels)
        leaf = scores.clone().requires_grad_(True)
        expected, _ = loss.of_margin(leaf * labels)
        expected.sum().backward()
        torch.testing.assert_close(values, expected.detach(), rtol=1e-15, atol=0)
        torch.testing.assert_close(slopes, leaf.grad, rtol=1e-13, atol=0)


def test_the_logistic_loss_is_convex_and_the_sigmoid_is_not():
    assert LogisticLoss.convex
    assert not SigmoidLoss.convex


def by_autograd(function, points, cotangents):
    """Return values and pullback of `function(point) -> (rows,)` by ordinary backward passes."""
    values, gradients = [], []
    for point, of_point in zip(points, cotangents, strict=True):
        leaf = point.clone().requires_grad_(True)
        output = function(leaf)
        values.append(output.detach())
        gradients.append([torch.autograd.grad(output, leaf, one, retain_graph=True)[0] for one in of_point])
    return torch.stack(values), torch.stack([torch.stack(rows) for rows in gradients])


@pytest.mark.parametrize("loss", [LogisticLoss(), SigmoidLoss()], ids=["logistic", "sigmoid"])
@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES)
def test_linear_losses_agree_with_automatic_differentiation(loss, index, random_points):
    rows = random_points(0, 12, 4)
    signs = torch.where(random_points(1, 12) > 0, 1.0, -1.0).double()
    points = random_points(2, 2, 4)
    chosen, labels = rows[index], signs[index]
    cotangents = random_points(3, 2, 3, chosen.shape[0])

    def direct(point):
        margins = labels * (chosen @ point)
        return softplus(-margins) if isinstance(loss, LogisticLoss) else torch.sigmoid(-margins)

    values, pullback = LinearMarginLosses(rows, signs, loss).linearize(points, index)
    expected, gradients = by_autograd(direct, points, cotangents)
    torch.testing.assert_close(values, expected, rtol=1e-13, atol=0)
    torch.testing.assert_close(pullback(cotangents), gradients, rtol=1e-12, atol=1e-14)


def test_linear_losses_know_their_shape_and_convexity(margin_losses):
    losses = margin_losses(samples=9, inputs=5)
    assert (losses.samples, losses.dimension, losses.convex) == (9, 5, True)
    assert not margin_losses(loss=SigmoidLoss()).convex


def test_linear_losses_take_one_point_as_well_as_three(margin_losses, random_points):
    losses, points = margin_losses(), random_points(4, 3, 4)
    values, pullback = losses.linearize(points, slice(0, 5))
    cotangents = random_points(5, 3, 1, 5)
    for k in range(3):
        alone, pullback_alone = losses.linearize(points[k : k + 1], slice(0, 5))
        torch.testing.assert_close(values[k], alone[0], rtol=1e-14, atol=0)
        torch.testing.assert_close(
            pullback(cotangents)[k], pullback_alone(cotangents[k : k + 1])[0], rtol=1e-13, atol=0
        )


@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES)
def test_mean_is_the_average_over_the_rows(index, margin_losses, random_points):
    losses, points = margin_losses(), random_points(6, 2, 4)
    means, gradients = losses.mean(points, index)
    assert means.shape == (2,)
    for k in range(2):
        leaf = points[k].clone().requires_grad_(True)
        average = softplus(-(losses.signed_rows[index] @ leaf)).mean()
        average.backward()
        assert float(means[k]) == pytest.approx(average.item(), rel=1e-13)
        torch.testing.assert_close(gradients[k], leaf.grad, rtol=1e-12, atol=1e-15)


def test_values_are_the_losses_of_all_samples_at_one_point(margin_losses, random_points):
    losses, point = margin_losses(), random_points(7, 4)
    torch.testing.assert_close(losses.values(point), softplus(-(losses.signed_rows @ point)), rtol=1e-13, atol=0)


@pytest.mark.parametrize("empty", [slice(4, 4), torch.tensor([], dtype=torch.long)], ids=["slice", "tensor"])
def test_no_rows_have_the_mean_zero(empty, margin_losses, random_points):
    losses = margin_losses()
    mean, gradient = losses.mean(random_points(1, 2, losses.dimension), empty)
    assert mean.tolist() == [0.0, 0.0]
    assert torch.equal(gradient, torch.zeros(2, losses.dimension, dtype=torch.float64))

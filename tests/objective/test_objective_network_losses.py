"""Losses of networks, against functional gradients and automatic differentiation."""

import pytest
import torch
from torch.nn.functional import cross_entropy, softplus

from drobench.objective.network_losses import NetworkLosses
from drobench.objective.score_losses import LogisticLoss, ScoreLoss

INDICES = {"all": slice(None), "slice": slice(3, 9), "repeated": torch.tensor([5, 5, 2, 5, 11])}


class SquaredError(ScoreLoss):
    """`(s - y)^2 / 2`: not a loss of the margin."""

    convex = True

    def value_and_slope(self, scores, targets):
        return 0.5 * (scores - targets).square(), scores - targets


class CrossEntropy(ScoreLoss):
    """Several scores for each row."""

    convex = True

    def value_and_slope(self, scores, targets):
        slopes = torch.softmax(scores, dim=-1) - torch.nn.functional.one_hot(targets, scores.shape[-1])
        return cross_entropy(scores, targets, reduction="none"), slopes


def by_autograd(function, points, cotangents):
    """Return values and pullback of `function(point) -> (rows,)` by ordinary backward passes."""
    values, gradients = [], []
    for point, of_point in zip(points, cotangents, strict=True):
        leaf = point.clone().requires_grad_(True)
        output = function(leaf)
        values.append(output.detach())
        gradients.append([torch.autograd.grad(output, leaf, one, retain_graph=True)[0] for one in of_point])
    return torch.stack(values), torch.stack([torch.stack(rows) for rows in gradients])


def network_losses(random_points, loss=None, outputs=1):
    """A hand-written network with a smooth hidden layer on three features."""

    def scores(point, features):
        hidden = torch.tanh(features @ point[:12].view(3, 4) + point[12:16])
        return (hidden @ point[16:].view(4, outputs)).squeeze(-1)

    features = random_points(10, 12, 3)
    signs = torch.where(random_points(11, 12) > 0, 1.0, -1.0).double()
    if outputs > 1:
        signs = (torch.arange(12) % outputs).long()
    return scores, NetworkLosses(scores, 16 + 4 * outputs, features, signs, loss or LogisticLoss())


@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES)
def test_network_losses_agree_with_functional_gradients(index, random_points):
    scores, losses = network_losses(random_points)
    features, signs = losses.features[index], losses.targets[index]
    points = random_points(12, 2, 20)
    cotangents = random_points(13, 2, 3, features.shape[0])

    def single(point, row, sign):
        return softplus(-sign * scores(point, row[None])[0])

    values, pullback = losses.linearize(points, index)
    per_row = torch.func.vmap(torch.func.grad_and_value(single), in_dims=(None, 0, 0))
    for k in range(2):
        gradients, expected = per_row(points[k], features, signs)
        torch.testing.assert_close(values[k], expected, rtol=1e-13, atol=0)
        torch.testing.assert_close(pullback(cotangents)[k], cotangents[k] @ gradients, rtol=1e-11, atol=1e-13)


def test_the_pullback_of_a_network_may_be_used_again(random_points):
    _, losses = network_losses(random_points)
    points, cotangents = random_points(12, 2, 20), random_points(13, 2, 1, 12)
    _, pullback = losses.linearize(points, slice(None))
    assert torch.equal(pullback(cotangents), pullback(cotangents))


def test_network_losses_work_where_gradients_are_switched_off(random_points):
    _, losses = network_losses(random_points)
    points, cotangents = random_points(12, 1, 20), random_points(13, 1, 1, 12)
    values, pullback = losses.linearize(points, slice(None))
    with torch.no_grad():
        same_values, same_pullback = losses.linearize(points, slice(None))
    assert not same_values.requires_grad
    assert torch.equal(values, same_values)
    assert torch.equal(pullback(cotangents), same_pullback(cotangents))


def test_network_losses_weigh_all_scores_of_a_row(random_points):
    scores, losses = network_losses(random_points, CrossEntropy(), outputs=3)
    points, cotangents = random_points(12, 2, 28), random_points(13, 2, 2, 4)
    index = torch.tensor([0, 5, 5, 7])
    expected, gradients = by_autograd(
        lambda point: cross_entropy(scores(point, losses.features[index]), losses.targets[index], reduction="none"),
        points,
        cotangents,
    )
    values, pullback = losses.linearize(points, index)
    torch.testing.assert_close(values, expected, rtol=1e-13, atol=0)
    torch.testing.assert_close(pullback(cotangents), gradients, rtol=1e-11, atol=1e-13)


def test_losses_need_not_be_losses_of_a_margin(random_points):
    scores, losses = network_losses(random_points, SquaredError())
    points = random_points(12, 1, 20)
    leaf = points[0].clone().requires_grad_(True)
    average = 0.5 * (scores(leaf, losses.features) - losses.targets).square().mean()
    average.backward()
    mean, gradient = losses.mean(points, slice(None))
    assert mean.item() == pytest.approx(average.item(), rel=1e-13)
    torch.testing.assert_close(gradient[0], leaf.grad, rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("empty", [slice(4, 4), torch.tensor([], dtype=torch.long)], ids=["slice", "tensor"])
def test_no_rows_have_the_mean_zero(empty, random_points):
    _, losses = network_losses(random_points)
    mean, gradient = losses.mean(random_points(1, 2, 20), empty)
    assert mean.tolist() == [0.0, 0.0]
    assert torch.equal(gradient, torch.zeros(2, 20, dtype=torch.float64))

"""Losses of any score function: values, pullbacks and Hessian products against differences and closed forms."""

import pytest
import torch

from drobench.objective.losses import CrossEntropyLoss, LinearScoreLosses, LogisticLoss
from drobench.objective.network_losses import NetworkLosses
from drobench.objective.regression_losses import HuberLoss, SquaredLoss

ROWS, COLUMNS, CLASSES = 12, 3, 4
INDEX = torch.tensor([4, 0, 4, 11])


def bent(point, rows):
    """A score that is no linear function of the parameters."""
    return torch.tanh(rows @ point[:COLUMNS]) * point[COLUMNS] + point[COLUMNS].square()


@pytest.fixture
def losses(random_points, request):
    loss = getattr(request, "param", SquaredLoss())
    targets = random_points(1, ROWS)
    targets = targets.sign() if isinstance(loss, LogisticLoss) else targets
    return NetworkLosses(bent, COLUMNS + 1, random_points(0, ROWS, COLUMNS), targets, loss)


EVERY = pytest.mark.parametrize(
    "losses", [SquaredLoss(), HuberLoss(0.7), LogisticLoss()], indirect=True, ids=["squared", "huber", "logistic"]
)


@EVERY
def test_pullbacks_are_those_of_finite_differences(losses, random_points):
    points, cotangents, step = random_points(2, 2, COLUMNS + 1), random_points(3, 2, 2, len(INDEX)), 1e-6
    values, pullback = losses.linearize(points, INDEX)
    found = pullback(cotangents)
    assert values.shape == (2, len(INDEX))
    for axis, direction in enumerate(torch.eye(COLUMNS + 1, dtype=torch.float64)):
        ends = [losses.linearize(points + side * step * direction, INDEX)[0] for side in (1.0, -1.0)]
        slopes = (ends[0] - ends[1]) / (2.0 * step)
        expected = (cotangents * slopes[:, None]).sum(dim=-1)
        torch.testing.assert_close(found[..., axis], expected, rtol=1e-6, atol=1e-7)


@EVERY
def test_hessian_products_are_those_of_finite_differences(losses, random_points):
    point, vector, step = random_points(4, COLUMNS + 1), random_points(5, COLUMNS + 1), 1e-6
    outer, curve = random_points(6, len(INDEX)), random_points(7, len(INDEX))
    found = losses.hessian_product(point, INDEX, outer, curve, vector)
    _, gradients = losses.row_gradients(point, INDEX)
    ends = [losses.linearize((point + side * step * vector)[None], INDEX)[1] for side in (1.0, -1.0)]
    above, below = (pullback(curve[None, None])[0, 0] for pullback in ends)
    expected = gradients.T @ (outer * (gradients @ vector)) + (above - below) / (2.0 * step)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


def test_several_linear_scores_are_the_closed_form(random_points):
    rows, targets = random_points(0, ROWS, COLUMNS), torch.arange(ROWS) % CLASSES
    closed = LinearScoreLosses(rows, CLASSES, targets, CrossEntropyLoss())
    general = NetworkLosses(
        lambda point, some: some @ point.view(CLASSES, -1).T, CLASSES * COLUMNS, rows, targets, CrossEntropyLoss()
    )
    points, cotangents = random_points(1, 2, CLASSES * COLUMNS), random_points(2, 2, 1, len(INDEX))
    for one, other in zip(closed.linearize(points, INDEX), general.linearize(points, INDEX), strict=True):
        mine, theirs = (part(cotangents) if callable(part) else part for part in (one, other))
        torch.testing.assert_close(mine, theirs, rtol=1e-11, atol=1e-12)
    outer, curve, vector = random_points(3, ROWS), random_points(4, ROWS), random_points(5, CLASSES * COLUMNS)
    arguments = (points[0], slice(None), outer, curve, vector)
    torch.testing.assert_close(closed.hessian_product(*arguments), general.hessian_product(*arguments))


def test_nothing_is_called_convex_or_given_a_matrix(losses):
    assert not losses.convex
    assert losses.has_hessian_products
    assert not losses.has_hessian
    assert losses.origin().shape == (COLUMNS + 1,)

"""Composites with a dual variable of their own: the same function written plainly, differentiated by torch."""

import pytest
import torch
from torch.nn.functional import softplus
from two_writings import DIMENSION, SAMPLES, ZERO, MeanAndVariance

from drobench.errors import DrobenchError
from drobench.objective.composite import Composite
from drobench.objective.composites.functions import FunctionComposite
from drobench.objective.composites.lifted import DualTerms, DualTransform, LiftedComposite
from drobench.objective.composites.losses import LossTerms
from drobench.objective.regularizers import ElasticNet
from drobench.objective.sampling import Rows

REGULARIZER = ElasticNet(l2=0.2)


class LossTimesDual(DualTransform):
    """`g = (f u, f^2)` and `h = (f - u)^2 / 2`: each part depends on the loss and on the dual variable."""

    outputs = 2
    has_losses = True
    duals = 1

    def apply(self, losses, duals, shift):
        ones, zeros = torch.ones_like(losses), torch.zeros_like(losses)
        terms = LossTerms(
            torch.stack([losses * duals, losses.square()], dim=1),
            torch.stack([duals * ones, 2 * losses], dim=1),
            0.5 * (losses - duals).square(),
            losses - duals,
            losses.new_zeros(()),
        )
        return DualTerms(terms, torch.stack([losses, zeros], dim=1)[:, :, None], (duals - losses)[:, None])


def plainly(losses):
    def loss_of(point, numbers):
        return softplus(-(losses.signed_rows[numbers] @ point[:-1]))

    def inner(point, numbers):
        values = loss_of(point, numbers)
        return torch.stack([values * point[-1], values.square()], dim=1)

    return FunctionComposite(
        DIMENSION + 1,
        SAMPLES,
        2,
        REGULARIZER,
        inner=inner,
        outer=MeanAndVariance(),
        loss=lambda point, numbers: 0.5 * (loss_of(point, numbers) - point[-1]).square(),
    )


@pytest.fixture
def both(margin_losses):
    losses = margin_losses()
    return LiftedComposite(losses, LossTimesDual(), MeanAndVariance(), REGULARIZER), plainly(losses)


FIELDS = ("inner_value", "inner_jacobian", "loss_gradient")


@pytest.mark.parametrize("index", [slice(None), slice(2, 7), torch.tensor([3, 3, 9])], ids=["all", "slice", "repeated"])
def test_means_and_terms_of_rows_are_those_of_the_plain_function(index, both, random_points):
    lifted, plain = both
    points, rows = random_points(1, 2, DIMENSION + 1), Rows(index)
    found, expected = lifted.estimate(points, rows, ZERO), plain.estimate(points, rows, ZERO)
    for field in (*FIELDS, "loss_value"):
        torch.testing.assert_close(getattr(found, field), getattr(expected, field), rtol=1e-12, atol=1e-14, msg=field)
    found, expected = lifted.row_terms(points[0], rows, ZERO), plain.row_terms(points[0], rows, ZERO)
    for field in FIELDS:
        torch.testing.assert_close(getattr(found, field), getattr(expected, field), rtol=1e-12, atol=1e-14, msg=field)


def test_value_and_gradient_are_those_of_the_plain_function(both, random_points):
    lifted, plain = both
    point = random_points(2, DIMENSION + 1)
    assert lifted.dimension == DIMENSION + 1
    torch.testing.assert_close(lifted.value(point), plain.value(point), rtol=1e-13, atol=0)
    torch.testing.assert_close(lifted.smooth_gradient(point), plain.smooth_gradient(point), rtol=1e-11, atol=1e-13)


def test_the_change_is_the_difference_of_two_estimates(both, random_points):
    lifted, _ = both
    points, rows = random_points(3, 2, DIMENSION + 1), Rows(torch.tensor([0, 5, 7]))
    found, expected = lifted.change(points, rows, ZERO), Composite.change(lifted, points, rows, ZERO)
    for field in FIELDS:
        torch.testing.assert_close(
            torch.as_tensor(getattr(found, field)), torch.as_tensor(getattr(expected, field)), rtol=1e-11, atol=1e-14
        )


def test_its_shift_cannot_be_moved_between_refreshes(both):
    with pytest.raises(DrobenchError, match="fixed between refreshes"):
        both[0].rescale(ZERO, ZERO, ZERO + 1.0)

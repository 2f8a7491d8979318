"""What all losses inherit: differences of pullbacks, gradients of rows, and no losses at all."""

import pytest
import torch

from drobench.errors import DrobenchError
from drobench.objective.loss_contract import Losses, NoLosses, difference_of


class Squares(Losses):
    """`f_i(x) = x_i^2`, which brings nothing but what it must."""

    convex = True
    samples = dimension = 3

    def origin(self):
        return torch.zeros(3, dtype=torch.float64)

    def linearize(self, points, index):
        picked = points[:, index]

        def pullback(cotangents):
            whole = torch.zeros(*cotangents.shape[:2], 3, dtype=points.dtype)
            whole[..., index] = 2.0 * cotangents * picked[:, None]
            return whole

        return picked.square(), pullback


POINTS = torch.tensor([[1.0, 2.0, 3.0], [0.0, 1.0, -1.0]], dtype=torch.float64)


def test_a_difference_of_pullbacks_is_that_of_two():
    _, pullback = Squares().linearize(POINTS, slice(None))
    ones = torch.ones(2, 1, 3, dtype=torch.float64)
    assert difference_of(pullback)(ones, 0.5).tolist() == [[1.0, 1.0, 4.0]]
    assert Squares().mean_gradient_difference(POINTS, slice(None)).tolist() == pytest.approx([2 / 3, 2 / 3, 8 / 3])


def test_gradients_of_rows_are_picked_out_one_by_one():
    values, gradients = Squares().row_gradients(POINTS[0], slice(None))
    assert values.tolist() == [1.0, 4.0, 9.0]
    assert torch.equal(gradients, torch.diag(2.0 * POINTS[0]))


def test_what_a_loss_does_not_bring_is_said():
    ones = torch.ones(3, dtype=torch.float64)
    losses = Squares()
    assert not any((losses.has_hessian, losses.has_hessian_products, losses.has_leverages))
    with pytest.raises(DrobenchError, match="Squares has no matrix of second derivatives"):
        losses.hessian(POINTS[0], slice(None), ones, ones)


def test_no_losses_have_no_gradient():
    nothing = NoLosses(POINTS[0])
    values, pullback = nothing.linearize(POINTS, slice(None))
    assert values.shape == (2, 0)
    assert not bool(pullback(values[:, None]).any())

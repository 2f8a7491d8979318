"""Losses of a linear score and a target: closed forms against automatic differentiation."""

import pytest
import torch

from drobench.objective.linear_losses import LinearMarginLosses, LinearTargetLosses
from drobench.objective.network_losses import NetworkLosses
from drobench.objective.regression_losses import AbsoluteLoss, HuberLoss, SquaredLoss
from drobench.objective.score_losses import LogisticLoss

ROWS, COLUMNS = 30, 4
INDEX = {"all": slice(None), "some": slice(3, 20), "drawn": torch.tensor([5, 2, 2, 29])}


@pytest.fixture
def table(random_points):
    return random_points(0, ROWS, COLUMNS), random_points(1, ROWS)


def general(table, loss):
    rows, targets = table
    return NetworkLosses(lambda point, some: some @ point, COLUMNS, rows, targets, loss)


@pytest.mark.parametrize("index", INDEX)
@pytest.mark.parametrize("loss", [SquaredLoss(), HuberLoss(0.5), AbsoluteLoss()], ids=["squared", "huber", "absolute"])
class TestTargets:
    def test_values_and_pullbacks(self, table, random_points, loss, index):
        points, where = random_points(2, 2, COLUMNS), INDEX[index]
        mine, other = LinearTargetLosses(*table, loss), general(table, loss)
        values, pullback = mine.linearize(points, where)
        expected, by_autograd = other.linearize(points, where)
        torch.testing.assert_close(values, expected, rtol=1e-12, atol=1e-13)
        cotangents = random_points(3, 2, 3, values.shape[1])
        torch.testing.assert_close(pullback(cotangents), by_autograd(cotangents), rtol=1e-11, atol=1e-12)
        _, difference = mine.linearize_difference(points, where)
        here, there = by_autograd(cotangents)
        torch.testing.assert_close(difference(cotangents, 0.5), 0.5 * (here - there), rtol=1e-10, atol=1e-11)
        torch.testing.assert_close(
            mine.mean_gradient_difference(points, where), other.mean_gradient_difference(points, where)
        )

    def test_second_derivatives(self, table, random_points, loss, index):
        point, where = random_points(2, COLUMNS), INDEX[index]
        mine, other = LinearTargetLosses(*table, loss), general(table, loss)
        size = mine.linearize(point[None], where)[0].shape[1]
        outer, curve, vector = random_points(4, size), random_points(5, size), random_points(6, COLUMNS)
        matrix = mine.hessian(point, where, outer, curve)
        product = mine.hessian_product(point, where, outer, curve, vector)
        torch.testing.assert_close(matrix @ vector, product, rtol=1e-10, atol=1e-11)
        expected = other.hessian_product(point, where, outer, curve, vector)
        torch.testing.assert_close(product, expected, rtol=1e-9, atol=1e-10)

    def test_a_convex_loss_stays_convex(self, table, loss, index):
        assert LinearTargetLosses(*table, loss).convex
        assert LinearTargetLosses(*table, loss).has_hessian


def test_margins_are_the_case_in_which_targets_are_signs(table, random_points):
    rows, signs = table[0], table[1].sign()
    points = random_points(2, 2, COLUMNS)
    folded, plain = LinearMarginLosses(rows, signs, LogisticLoss()), LinearTargetLosses(rows, signs, LogisticLoss())
    for index in INDEX.values():
        torch.testing.assert_close(folded.linearize(points, index)[0], plain.linearize(points, index)[0])
    ones = torch.ones(ROWS, dtype=torch.float64)
    torch.testing.assert_close(
        folded.hessian(points[0], slice(None), ones, ones), plain.hessian(points[0], slice(None), ones, ones)
    )

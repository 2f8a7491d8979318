"""Composites written as functions: a step by hand, and the agreement with the same composite over losses."""

import pytest
import torch
from two_writings import DIMENSION, PAIRS, SAMPLES, ZERO

from drobench.objective.composites.functions import FunctionComposite
from drobench.objective.outer_functions import OuterFunction
from drobench.objective.regularizers import ElasticNet
from drobench.objective.sampling import Rows

INDICES = {
    "all": slice(None),
    "slice": slice(2, 7),
    "tensor": torch.tensor([9, 1, 4]),
    "repeated": torch.tensor([3, 3]),
}


@pytest.mark.parametrize("name", PAIRS)
class TestTwoWritings:
    @pytest.mark.parametrize("index", INDICES.values(), ids=INDICES)
    def test_the_estimates_agree(self, name, index, margin_losses, random_points):
        one, other = (build(margin_losses()) for build in PAIRS[name])
        points, rows = random_points(20, 2, DIMENSION), Rows(index)
        first, second = one.estimate(points, rows, ZERO), other.estimate(points, rows, ZERO)
        for field in ("inner_value", "inner_jacobian", "loss_value", "loss_gradient"):
            found, expected = getattr(first, field), getattr(second, field)
            torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-14, msg=field)

    def test_value_and_gradient_agree(self, name, margin_losses, random_points):
        one, other = (build(margin_losses()) for build in PAIRS[name])
        for seed in range(3):
            point = random_points(seed, DIMENSION)
            torch.testing.assert_close(one.value(point), other.value(point), rtol=1e-13, atol=0)
            torch.testing.assert_close(one.smooth_gradient(point), other.smooth_gradient(point), rtol=1e-11, atol=1e-13)

    def test_the_gradient_is_the_finite_difference_of_the_smooth_part(self, name, margin_losses, random_points):
        point, width = random_points(30, DIMENSION), 1e-5
        for build in PAIRS[name]:
            form = build(margin_losses())

            def smooth(x, form=form):
                return form.value(x) - form.regularizer.value(x)

            differences = torch.stack(
                [
                    (smooth(point + width * axis) - smooth(point - width * axis)) / (2 * width)
                    for axis in torch.eye(DIMENSION, dtype=torch.float64)
                ]
            )
            torch.testing.assert_close(form.smooth_gradient(point), differences, rtol=0, atol=1e-9)

    def test_shapes_and_flags(self, name, margin_losses, random_points):
        outputs = {"moments": 2, "tilted": 1, "plain": 0}[name]
        for build in PAIRS[name]:
            form = build(margin_losses())
            assert (form.samples, form.constraints, form.dimension) == (SAMPLES, 0, DIMENSION)
            assert form.outputs == outputs
            assert form.has_losses == (name != "tilted")
            for k in (1, 3):
                estimate = form.estimate(random_points(0, k, DIMENSION), Rows(torch.tensor([0, 5])), None)
                assert estimate.inner_value.shape == (k, outputs)
                assert estimate.inner_jacobian.shape == (k, outputs, DIMENSION)
                assert estimate.loss_value.shape == (k,)
                assert estimate.loss_gradient.shape == (k, DIMENSION)
                assert estimate.inner_floor.shape == (k, outputs)
                assert estimate.shift.shape == ()
            assert form.value(random_points(1, DIMENSION)).shape == ()

    def test_an_empty_part_of_a_draw_adds_nothing(self, name, margin_losses, random_points):
        # With more processes than rows some hold no row; their share is zero and their means must be finite.
        for build in PAIRS[name]:
            estimate = build(margin_losses()).estimate(random_points(0, 2, DIMENSION), Rows(slice(5, 5)), ZERO)
            for field in ("inner_value", "inner_jacobian", "loss_value", "loss_gradient"):
                assert not getattr(estimate, field).any(), (build, field)


def test_a_composite_with_neither_part_is_its_regularizer(random_points):
    form = FunctionComposite(DIMENSION, SAMPLES, 0, ElasticNet(l2=2.0))
    point = random_points(0, DIMENSION)
    assert float(form.value(point)) == pytest.approx(float(point @ point), rel=1e-15)
    assert torch.equal(form.smooth_gradient(point), torch.zeros(DIMENSION, dtype=torch.float64))


def test_the_hand_calculated_step():
    # g_i = a_i x with a = (1, 3), f = y^2 / 2, h_i = c_i x^2 / 2 with c = (0, 2), r = |x| / 10.
    factors, curvatures = torch.tensor([1.0, 3.0]).double(), torch.tensor([0.0, 2.0]).double()

    class HalfSquare(OuterFunction):
        def value(self, inner_value, shift):
            return 0.5 * inner_value[0].square()

        def gradient(self, inner_value, shift):
            return inner_value

    form = FunctionComposite(
        1,
        2,
        1,
        ElasticNet(l1=0.1),
        inner=lambda point, numbers: factors[numbers] * point[0],
        outer=HalfSquare(),
        loss=lambda point, numbers: 0.5 * curvatures[numbers] * point[0].square(),
    )
    start = torch.tensor([1.0], dtype=torch.float64)
    estimate = form.estimate(start[None], form.everything(), None)
    assert estimate.inner_value.tolist() == [[2.0]]
    assert estimate.inner_jacobian.tolist() == [[[2.0]]]
    assert estimate.loss_gradient.tolist() == [[1.0]]
    assert form.smooth_gradient(start).tolist() == [5.0]
    assert float(form.value(start)) == pytest.approx(0.1 + 0.5 + 2.0, rel=1e-15)
    second = form.regularizer.prox(start - 0.1 * form.smooth_gradient(start), 0.1)
    assert second.tolist() == pytest.approx([49 / 100], rel=1e-15)
    step = form.estimate(torch.stack([second, start]), Rows(torch.tensor([0])), ZERO)
    moved = 2.0 + step.inner_value[0] - step.inner_value[1]
    assert moved.tolist() == pytest.approx([149 / 100], rel=1e-15)
    assert (1.0 + step.loss_gradient[0] - step.loss_gradient[1]).tolist() == [1.0]

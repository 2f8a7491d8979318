"""The composite form: the same problem written in several ways, shapes, the bound on inner means, the shift."""

import numpy as np
import pytest
import torch
from torch.nn.functional import softplus

from drobench.objective.composites.functions import FunctionComposite
from drobench.objective.composites.losses import LossComposite, LossTerms, LossTransform, PlainLosses
from drobench.objective.losses import NetworkLosses, SigmoidLoss
from drobench.objective.oracles.composite import CompositeOracle
from drobench.objective.outer_functions import NoOuter, OuterFunction, ScaledLog
from drobench.objective.regularizers import ElasticNet, Zero
from drobench.objective.sampling import Rows, Shard
from drobench.reformulation.divergence import ExponentialTilt

SAMPLES = 12
DIMENSION = 4
ZERO = torch.zeros((), dtype=torch.float64)
INDICES = {
    "all": slice(None),
    "slice": slice(2, 7),
    "tensor": torch.tensor([9, 1, 4]),
    "repeated": torch.tensor([3, 3]),
}


class TwoMoments(LossTransform):
    """`g = (f, f^2)` and `h = sin f`: two inner values of both signs, and losses."""

    outputs = 2
    has_losses = True

    def apply(self, losses, shift):
        inner = torch.stack([losses, losses.square()], dim=1)
        slope = torch.stack([torch.ones_like(losses), 2 * losses], dim=1)
        return LossTerms(inner, slope, losses.sin(), losses.cos(), losses.new_zeros(()))


class MeanAndVariance(OuterFunction):
    """`f(y) = y1 + (y2 - y1^2) / 2`."""

    def value(self, inner_value, shift):
        return inner_value[0] + 0.5 * (inner_value[1] - inner_value[0].square())

    def gradient(self, inner_value, shift):
        return torch.stack([1.0 - inner_value[0], torch.full_like(inner_value[1], 0.5)])


def moments(losses):
    return LossComposite(losses, TwoMoments(), MeanAndVariance(), ElasticNet(l1=0.1, l2=0.2))


def moments_as_functions(losses):
    def loss_of(point, numbers):
        return softplus(-(losses.signed_rows[numbers] @ point))

    return FunctionComposite(
        DIMENSION,
        SAMPLES,
        2,
        ElasticNet(l1=0.1, l2=0.2),
        inner=lambda point, numbers: torch.stack([loss_of(point, numbers), loss_of(point, numbers).square()], dim=1),
        outer=MeanAndVariance(),
        loss=lambda point, numbers: loss_of(point, numbers).sin(),
    )


def tilted(losses, gamma, regularizer=None):
    return LossComposite(losses, ExponentialTilt(gamma), ScaledLog(gamma), regularizer or Zero())


def tilted_as_function(losses, gamma, regularizer=None):
    return FunctionComposite(
        DIMENSION,
        SAMPLES,
        1,
        regularizer or Zero(),
        inner=lambda point, numbers: (softplus(-(losses.signed_rows[numbers] @ point)) / gamma).exp(),
        outer=ScaledLog(gamma),
    )


def plain(losses):
    return LossComposite(losses, PlainLosses(), NoOuter(), ElasticNet(l2=0.3))


def plain_as_function(losses):
    return FunctionComposite(
        DIMENSION,
        SAMPLES,
        0,
        ElasticNet(l2=0.3),
        loss=lambda point, numbers: softplus(-(losses.signed_rows[numbers] @ point)),
    )


PAIRS = {
    "moments": (moments, moments_as_functions),
    "tilted": (lambda losses: tilted(losses, 0.7), lambda losses: tilted_as_function(losses, 0.7)),
    "plain": (plain, plain_as_function),
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


def test_absent_parts_are_zero(margin_losses, random_points):
    points = random_points(0, 2, DIMENSION)
    estimate = tilted(margin_losses(), 0.5).estimate(points, Rows(slice(None)), None)
    assert not estimate.loss_value.any()
    assert not estimate.loss_gradient.any()
    assert estimate.inner_value.all()


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


def test_network_losses_make_a_composite_too(random_points):
    features, signs = random_points(0, SAMPLES, 3), torch.ones(SAMPLES, dtype=torch.float64)
    losses = NetworkLosses(lambda x, rows: torch.tanh(rows @ x[:3]) * x[3], DIMENSION, features, signs, SigmoidLoss())
    form = tilted(losses, 0.4)
    point = random_points(1, DIMENSION).requires_grad_(True)
    values = torch.sigmoid(-signs * torch.tanh(features @ point[:3]) * point[3])
    expected = 0.4 * (values / 0.4).exp().mean().log()
    expected.backward()
    torch.testing.assert_close(form.value(point.detach()), expected.detach(), rtol=1e-13, atol=0)
    torch.testing.assert_close(form.smooth_gradient(point.detach()), point.grad, rtol=1e-11, atol=1e-14)


def test_the_value_is_assembled_from_means_already_paid_for(margin_losses, random_points):
    form, point = moments(margin_losses()), random_points(2, DIMENSION)
    estimate = form.estimate(point[None], form.everything(), None)
    again = form.value_at(point, estimate.inner_value[0], estimate.loss_value[0], estimate.shift)
    assert torch.equal(again, form.value(point))


class TestInnerFloor:
    GAMMA = 0.3

    @pytest.fixture
    def form(self, margin_losses):
        # Large rows make a few samples dominate the mean: a bound that is too bold is noticed.
        return tilted(margin_losses(scale=3.0), self.GAMMA)

    def draws(self, form, random_points, size, replacement):
        """Yield rows, the estimate on them and the full mean at the same shift, for many draws."""
        oracle = CompositeOracle(form, 0, torch.zeros(DIMENSION, dtype=torch.float64))
        for seed in range(200):
            points = random_points(seed % 10, 2, DIMENSION)
            everything = form.estimate(points, form.everything(), None)
            rows = oracle.draw(size, replacement=replacement)
            yield rows, form.estimate(points, rows, everything.shift), everything.inner_value

    @pytest.mark.parametrize("replacement", [False, True])
    @pytest.mark.parametrize("size", [1, 3, 11])
    def test_it_is_a_lower_bound_of_the_mean_over_everything(self, size, replacement, form, random_points):
        for _, estimate, full in self.draws(form, random_points, size, replacement):
            assert (estimate.inner_floor > 0).all()
            assert (estimate.inner_floor <= full * (1 + 1e-12)).all()

    def test_without_replacement_it_is_the_sum_of_the_terms_over_the_population(self, form, random_points):
        for rows, estimate, _ in self.draws(form, random_points, 4, False):
            points = random_points(0, 1, DIMENSION)
            terms = ((form.losses.values(points[0])[rows.samples] - ZERO) / self.GAMMA).exp()
            floor = form.estimate(points, rows, ZERO).inner_floor
            torch.testing.assert_close(floor, terms.sum().reshape(1, 1) / SAMPLES, rtol=1e-12, atol=0)
            assert rows.covered == 4 / SAMPLES
            assert (estimate.inner_floor < estimate.inner_value).all()

    def test_repetitions_would_break_the_bound_of_a_draw_without_replacement(self, form, random_points):
        draws = list(self.draws(form, random_points, 11, True))
        bold = [(estimate.inner_value * 11 / SAMPLES > full).any() for _, estimate, full in draws]
        assert any(bold)

    def test_for_the_full_set_it_is_the_mean(self, form, random_points):
        points = random_points(0, 2, DIMENSION)
        estimate = form.estimate(points, form.everything(), None)
        assert torch.equal(estimate.inner_floor, estimate.inner_value)

    @pytest.mark.parametrize("parts", [2, 5])
    def test_pooled_over_shards_it_is_that_of_the_whole_draw(self, parts, form, random_points):
        points, start = random_points(0, 2, DIMENSION), torch.zeros(DIMENSION, dtype=torch.float64)
        whole = form.estimate(points, CompositeOracle(form, 7, start).draw(6), ZERO)
        pooled = 0.0
        for rank in range(parts):
            rows = CompositeOracle(form, 7, start, Shard(rank, parts)).draw(6)
            pooled = pooled + rows.sample_share * form.estimate(points, rows, ZERO).inner_floor
        torch.testing.assert_close(pooled, whole.inner_floor, rtol=1e-13, atol=0)

    def test_nothing_is_claimed_about_terms_of_unknown_sign(self, margin_losses, random_points):
        points, rows = random_points(0, 2, DIMENSION), Rows(torch.tensor([1, 2]), covered=2 / SAMPLES)
        for build in PAIRS["moments"]:
            floor = build(margin_losses()).estimate(points, rows, None).inner_floor
            assert (floor == -torch.inf).all()


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("parts", [1, 3, 8])
@pytest.mark.parametrize("size", [None, 7, 3])
def test_share_weighted_parts_add_up_to_the_draw(name, parts, size, margin_losses, random_points):
    form = PAIRS[name][0](margin_losses())
    start, points = torch.zeros(DIMENSION, dtype=torch.float64), random_points(0, 2, DIMENSION)
    whole = form.estimate(points, CompositeOracle(form, 5, start).draw(size), ZERO)
    totals = [0.0] * 4
    for rank in range(parts):
        rows = CompositeOracle(form, 5, start, Shard(rank, parts)).draw(size)
        part = form.estimate(points, rows, ZERO)[:4]
        totals = [total + rows.sample_share * field for total, field in zip(totals, part, strict=True)]
    for total, field in zip(totals, whole[:4], strict=True):
        torch.testing.assert_close(total, field, rtol=1e-12, atol=1e-14)


def test_estimates_on_draws_are_unbiased(margin_losses, random_points):
    form, points = moments(margin_losses(samples=6)), random_points(0, 1, DIMENSION)
    full = form.estimate(points, form.everything(), ZERO)
    pairs = [(i, j) for i in range(6) for j in range(i)]
    averages = [
        np.mean([form.estimate(points, Rows(torch.tensor(p)), ZERO)[k].numpy() for p in pairs], axis=0)
        for k in range(4)
    ]
    for average, field in zip(averages, full[:4], strict=True):
        torch.testing.assert_close(torch.from_numpy(np.asarray(average)), field, rtol=1e-12, atol=1e-14)


def test_single_precision_stays_single(margin_losses, random_points):
    form = tilted(margin_losses(dtype=torch.float32), 0.5)
    estimate = form.estimate(random_points(0, 2, DIMENSION, dtype=torch.float32), form.everything(), None)
    assert {field.dtype for field in estimate} == {torch.float32}

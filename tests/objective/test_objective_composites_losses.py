"""Composites of losses: the bound on inner means, absent parts, networks, single precision."""

import pytest
import torch
from two_writings import DIMENSION, PAIRS, SAMPLES, ZERO, tilted

from drobench.objective.losses import NetworkLosses, SigmoidLoss
from drobench.objective.oracles.composite import CompositeOracle
from drobench.objective.sampling import Rows, Shard


def test_absent_parts_are_zero(margin_losses, random_points):
    points = random_points(0, 2, DIMENSION)
    estimate = tilted(margin_losses(), 0.5).estimate(points, Rows(slice(None)), None)
    assert not estimate.loss_value.any()
    assert not estimate.loss_gradient.any()
    assert estimate.inner_value.all()


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


def test_single_precision_stays_single(margin_losses, random_points):
    form = tilted(margin_losses(dtype=torch.float32), 0.5)
    estimate = form.estimate(random_points(0, 2, DIMENSION, dtype=torch.float32), form.everything(), None)
    assert {field.dtype for field in estimate} == {torch.float32}

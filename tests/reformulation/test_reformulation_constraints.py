"""Many constraints as one smooth composite, and their convex inner approximation around a feasible point."""

import math
from itertools import combinations

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from drobench.objective.composite import Composite
from drobench.objective.forms import Constrained, Constraints, FiniteSum
from drobench.objective.losses import LinearMarginLosses, LogisticLoss, NoLosses
from drobench.objective.regularizers import Affine, ElasticNet, Zero
from drobench.objective.sampling import Rows
from drobench.reformulation.constraints import SmoothedConstraints
from drobench.reformulation.reformulation import ReformulationConfig
from drobench.reformulation.routes import find_route


def randoms(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


class Quadratics(Constraints):
    """`c_k(x) = <a_k, x> - b_k + (q_k / 2) |x|^2`, and cheap ones `<a, x> - b`, with torch's derivatives."""

    def __init__(self, slopes, offsets, curvatures, cheap=None):
        self.slopes, self.offsets, self.curvatures = slopes, offsets, curvatures
        self.extra = cheap
        self.count, self.dimension = slopes.shape
        self.cheap_count = 0 if cheap is None else cheap[0].shape[0]
        self.features = slopes.new_zeros(self.count, 0)

    def surrogates(self, points, index):
        slopes, curvatures = self.slopes[index], self.curvatures[index]
        values = points @ slopes.T - self.offsets[index] + 0.5 * points.square().sum(-1, keepdim=True) * curvatures

        def pullback(cotangents):
            return cotangents @ slopes + (cotangents * curvatures).sum(-1, keepdim=True) * points[:, None]

        return values, pullback

    def cheap(self, points):
        slopes, offsets = self.extra
        return points @ slopes.T - offsets, lambda cotangents: cotangents @ slopes

    def violations(self, points, index):
        return self.surrogates(points, index)[0]


def constraints_of(seed=0, count=7, inputs=3, cheap=0, dtype=torch.float64):
    extra = (randoms(seed + 3, cheap, inputs).to(dtype), 0.3 * randoms(seed + 4, cheap).to(dtype)) if cheap else None
    return Quadratics(
        randoms(seed, count, inputs).to(dtype),
        0.3 * randoms(seed + 1, count).to(dtype),
        randoms(seed + 2, count).abs().to(dtype),
        extra,
    )


def losses_of(seed=0, samples=10, inputs=3, dtype=torch.float64):
    signs = torch.where(randoms(seed + 11, samples) > 0, 1.0, -1.0).to(dtype)
    return LinearMarginLosses(randoms(seed + 10, samples, inputs).to(dtype), signs, LogisticLoss())


def smoothed(alpha=1.5, gamma=0.2, cheap=0, count=7, seed=0, regularizer=None):
    form = Constrained(
        FiniteSum(losses_of(seed), regularizer or ElasticNet(0.0, 0.1)), constraints_of(seed, count, 3, cheap)
    )
    return SmoothedConstraints(form, alpha, gamma)


def all_values(form, point):
    values = [form.form.constraints.surrogates(point[None], slice(None))[0][0]]
    if form.cheap_constraints:
        values.append(form.form.constraints.cheap(point[None])[0][0])
    return torch.cat(values)


class TestValue:
    @pytest.mark.parametrize("gamma", [1e-3, 0.05, 1.0])
    @pytest.mark.parametrize("alpha", [0.5, 3.0])
    @pytest.mark.parametrize("cheap", [0, 2])
    def test_it_is_the_formula_and_lies_between_its_bounds(self, gamma, alpha, cheap):
        form = smoothed(alpha, gamma, cheap)
        count = 7 + cheap
        below = above = 0
        for seed in range(8):
            point = (0.2 + 0.2 * seed) * randoms(20 + seed, 3)
            values = all_values(form, point)
            objective = float(form.form.objective.value(point))
            value = float(form.value(point))
            exponents = torch.cat([torch.zeros(1).double(), alpha * values / gamma])
            expected = objective + gamma * float(torch.logsumexp(exponents, 0) - math.log(count + 1))
            assert value == pytest.approx(expected, abs=1e-12)
            exact = objective + max(0.0, alpha * float(values.max()))
            assert exact - gamma * math.log(count + 1) - 1e-12 <= value <= exact + 1e-12
            below, above = below + (float(values.max()) < 0), above + (float(values.max()) > 0)
        assert above

    def test_feasible_points_pay_almost_nothing(self):
        form = smoothed(2.0, 1e-3)
        form.form.constraints.offsets = torch.full((7,), 5.0, dtype=torch.float64)
        point = 0.1 * randoms(30, 3)
        # All weight is on the constant term: the value is the objective less gamma ln(M + 1).
        expected = float(form.form.objective.value(point)) - 1e-3 * math.log(8)
        assert float(form.value(point)) == pytest.approx(expected, abs=1e-14)
        assert form.share(point) == pytest.approx(0.0, abs=1e-15)

    @pytest.mark.parametrize("cheap", [0, 2])
    def test_the_gradient_is_that_of_the_value(self, cheap):
        form = smoothed(1.5, 0.3, cheap)
        for seed in range(4):
            point = randoms(40 + seed, 3)
            steps = 1e-6 * torch.eye(3).double()
            numeric = torch.stack([(form.value(point + s) - form.value(point - s)) / 2e-6 for s in steps])
            gradient = form.smooth_gradient(point) + form.regularizer.gradient(point)
            torch.testing.assert_close(gradient, numeric, rtol=1e-7, atol=1e-7)

    def test_the_share_is_the_weight_of_the_constraints(self):
        form = smoothed(1.5, 0.3, 2)
        for seed in range(4):
            point = randoms(50 + seed, 3)
            exponents = 1.5 * all_values(form, point) / 0.3
            weight = torch.softmax(torch.cat([torch.zeros(1).double(), exponents]), 0)[1:].sum()
            assert form.share(point) == pytest.approx(float(weight), abs=1e-12)
        assert form.share(10 * randoms(50, 3)) > 0.99

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
    def test_large_violations_at_a_small_width_do_not_overflow(self, dtype):
        constraints = constraints_of(dtype=dtype)
        form = SmoothedConstraints(Constrained(FiniteSum(losses_of(dtype=dtype), Zero()), constraints), 2.0, 1e-3)
        point = 50.0 * randoms(60, 3).to(dtype)
        estimate = form.estimate(point[None], form.everything(), None)
        assert all(field.isfinite().all() for field in estimate)
        worst = float(all_values(form, point).max())
        expected = float(form.form.objective.value(point)) + 2.0 * worst - 1e-3 * math.log(8)
        assert float(form.value(point)) == pytest.approx(expected, rel=1e-6)


class TestSampling:
    @pytest.mark.parametrize("cheap", [0, 2])
    @pytest.mark.parametrize("size", [1, 3])
    def test_every_mean_over_all_draws_is_the_full_one(self, cheap, size):
        form = smoothed(1.5, 0.3, cheap)
        points = torch.stack([randoms(70, 3), randoms(71, 3)])
        full = form.estimate(points, form.everything(), None)
        draws = [
            form.estimate(points, Rows(slice(None), torch.tensor(chosen), covered=size / 7), full.shift)
            for chosen in combinations(range(7), size)
        ]
        for field in ("inner_value", "inner_jacobian"):
            found = torch.stack([getattr(draw, field) for draw in draws])
            torch.testing.assert_close(found.mean(dim=0), getattr(full, field), rtol=1e-12, atol=1e-13)
            assert float(found.std(dim=0).max()) > 1e-3
        # The constant and the cheap terms are never sampled, so no estimate is below what they alone give.
        for draw in draws:
            assert (draw.inner_floor <= full.inner_value + 1e-14).all()
            assert (draw.inner_floor <= draw.inner_value + 1e-14).all()
            assert (draw.inner_floor >= math.exp(-float(full.shift) / 0.3) / form.terms).all()

    def test_averaging_the_constant_in_with_the_sample_would_be_biased(self):
        """`(1 + sum over S) / (|S| + 1)` against `1/(M+1) + M/(M+1) mean over S`, for small exponentials."""
        form = smoothed(1.0, 0.5, 0, count=9, seed=3)
        form.form.constraints.offsets = torch.full((9,), 0.6, dtype=torch.float64)
        point = 0.3 * randoms(72, 3)
        zero = torch.zeros((), dtype=torch.float64)
        true = float(form.estimate(point[None], form.everything(), zero).inner_value)
        powers = torch.exp(all_values(form, point) / 0.5)
        assert true == pytest.approx((1.0 + float(powers.sum())) / 10, rel=1e-13)
        ours, biased = [], []
        for chosen in combinations(range(9), 2):
            rows = torch.tensor(chosen)
            ours.append(float(form.estimate(point[None], Rows(slice(None), rows), zero).inner_value))
            biased.append((1.0 + float(powers[rows].sum())) / 3)
        assert np.mean(ours) == pytest.approx(true, rel=1e-12)
        assert abs(np.mean(biased) - true) > 0.05

    def test_cheap_constraints_are_exact_in_every_draw(self):
        form = smoothed(1.5, 0.3, 2)
        form.form.constraints.offsets = torch.full((7,), 1e3, dtype=torch.float64)
        point = randoms(73, 3)
        full = form.estimate(point[None], form.everything(), None)
        for k in range(7):
            one = form.estimate(point[None], Rows(slice(None), torch.tensor([k])), full.shift)
            torch.testing.assert_close(one.inner_value, full.inner_value, rtol=1e-12, atol=0)
            torch.testing.assert_close(one.inner_jacobian, full.inner_jacobian, rtol=1e-10, atol=1e-12)

    @pytest.mark.parametrize("shift", [-0.5, 0.0, 1.0, 6.0])
    def test_value_and_direction_do_not_depend_on_the_shift(self, shift):
        form = smoothed(1.5, 0.3, 2)
        point = randoms(74, 3)
        estimate = form.estimate(point[None], form.everything(), torch.tensor(shift, dtype=torch.float64))
        assert float(estimate.shift) == shift
        value = form.value_at(point, estimate.inner_value[0], estimate.loss_value[0], estimate.shift)
        assert float(value) == pytest.approx(float(form.value(point)), rel=1e-12)
        slope = form.outer.gradient(estimate.inner_value[0], estimate.shift) @ estimate.inner_jacobian[0]
        torch.testing.assert_close(slope + estimate.loss_gradient[0], form.smooth_gradient(point), rtol=1e-11, atol=0)

    def test_rescaling_is_what_a_new_estimate_would_give(self):
        form = smoothed(1.5, 0.3, 2)
        point = randoms(75, 3)[None]
        old, new = torch.tensor(0.2, dtype=torch.float64), torch.tensor(2.0, dtype=torch.float64)
        before, after = (form.estimate(point, form.everything(), shift) for shift in (old, new))
        for field in ("inner_value", "inner_jacobian", "inner_floor"):
            moved = form.rescale(getattr(before, field), old, new)
            torch.testing.assert_close(moved, getattr(after, field), rtol=1e-12, atol=0)

    def test_a_shift_that_would_overflow_is_raised(self):
        form = smoothed(2.0, 1e-3)
        point = 20.0 * randoms(76, 3)
        estimate = form.estimate(point[None], form.everything(), torch.zeros((), dtype=torch.float64))
        assert float(estimate.shift) == pytest.approx(2.0 * float(all_values(form, point).max()))
        slope = form.outer.gradient(estimate.inner_value[0], estimate.shift) @ estimate.inner_jacobian[0]
        torch.testing.assert_close(slope + estimate.loss_gradient[0], form.smooth_gradient(point), rtol=1e-9, atol=0)

    def test_the_smallest_inner_value(self):
        form = smoothed(1.5, 0.3, 2)
        for shift in (0.0, 0.7):
            expected = math.exp(-shift / 0.3) / 10
            assert form.outer.smallest(torch.tensor(shift, dtype=torch.float64)) == pytest.approx(expected, rel=1e-14)
        # Far inside the feasible set the inner value is just that.
        form.form.constraints.offsets = torch.full((7,), 1e3, dtype=torch.float64)
        form.form.constraints.extra[1].fill_(1e3)
        estimate = form.estimate(randoms(77, 3)[None], form.everything(), None)
        assert float(estimate.inner_value) == pytest.approx(0.1, rel=1e-14)


class TestRoute:
    def test_widths_and_weights(self):
        objective = FiniteSum(losses_of(), ElasticNet(0.0, 0.1))
        form = Constrained(objective, constraints_of(), penalty=3.5)
        route = find_route(form, (Composite,), ReformulationConfig())
        assert [(stage.alpha, stage.gamma) for stage in route.stages] == [(3.5, g) for g in (0.3, 0.1, 0.03, 0.01)]
        route = find_route(form, (Composite,), ReformulationConfig(alpha=1.5, continuation=[0.2, 0.05]))
        assert [(stage.alpha, stage.gamma) for stage in route.stages] == [(1.5, 0.2), (1.5, 0.05)]
        assert route.names == ["smoothed_constraints"]

    def test_the_minimiser_tends_to_the_constrained_one(self):
        """Minimise `-x - y` on the unit disc: the penalty is exact, so the optimum is off by at most gamma ln 2."""
        slope = torch.tensor([-1.0, -1.0], dtype=torch.float64)
        disc = Quadratics(torch.zeros(1, 2).double(), torch.tensor([0.5]).double(), torch.ones(1).double())
        form = Constrained(FiniteSum(NoLosses(slope), Affine(slope)), disc)
        for gamma in (0.1, 0.01):
            composite = SmoothedConstraints(form, 4.0, gamma)

            def both(x, composite=composite):
                point = torch.from_numpy(x)
                return float(composite.value(point)), (composite.smooth_gradient(point) + slope).numpy()

            found = minimize(both, np.zeros(2), jac=True, method="L-BFGS-B", options={"ftol": 0, "gtol": 1e-10})
            assert -math.sqrt(2) - gamma * math.log(2) <= found.fun <= -math.sqrt(2) + 1e-9
            assert found.x.tolist() == pytest.approx([math.sqrt(0.5)] * 2, abs=gamma)

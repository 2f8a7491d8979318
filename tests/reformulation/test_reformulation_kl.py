"""KL-robust risk as a composite: known answers, the equality of the two forms, and the shift of the exponentials."""

import math

import pytest
import scipy.optimize
import torch

from drobench.objective.ambiguity_sets import KLPenalty
from drobench.objective.composite import Composite
from drobench.objective.forms import RobustRisk, stationarity
from drobench.objective.losses import LinearMarginLosses, LogisticLoss
from drobench.objective.regularizers import ElasticNet, Zero
from drobench.objective.sampling import Rows
from drobench.reformulation.divergence import ExponentialTilt
from drobench.reformulation.reformulation import ReformulationConfig
from drobench.reformulation.routes import find_route

AT_HAT = {
    0.5: (0.701160041792, [0.200839589167, -0.053590028903, -0.397130908247]),
    0.05: (0.970699878112, [0.927118921569, -0.289651510835, -0.720058631097]),
}
OPTIMA = {
    0.5: (0.495099644035, [0.244617892736, -0.184093745094, 1.289486985032]),
    0.05: (0.616435306782, [0.164259200664, -0.230025701672, 0.643869153746]),
}
# Twelve digits are given.
DIGITS = 1e-11
LIMITS = {torch.float32: 60.0, torch.float64: 500.0}
ZERO = torch.zeros((), dtype=torch.float64)


def robust(losses, gamma, regularizer=None):
    return RobustRisk(losses, KLPenalty(gamma), regularizer or Zero())


def composite(losses, gamma, regularizer=None):
    return find_route(robust(losses, gamma, regularizer), (Composite,), ReformulationConfig()).form


def losses_of(values, dtype=torch.float64):
    """Return margin losses that are close to `values` at the point one: very negative margins."""
    rows = -torch.tensor(values, dtype=dtype)[:, None]
    return LinearMarginLosses(rows, torch.ones(len(values), dtype=dtype), LogisticLoss())


def direction(form, estimate, k=0):
    """The gradient `f'(y) z` from the means at point `k`."""
    return form.outer.gradient(estimate.inner_value[k], estimate.shift) @ estimate.inner_jacobian[k]


class TestKnownAnswers:
    def test_the_data_set(self, t20_rows, t20_signs, t20, hat):
        assert t20_rows[0].tolist() == pytest.approx([0.346474736508, 0.582475616394, 0.282951100791], abs=DIGITS)
        assert t20_signs.tolist() == [1, 1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1]
        losses = t20.values(hat)
        assert losses[:3].tolist() == pytest.approx([0.665581133520, 0.435896722468, 0.536392909353], abs=DIGITS)
        assert float(losses.mean()) == pytest.approx(0.658595210190, abs=DIGITS)
        assert float(losses.var(correction=0)) == pytest.approx(0.040425898587, abs=DIGITS)
        assert float(losses.min()) == pytest.approx(0.370457686997, abs=DIGITS)
        assert float(losses.max()) == pytest.approx(1.114982701081, abs=DIGITS)

    @pytest.mark.parametrize("gamma", AT_HAT)
    @pytest.mark.parametrize("build", [robust, composite])
    def test_value_and_gradient(self, build, gamma, t20, hat):
        value, gradient = AT_HAT[gamma]
        form = build(t20, gamma)
        assert float(form.value(hat)) == pytest.approx(value, abs=DIGITS)
        assert form.smooth_gradient(hat).tolist() == pytest.approx(gradient, abs=DIGITS)

    @pytest.mark.parametrize("gamma", OPTIMA)
    def test_the_optimum(self, gamma, t20):
        form = composite(t20, gamma, ElasticNet(l2=0.1))

        def objective(x):
            point = torch.from_numpy(x)
            gradient = form.smooth_gradient(point) + form.regularizer.gradient(point)
            return float(form.value(point)), gradient.numpy()

        options = {"ftol": 0.0, "gtol": 1e-12, "maxiter": 1000}
        found = scipy.optimize.minimize(
            objective, torch.zeros(3).double().numpy(), jac=True, method="L-BFGS-B", options=options
        )
        value, point = OPTIMA[gamma]
        assert found.fun == pytest.approx(value, abs=DIGITS)
        assert found.x.tolist() == pytest.approx(point, abs=1e-8)

    @pytest.mark.parametrize("gamma", OPTIMA)
    def test_the_optimum_is_stationary(self, gamma, t20, hat):
        native = robust(t20, gamma, ElasticNet(l2=0.1))
        optimum = torch.tensor(OPTIMA[gamma][1], dtype=torch.float64)
        assert float(stationarity(native, optimum)) < 1e-20
        assert float(stationarity(native, hat)) > 1e-2
        assert float(native.value(optimum)) == pytest.approx(OPTIMA[gamma][0], abs=DIGITS)


class TestEquality:
    def test_composite_and_robust_risk_are_the_same_function(self, t20):
        for gamma in [1e-3, 0.05, 0.5, 3.0, 100.0]:
            regularizer = ElasticNet(l1=0.02, l2=0.1)
            native, rewritten = robust(t20, gamma, regularizer), composite(t20, gamma, regularizer)
            for seed in range(5):
                point = 2.0 * torch.randn(3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
                torch.testing.assert_close(rewritten.value(point), native.value(point), rtol=1e-12, atol=0)
                torch.testing.assert_close(
                    rewritten.smooth_gradient(point), native.smooth_gradient(point), rtol=1e-9, atol=1e-12
                )

    def test_the_rewritten_form_keeps_losses_and_regularizer(self, t20):
        regularizer = ElasticNet(l2=0.1)
        form = composite(t20, 0.5, regularizer)
        assert form.losses is t20
        assert form.regularizer is regularizer
        assert (form.outputs, form.has_losses, form.uses_shift) == (1, False, True)
        assert (form.samples, form.constraints, form.dimension) == (20, 0, 3)


class TestShift:
    GAMMA = 0.2

    def test_the_chosen_shift_makes_the_full_mean_one(self, t20, hat):
        form = composite(t20, self.GAMMA)
        estimate = form.estimate(hat[None], form.everything(), None)
        assert float(estimate.inner_value[0, 0]) == pytest.approx(1.0, abs=1e-14)
        assert float(estimate.shift) == pytest.approx(float(form.value(hat)), abs=1e-14)

    def test_the_shift_is_chosen_at_the_first_point_and_on_the_rows(self, t20, hat):
        form = composite(t20, self.GAMMA)
        rows = Rows(torch.tensor([2, 11, 7]))
        estimate = form.estimate(torch.stack([hat, 3 * hat]), rows, None)
        assert estimate.inner_value[:, 0].tolist()[0] == pytest.approx(1.0, abs=1e-14)
        assert abs(float(estimate.inner_value[1, 0]) - 1.0) > 0.05

    def test_value_and_direction_do_not_depend_on_it(self, t20, hat):
        for shift in [-3.0, -0.5, 0.0, 0.7, 2.0, 20.0]:
            form = composite(t20, self.GAMMA)
            estimate = form.estimate(hat[None], form.everything(), ZERO + shift)
            assert float(estimate.shift) == shift
            value = form.value_at(hat, estimate.inner_value[0], estimate.loss_value[0], estimate.shift)
            torch.testing.assert_close(value, form.value(hat), rtol=1e-12, atol=0)
            torch.testing.assert_close(direction(form, estimate), form.smooth_gradient(hat), rtol=1e-11, atol=1e-14)

    @pytest.mark.parametrize(("old", "new"), [(0.0, 1.0), (1.0, 0.0), (-2.0, 3.0)])
    def test_rescaling_is_what_a_new_estimate_would_give(self, old, new, t20, hat):
        form = composite(t20, self.GAMMA)
        points = torch.stack([hat, -hat])
        before = form.estimate(points, form.everything(), ZERO + old)
        after = form.estimate(points, form.everything(), ZERO + new)
        for field in ("inner_value", "inner_jacobian", "inner_floor"):
            moved = form.rescale(getattr(before, field), before.shift, after.shift)
            torch.testing.assert_close(moved, getattr(after, field), rtol=1e-12, atol=1e-300)

    def test_a_recursive_estimate_may_change_its_shift_on_the_way(self, t20, hat):
        form = composite(t20, self.GAMMA)
        path = [hat, 0.8 * hat, 0.6 * hat, 0.3 * hat]
        batches = [torch.tensor(rows) for rows in ([0, 3, 8], [19, 4, 5], [7, 2, 10])]

        def run(shifts):
            start = form.estimate(path[0][None], form.everything(), ZERO + shifts[0])
            value, jacobian, held = start.inner_value[0], start.inner_jacobian[0], start.shift
            for j, rows in enumerate(batches):
                shift = ZERO + shifts[j + 1]
                step = form.estimate(torch.stack([path[j + 1], path[j]]), Rows(rows), shift)
                value = form.rescale(value, held, shift) + step.inner_value[0] - step.inner_value[1]
                jacobian = form.rescale(jacobian, held, shift) + step.inner_jacobian[0] - step.inner_jacobian[1]
                held = shift
            return form.outer.gradient(value, held) @ jacobian, form.outer.value(value, held)

        steady, changing = run([0.7, 0.7, 0.7, 0.7]), run([0.7, 0.0, 2.0, -1.0])
        torch.testing.assert_close(changing[0], steady[0], rtol=1e-12, atol=0)
        torch.testing.assert_close(changing[1], steady[1], rtol=1e-12, atol=0)

    @pytest.mark.parametrize("dtype", LIMITS, ids=str)
    def test_it_stays_below_the_limit_and_is_returned_as_given(self, dtype):
        gamma, limit = 0.5, LIMITS[dtype]
        losses = torch.tensor([[gamma * (limit - 1.0), 0.1, 0.2]], dtype=dtype)
        shift = torch.zeros((), dtype=dtype)
        tilt = ExponentialTilt(gamma)
        terms = tilt.apply(losses, tilt.safe_shift(losses, shift))
        assert terms.shift is shift
        assert terms.inner.isfinite().all()
        assert float(terms.inner.max().double().log()) == pytest.approx(limit - 1.0, rel=1e-6)

    @pytest.mark.parametrize("dtype", LIMITS, ids=str)
    @pytest.mark.parametrize("excess", [1.0, 1e3, 1e6])
    def test_it_is_raised_beyond_the_limit(self, dtype, excess):
        gamma, limit = 0.5, LIMITS[dtype]
        largest = gamma * (limit + excess)
        losses = torch.tensor([[0.1, largest, 0.99 * largest]], dtype=dtype)
        tilt = ExponentialTilt(gamma)
        terms = tilt.apply(losses, tilt.safe_shift(losses, torch.zeros((), dtype=dtype)))
        assert float(terms.shift) == pytest.approx(largest, rel=1e-6)
        assert terms.shift.dtype == dtype
        assert terms.inner.isfinite().all()
        assert float(terms.inner.max()) == pytest.approx(1.0, abs=1e-5)

    def test_the_limit_holds_at_every_point_of_a_call(self, t20):
        form = composite(t20, 1e-3)
        points = torch.tensor([[0.0, 0.0, 0.0], [3.0, -3.0, 3.0]], dtype=torch.float64)
        for order in (points, points.flip(0)):
            asked = ZERO + float(form.value(points[0]))
            estimate = form.estimate(order, form.everything(), asked)
            assert float(estimate.shift) > float(asked) + 1.0
            assert all(field.isfinite().all() for field in estimate)

    def test_the_limit_holds_at_both_points_of_a_change(self, t20):
        form = composite(t20, 1e-3)
        points = torch.tensor([[0.0, 0.0, 0.0], [3.0, -3.0, 3.0]], dtype=torch.float64)
        for order in (points, points.flip(0)):
            asked = ZERO + float(form.value(points[0]))
            change, expected = (kind.change(form, order, form.everything(), asked) for kind in (type(form), Composite))
            assert float(change.shift) == float(expected.shift) > float(asked) + 1.0
            assert change.inner_value == pytest.approx(expected.inner_value, rel=1e-12)
            torch.testing.assert_close(change.inner_jacobian, expected.inner_jacobian, rtol=1e-12, atol=0)

    def test_a_raised_shift_gives_the_same_direction(self, t20, hat):
        form = composite(t20, 1e-3)
        far_below = ZERO - 1.0
        estimate = form.estimate(hat[None], form.everything(), far_below)
        assert float(estimate.shift) == pytest.approx(float(t20.values(hat).max()), rel=1e-12)
        torch.testing.assert_close(direction(form, estimate), form.smooth_gradient(hat), rtol=1e-9, atol=1e-12)

    def test_means_at_a_raised_shift_are_the_old_ones_rescaled(self):
        gamma, tilt = 0.5, ExponentialTilt(0.5)
        # Just above our limit but below that of the number type: both can be calculated.
        losses = torch.tensor([[gamma * 520.0, gamma * 519.0]], dtype=torch.float64)
        terms = tilt.apply(losses, tilt.safe_shift(losses, ZERO))
        assert float(terms.shift) == pytest.approx(gamma * 520.0, rel=1e-15)
        direct = (losses / gamma).exp()[:, None]
        torch.testing.assert_close(tilt.rescale(terms.inner, terms.shift, ZERO), direct, rtol=1e-12, atol=0)
        torch.testing.assert_close(terms.inner_slope * terms.slope_scale, terms.inner / gamma, rtol=1e-15, atol=0)


class TestExtremes:
    @pytest.mark.parametrize("dtype", LIMITS, ids=str)
    def test_large_losses_at_a_low_price_are_finite(self, dtype):
        values = [1e4, 9.99e3, 1.0, 0.0]
        form = composite(losses_of(values, dtype), 1e-3)
        point = torch.ones(1, dtype=dtype)
        estimate = form.estimate(point[None], form.everything(), None)
        assert all(field.isfinite().all() for field in estimate)
        assert float(form.value(point)) == pytest.approx(1e4, rel=1e-6)
        assert form.smooth_gradient(point).tolist() == pytest.approx([1e4], rel=1e-4)

    def test_large_losses_are_accurate_in_double_precision(self):
        form = composite(losses_of([1e4, 1e4 - 1e-3, 5.0]), 1e-3)
        expected = 1e4 + 1e-3 * math.log((1.0 + math.exp(-1.0)) / 3.0)
        assert float(form.value(torch.ones(1, dtype=torch.float64))) == pytest.approx(expected, rel=1e-14)

    @pytest.mark.parametrize("dtype", LIMITS, ids=str)
    def test_a_jump_to_large_losses_keeps_the_old_shift_from_overflowing(self, dtype):
        form = composite(losses_of([1e4, 9e3, 2e3], dtype), 1e-3)
        points = torch.tensor([[1.0], [1e-4]], dtype=dtype)
        for order in (points, points.flip(0)):
            start = form.estimate(order[1:], form.everything(), None)
            estimate = form.estimate(order, form.everything(), start.shift)
            assert all(field.isfinite().all() for field in estimate)

    @pytest.mark.parametrize("gamma", [1e2, 1e4, 1e6])
    def test_a_high_price_gives_the_mean_loss(self, gamma, t20, hat):
        form = composite(t20, gamma)
        mean, variance = 0.658595210190, 0.040425898587
        # The next term of the expansion is of order 1 / gamma^2; the logarithm of almost one is rounded.
        assert float(form.value(hat)) == pytest.approx(
            mean + variance / (2 * gamma), abs=1e-2 / gamma**2 + 1e-15 * gamma + DIGITS
        )
        mean_gradient = t20.mean(hat[None], slice(None))[1][0]
        torch.testing.assert_close(form.smooth_gradient(hat), mean_gradient, rtol=0, atol=0.2 / gamma)

    def test_a_low_price_gives_the_largest_loss(self, t20, hat):
        form = composite(t20, 1e-6)
        losses, pullback = t20.linearize(hat[None], slice(None))
        worst = int(losses[0].argmax())
        selection = torch.zeros(1, 1, 20, dtype=torch.float64)
        selection[0, 0, worst] = 1.0
        expected = 1.114982701081 - 1e-6 * math.log(20)
        assert float(form.value(hat)) == pytest.approx(expected, abs=DIGITS)
        torch.testing.assert_close(form.smooth_gradient(hat), pullback(selection)[0, 0], rtol=1e-9, atol=1e-12)

    @pytest.mark.parametrize("gamma", [1e-3, 0.5, 10.0])
    def test_one_sample_is_its_own_worst_case(self, gamma, t20_rows, t20_signs, hat):
        single = LinearMarginLosses(t20_rows[:1], t20_signs[:1], LogisticLoss())
        form = composite(single, gamma)
        assert float(form.value(hat)) == pytest.approx(0.665581133520, abs=DIGITS)
        gradient = single.mean(hat[None], slice(None))[1][0]
        torch.testing.assert_close(form.smooth_gradient(hat), gradient, rtol=1e-12, atol=0)

    @pytest.mark.parametrize("gamma", [1e-3, 0.5, 10.0])
    def test_equal_losses_leave_the_adversary_nothing(self, gamma, t20):
        origin = torch.zeros(3, dtype=torch.float64)
        form = composite(t20, gamma)
        assert float(form.value(origin)) == pytest.approx(math.log(2.0), rel=1e-14)
        mean_gradient = t20.mean(origin[None], slice(None))[1][0]
        torch.testing.assert_close(form.smooth_gradient(origin), mean_gradient, rtol=1e-11, atol=1e-15)

    def test_an_empty_part_of_a_draw_has_no_shift_of_its_own(self, t20, hat):
        # The highest shift of all processes is agreed on, so an empty part must never win.
        estimate = composite(t20, 0.5).estimate(hat[None], Rows(slice(4, 4)), None)
        assert float(estimate.shift) == -math.inf
        assert not estimate.inner_value.any()
        assert not estimate.inner_jacobian.any()

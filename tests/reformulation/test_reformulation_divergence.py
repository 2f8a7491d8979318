"""Divergences as composites: equal to the robust risk after minimising the dual variable, up to the stated bound."""

import math

import pytest
import torch
from scipy.optimize import minimize_scalar

from drobench.errors import DrobenchError
from drobench.objective.ambiguity_sets import (
    Chi2Ball,
    Chi2Penalty,
    Chi2Variance,
    CVaR,
    KLBall,
    KLPenalty,
)
from drobench.objective.composite import Composite
from drobench.objective.composites.lifted import LiftedComposite
from drobench.objective.forms import RobustRisk
from drobench.objective.losses import LinearMarginLosses, LogisticLoss
from drobench.objective.oracles.build import build_oracle
from drobench.objective.regularizers import ElasticNet, Zero
from drobench.objective.sampling import Rows
from drobench.reformulation.reformulation import ReformulationConfig
from drobench.reformulation.routes import find_route
from drobench.solver import SingleProcess
from drobench.solver.estimators import advance, direction, refresh
from drobench_plugins.solvers.exact_convex import ExactConvex, ExactConvexConfig

SIX = (KLPenalty(0.3), KLBall(0.3), Chi2Variance(0.25), Chi2Penalty(0.25), Chi2Ball(0.5), CVaR(0.25))
LIFTED = (KLBall(0.3), KLBall(0.05), Chi2Penalty(0.25), Chi2Penalty(2.0), Chi2Ball(0.5), Chi2Ball(0.1), CVaR(0.25))
DIGITS = 1e-11


def route_of(losses, ambiguity, regularizer=None, width=None):
    form = RobustRisk(losses, ambiguity, regularizer or Zero())
    return find_route(form, (Composite,), ReformulationConfig(gamma=width))


def random_losses(seed, samples=15, inputs=4, scale=1.0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    rows = scale * torch.randn(samples, inputs, generator=generator, dtype=torch.float64)
    signs = torch.where(torch.randn(samples, generator=generator) > 0, 1.0, -1.0)
    return LinearMarginLosses(rows.to(dtype), signs.to(dtype), LogisticLoss())


def random_point(seed, size=4, scale=1.0):
    return scale * torch.randn(size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def bound_of(ambiguity, width, samples):
    """By how much the smoothed composite may exceed the robust risk."""
    if isinstance(ambiguity, KLBall):
        return width * math.log(samples)
    if isinstance(ambiguity, Chi2Ball):
        return math.sqrt(1.0 + 2.0 * ambiguity.radius) * width
    return width * math.log(2.0) / ambiguity.level if isinstance(ambiguity, CVaR) else 0.0


def minimised(form, point, bracket):
    """Minimise the lifted composite over its dual variable."""

    def value(dual):
        return float(form.value(torch.cat([point, point.new_tensor([dual])])))

    found = minimize_scalar(value, bounds=bracket, method="bounded", options={"xatol": 1e-11, "maxiter": 500})
    return min(found.fun, value(bracket[0]))


def bracket_of(ambiguity, losses, width):
    spread = float(losses.max() - losses.min()) + 1.0
    if isinstance(ambiguity, KLBall):
        return width, width + 30.0 * spread
    return float(losses.min()) - 5.0 * spread, float(losses.max()) + 1.0


def gradient_of(form, point):
    """Smooth gradient plus that of the regularizer; the floor of a temperature is inactive where this is asked."""
    regularizer = form.regularizer
    if isinstance(form, LiftedComposite):
        size = form.losses.dimension
        outer = regularizer.second.slope
        return form.smooth_gradient(point) + torch.cat([regularizer.first.gradient(point[:size]), outer])
    return form.smooth_gradient(point) + regularizer.gradient(point)


class TestKnownAnswers:
    @pytest.mark.parametrize(
        ("ambiguity", "value", "gradient"),
        [
            (Chi2Variance(2.0), 0.668701684837, [0.070732096482, -0.025056872010, -0.340978380213]),
            (Chi2Variance(0.25), 0.739447007365, [0.331086069129, -0.090160820743, -0.444739491872]),
            (Chi2Penalty(2.0), 0.668701684837, [0.070732096482, -0.025056872010, -0.340978380213]),
            (Chi2Penalty(0.25), 0.739174962650, [0.324947528111, -0.087163776855, -0.442957033689]),
        ],
        ids=str,
    )
    def test_chi_square_at_the_best_dual(self, t20, hat, ambiguity, value, gradient):
        route = route_of(t20, ambiguity)
        lifted = route.lift(hat)
        assert float(route.form.value(lifted)) == pytest.approx(value, abs=DIGITS)
        found = gradient_of(route.form, lifted)
        assert found[:3].tolist() == pytest.approx(gradient, abs=DIGITS)
        # The lift starts at the best dual variable: there the value does not depend on it.
        assert found[3:].tolist() == pytest.approx([0.0] * (lifted.numel() - 3), abs=DIGITS)

    def test_chi_square_at_another_dual(self, t20, hat):
        form = route_of(t20, Chi2Penalty(0.25)).form
        point = torch.cat([hat, torch.tensor([0.3], dtype=torch.float64)])
        assert float(form.value(point)) == pytest.approx(0.996628056907, abs=DIGITS)
        assert float(gradient_of(form, point)[3]) == pytest.approx(-1.434380840760, abs=DIGITS)

    def test_the_kl_ball_at_its_temperature(self, t20, hat):
        form = route_of(t20, KLBall(0.5)).form
        temperature = KLBall(0.5).temperature(t20.values(hat))
        point = torch.cat([hat, torch.tensor([temperature], dtype=torch.float64)])
        assert temperature == pytest.approx(0.211736, abs=1e-6)
        assert float(form.value(point)) == pytest.approx(0.8684732744, abs=1e-9)
        assert float(gradient_of(form, point)[3]) == pytest.approx(0.0, abs=1e-7)

    @pytest.mark.parametrize(
        ("ambiguity", "value", "point"),
        [
            (Chi2Variance(2.0), 0.471152246904, [0.251275220858, -0.124599972821, 1.386488265891]),
            (Chi2Penalty(2.0), 0.471152246904, [0.251275220858, -0.124599972821, 1.386488265891]),
            (Chi2Penalty(0.25), 0.521823763546, [0.231138749379, -0.192072019848, 1.181934979120]),
        ],
        ids=str,
    )
    def test_the_optima(self, t20, ambiguity, value, point):
        form = RobustRisk(t20, ambiguity, ElasticNet(l2=0.1))
        solver, alone = ExactConvex(ExactConvexConfig()), SingleProcess()
        oracle = build_oracle(form, 0, t20.origin())
        state = solver.step(solver.init(t20.origin(), oracle, alone), oracle, alone)
        assert float(form.value(state.point)) == pytest.approx(value, abs=DIGITS)
        assert state.point.tolist() == pytest.approx(point, abs=1e-7)
        # The composite has its minimum there too.
        route = route_of(t20, ambiguity, ElasticNet(l2=0.1))
        lifted = route.lift(state.point)
        assert float(route.form.value(lifted)) == pytest.approx(value, abs=DIGITS)
        assert gradient_of(route.form, lifted).tolist() == pytest.approx([0.0] * lifted.numel(), abs=1e-7)


class TestEquality:
    @pytest.mark.parametrize("gamma", [0.05, 0.25, 2.0, 100.0])
    def test_the_variance_form_is_the_same_function(self, gamma):
        regularizer = ElasticNet(0.02, 0.1)
        for seed in range(4):
            losses, point = random_losses(seed), random_point(10 + seed, scale=2.0)
            native = RobustRisk(losses, Chi2Variance(gamma), regularizer)
            form = route_of(losses, Chi2Variance(gamma), regularizer).form
            torch.testing.assert_close(form.value(point), native.value(point), rtol=1e-12, atol=1e-12)
            torch.testing.assert_close(form.smooth_gradient(point), native.smooth_gradient(point), rtol=0, atol=1e-11)

    @pytest.mark.parametrize("ambiguity", LIFTED, ids=str)
    def test_minimised_over_the_dual_it_is_the_robust_risk_up_to_the_bound(self, ambiguity):
        for width in [1.0, 0.1, 0.001]:
            for seed, scale in ((0, 0.3), (1, 1.0), (2, 4.0)):
                losses, point = random_losses(seed), random_point(20 + seed, scale=scale)
                regularizer = ElasticNet(0.03, 0.1)
                exact = float(RobustRisk(losses, ambiguity, regularizer).value(point))
                form = route_of(losses, ambiguity, regularizer, width).form
                best = minimised(form, point, bracket_of(ambiguity, losses.values(point), width))
                difference = best - exact
                assert -1e-8 <= difference <= bound_of(ambiguity, width, 15) + 1e-8

    @pytest.mark.parametrize("ambiguity", [Chi2Ball(0.5), CVaR(0.25), KLBall(0.5)], ids=str)
    def test_the_smoothing_is_felt_and_vanishes_with_the_width(self, ambiguity):
        losses, point = random_losses(3), random_point(30)
        exact = float(RobustRisk(losses, ambiguity, Zero()).value(point))
        gaps = []
        for width in (3.0, 0.3, 0.001):
            form = route_of(losses, ambiguity, None, width).form
            gaps.append(minimised(form, point, bracket_of(ambiguity, losses.values(point), width)) - exact)
        assert gaps[0] > 0.05
        assert gaps[0] > gaps[1]
        assert abs(gaps[2]) < 2e-3

    @pytest.mark.parametrize("ambiguity", [Chi2Ball(0.5), CVaR(0.25), KLBall(0.5)], ids=str)
    def test_at_equal_losses_the_bound_is_kept_too(self, ambiguity):
        losses = random_losses(4)
        form = route_of(losses, ambiguity, None, 0.1).form
        origin = losses.origin()
        best = minimised(form, origin, bracket_of(ambiguity, losses.values(origin), 0.1))
        assert math.log(2) - 1e-9 <= best <= math.log(2) + bound_of(ambiguity, 0.1, 15) + 1e-9

    def test_the_stages_sink_to_the_last_width(self):
        route = find_route(RobustRisk(random_losses(5), KLBall(0.3), Zero()), (Composite,), ReformulationConfig())
        assert [stage.regularizer.second.base.lower for stage in route.stages] == [1.0, 0.3, 0.1, 0.03, 0.01]
        options = ReformulationConfig(continuation=[0.5, 0.2])
        tail = find_route(RobustRisk(random_losses(5), CVaR(0.3), Zero()), (Composite,), options)
        assert [stage.lifted.width for stage in tail.stages] == [0.5, 0.2]

    @pytest.mark.parametrize("ambiguity", LIFTED, ids=str)
    def test_lifting_and_recovering_are_inverse(self, ambiguity):
        losses, point = random_losses(6), random_point(40)
        route = route_of(losses, ambiguity)
        lifted = route.lift(point)
        assert lifted.numel() == route.form.dimension == 5
        assert torch.equal(route.recover(lifted), point)
        assert float(route.form.value(lifted)) < math.inf

    def test_the_threshold_of_the_exact_penalty_is_the_best(self):
        losses, point = random_losses(7), random_point(41)
        route = route_of(losses, Chi2Penalty(0.25))
        best = minimised(route.form, point, bracket_of(Chi2Penalty(0.25), losses.values(point), 0.0))
        assert float(route.form.value(route.lift(point))) <= best + 1e-12


class TestDerivatives:
    @pytest.mark.parametrize("ambiguity", SIX, ids=str)
    def test_the_gradient_is_that_of_the_value(self, ambiguity):
        for seed in range(3):
            losses = random_losses(50 + seed)
            form = route_of(losses, ambiguity, ElasticNet(0.0, 0.1), 0.1).form
            point = random_point(60 + seed, form.dimension)
            if isinstance(form, LiftedComposite):
                point[-1] = 0.4 + 0.3 * seed
            steps = 1e-6 * torch.eye(form.dimension).double()
            numeric = torch.stack([(form.value(point + s) - form.value(point - s)) / 2e-6 for s in steps])
            torch.testing.assert_close(gradient_of(form, point), numeric, rtol=1e-6, atol=1e-6)

    @pytest.mark.parametrize("ambiguity", SIX, ids=str)
    def test_a_draw_is_unbiased(self, ambiguity):
        """The mean over all single rows, at one shift, is the full set's; likewise at two points at once."""
        losses = random_losses(70, samples=9)
        form = route_of(losses, ambiguity, None, 0.1).form
        points = torch.stack([random_point(71, form.dimension), random_point(72, form.dimension)])
        if isinstance(form, LiftedComposite):
            points[:, -1] = torch.tensor([0.5, 0.8])
        full = form.estimate(points, form.everything(), None)
        singles = [form.estimate(points, Rows(torch.tensor([i])), full.shift) for i in range(9)]
        for field in ("inner_value", "inner_jacobian", "loss_value", "loss_gradient"):
            mean = torch.stack([getattr(single, field) for single in singles]).mean(dim=0)
            torch.testing.assert_close(mean, getattr(full, field), rtol=1e-12, atol=1e-13)
        # A single row must differ, or nothing was sampled.
        spread = torch.stack([torch.cat([s.loss_gradient, s.inner_jacobian.flatten(1)], 1) for s in singles]).std(0)
        assert float(spread.max()) > 1e-3

    @pytest.mark.parametrize("ambiguity", SIX, ids=str)
    def test_two_points_at_once_are_two_calls(self, ambiguity):
        losses = random_losses(73)
        form = route_of(losses, ambiguity, None, 0.1).form
        points = torch.stack([random_point(74, form.dimension), random_point(75, form.dimension)])
        if isinstance(form, LiftedComposite):
            points[:, -1] = torch.tensor([0.5, 0.8])
        rows = Rows(torch.tensor([0, 3, 7]))
        both = form.estimate(points, rows, None)
        for k in range(2):
            one = form.estimate(points[k][None], rows, both.shift)
            for field in ("inner_value", "inner_jacobian", "loss_value", "loss_gradient"):
                torch.testing.assert_close(getattr(one, field)[0], getattr(both, field)[k], rtol=1e-12, atol=1e-14)


class TestTemperature:
    @pytest.mark.parametrize("shift", [-1.0, 0.0, 0.7, 3.0])
    def test_value_and_direction_do_not_depend_on_the_shift(self, shift):
        losses = random_losses(80)
        form = route_of(losses, KLBall(0.3)).form
        point = torch.cat([random_point(81), torch.tensor([0.4], dtype=torch.float64)])
        estimate = form.estimate(point[None], form.everything(), torch.tensor(shift, dtype=torch.float64))
        value = form.value_at(point, estimate.inner_value[0], estimate.loss_value[0], estimate.shift)
        torch.testing.assert_close(value, form.value(point), rtol=1e-12, atol=0)
        direction = form.outer.gradient(estimate.inner_value[0], estimate.shift) @ estimate.inner_jacobian[0]
        torch.testing.assert_close(direction, form.smooth_gradient(point), rtol=1e-10, atol=1e-12)

    def test_the_chosen_shift_makes_the_full_mean_one(self):
        form = route_of(random_losses(82), KLBall(0.3)).form
        point = torch.cat([random_point(83), torch.tensor([0.4], dtype=torch.float64)])
        estimate = form.estimate(point[None], form.everything(), None)
        assert estimate.inner_value[0].tolist() == pytest.approx([1.0, 0.4], abs=1e-14)

    def test_the_shift_cannot_be_changed_while_the_temperature_varies(self):
        form = route_of(random_losses(84), KLBall(0.3)).form
        assert not form.rescalable
        zero = torch.zeros(())
        with pytest.raises(DrobenchError, match="shift"):
            form.rescale(zero, zero, zero + 1.0)

    def test_a_fresh_measurement_can_be_expressed_at_another_shift(self):
        form = route_of(random_losses(87), KLBall(0.3)).form
        point = torch.cat([random_point(88), torch.tensor([0.4], dtype=torch.float64)])
        old, new = torch.tensor([0.3, -0.8], dtype=torch.float64)
        before, after = (form.estimate(point[None], form.everything(), shift) for shift in (old, new))
        value, jacobian = form.at_shift(before.inner_value, before.inner_jacobian, old, new)
        torch.testing.assert_close(value, after.inner_value, rtol=1e-12, atol=0)
        torch.testing.assert_close(jacobian, after.inner_jacobian, rtol=1e-12, atol=1e-14)
        best = form.estimate(point[None], form.everything(), None).shift
        torch.testing.assert_close(form.best_shift(before.inner_value[0], old), best, rtol=1e-12, atol=0)

    def test_the_temperature_stays_above_its_floor(self):
        form = route_of(random_losses(85), KLBall(0.3), None, 0.2).form
        below = torch.cat([random_point(86), torch.tensor([0.05], dtype=torch.float64)])
        assert float(form.value(below)) == math.inf
        assert float(form.regularizer.prox(below, 0.5)[-1]) == 0.2


class TestExtremes:
    @pytest.mark.parametrize("ambiguity", SIX, ids=str)
    def test_single_precision(self, ambiguity):
        double, single = random_losses(90), random_losses(90, dtype=torch.float32)
        point = random_point(91)
        route = route_of(double, ambiguity, ElasticNet(0.0, 0.1), 0.1)
        lifted = route.lift(point)
        form = route_of(single, ambiguity, ElasticNet(0.0, 0.1), 0.1).form
        value, gradient = form.value(lifted.float()), form.smooth_gradient(lifted.float())
        assert value.dtype == gradient.dtype == torch.float32
        assert float(value) == pytest.approx(float(route.form.value(lifted)), abs=2e-5)
        torch.testing.assert_close(gradient.double(), route.form.smooth_gradient(lifted), rtol=1e-4, atol=2e-5)
        assert form.regularizer.prox(lifted.float(), 0.5).dtype == torch.float32

    @pytest.mark.parametrize(
        "ambiguity", [KLPenalty(1e-3), KLBall(0.3), Chi2Variance(1e-3), Chi2Penalty(1e-3), Chi2Ball(0.5), CVaR(0.25)]
    )
    def test_losses_of_ten_thousand_do_not_overflow(self, ambiguity):
        for dtype in [torch.float32, torch.float64]:
            rows = -torch.tensor([[1e4], [9e3], [10.0], [0.0]], dtype=dtype)
            losses = LinearMarginLosses(rows, torch.ones(4, dtype=dtype), LogisticLoss())
            route = route_of(losses, ambiguity, None, 1e-3)
            point = torch.ones(1, dtype=dtype)
            lifted = route.lift(point)
            estimate = route.form.estimate(lifted[None], route.form.everything(), None)
            assert all(field.isfinite().all() for field in estimate[:4])
            assert route.form.smooth_gradient(lifted).isfinite().all()
            assert route.form.value(lifted).isfinite()

    @pytest.mark.parametrize(
        ("temperature", "largest"), [(1.0, 1e4), (1e-3, 1e4), (1e-3, 2.0), (1e-3, 1.1142), (1e-3, 0.1)]
    )
    def test_a_jump_to_large_losses_ends_the_epoch_of_a_ball_or_gives_numbers(self, temperature, largest):
        """The shift cannot follow while the temperature varies: estimates with infinities must not pass as sound."""
        rows = -torch.tensor([[largest], [0.5 * largest], [0.0], [0.0]], dtype=torch.float64)
        losses = LinearMarginLosses(rows, torch.ones(4, dtype=torch.float64), LogisticLoss())
        form = route_of(losses, KLBall(0.3), None, 1e-3).form
        oracle, alone = build_oracle(form, 0, losses.origin()), SingleProcess()
        far, near = (torch.tensor([x, temperature], dtype=torch.float64) for x in (1.0, 1e-4))
        estimates = refresh(oracle, alone, near, oracle.draw())
        moved, sound = advance(estimates, oracle, alone, far, near, Rows(torch.tensor([0, 2]), covered=0.5))
        if sound:
            assert moved.inner_value.isfinite().all()
            assert moved.inner_jacobian.isfinite().all()
            assert direction(moved, oracle).isfinite().all()
        # Between the two, the value still fits into the number type and its derivatives no longer do.
        assert sound if largest == 0.1 else not (sound and largest >= 2.0)

    @pytest.mark.parametrize("gamma", [1e6, 1e10])
    def test_an_enormous_price_is_the_mean_without_cancellation(self, gamma):
        losses, point = random_losses(92), random_point(93)
        mean = float(losses.values(point).mean())
        for ambiguity in (KLPenalty(gamma), Chi2Variance(gamma), Chi2Penalty(gamma)):
            route = route_of(losses, ambiguity)
            assert float(route.form.value(route.lift(point))) == pytest.approx(mean, abs=1e-5), ambiguity


class TestErratum:
    @pytest.mark.parametrize("gamma", [1.0, 3.0])
    def test_the_printed_variance_has_the_wrong_sign(self, gamma, t20, hat):
        """`1 - Var/(2 gamma)` against `mean + Var/(2 gamma)` and an interior-point solver."""
        import cvxpy

        losses = t20.values(hat)
        weights = cvxpy.Variable(20)
        price = 0.5 * gamma * 20 * cvxpy.sum_squares(weights - 0.05)
        program = cvxpy.Problem(cvxpy.Maximize(weights @ losses.numpy() - price), [cvxpy.sum(weights) == 1])
        expected = program.solve(solver="CLARABEL")
        form = route_of(t20, Chi2Variance(gamma)).form
        assert float(form.value(hat)) == pytest.approx(expected, abs=1e-7)
        assert abs(1.0 - float(losses.var(correction=0)) / (2 * gamma) - expected) > 0.2

"""Wasserstein logistic regression: known optima, the reduced form with its smoothing, and the literal form."""

import math

import pytest
import torch
from scipy.optimize import minimize_scalar

from drobench.errors import DrobenchError
from drobench.objective.composite import Composite
from drobench.objective.losses import LinearMarginLosses, Margin
from drobench.objective.oracles.build import build_oracle
from drobench.objective.regularizers import ElasticNet
from drobench.objective.sampling import Rows
from drobench.objective.wasserstein import DUAL_NORMS, WassersteinRisk, norm_of
from drobench.reformulation.certificates import lower_bound
from drobench.reformulation.constraints import SmoothedConstraints
from drobench.reformulation.reformulation import ReformulationConfig
from drobench.reformulation.routes import find_route
from drobench.reformulation.wasserstein import literal_form, restore, slacks
from drobench.solver import SingleProcess
from drobench_plugins.solvers.exact_convex import ExactConvex, ExactConvexConfig

DIGITS = 1e-11
NORMS = ("l1", "l2", "linf")
# (radius, price of a flip) -> the optimum with the dual norm l1, l2, linf.
OPTIMA = {
    (0.1, 1.0): (0.548338025, 0.548187135, 0.548187135),
    (0.1, 0.5): (0.667590070,) * 3,
    (0.05, 0.2): (0.689451282,) * 3,
    (0.3, 0.25): (math.log(2),) * 3,
    (0.1, math.inf): (0.503184505, 0.491736546, 0.484077169),
}


@pytest.fixture(scope="module")
def t20_risk(t20_rows, t20_signs):
    margins = LinearMarginLosses(t20_rows, t20_signs, Margin())

    def make(radius=0.1, flip_cost=1.0, norm="l2", l2=0.0, free=0):
        return WassersteinRisk(margins, radius, flip_cost, norm, ElasticNet(0.0, l2), free)

    return make


def random_point(seed, size, scale=1.0):
    return scale * torch.randn(size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def solved(form):
    solver, alone = ExactConvex(ExactConvexConfig()), SingleProcess()
    start = form.margins.origin()
    oracle = build_oracle(form, 0, start)
    return solver.step(solver.init(start, oracle, alone), oracle, alone)


def joint_of(point, bound, slack):
    return torch.cat([point, point.new_tensor([bound]), torch.full((20,), slack, dtype=point.dtype)])


@pytest.mark.parametrize("prices", OPTIMA)
@pytest.mark.parametrize("dual_norm", NORMS)
def test_the_known_optima_are_found_and_certified(t20_risk, prices, dual_norm):
    form = t20_risk(*prices, DUAL_NORMS[dual_norm])
    assert form.dual_norm == dual_norm
    state = solved(form)
    expected = OPTIMA[prices][NORMS.index(dual_norm)]
    assert float(form.value(state.point)) == pytest.approx(expected, abs=1e-7)
    below = lower_bound(form, state.point, state.dual)
    assert expected - 1e-7 <= below <= expected + 1e-8
    if prices == (0.1, 1.0) and dual_norm == "l2":
        assert state.point.tolist() == pytest.approx([0.315576, 0.217326, 1.527883], abs=1e-4)


class TestReduced:
    @pytest.mark.parametrize("norm", NORMS)
    @pytest.mark.parametrize("prices", [(0.1, 1.0), (0.05, 0.2), (0.3, 0.25)])
    def test_the_smoothing_error_is_within_its_bounds(self, t20_risk, norm, prices):
        for width in [0.5, 0.1, 0.01]:
            form = t20_risk(*prices, norm, l2=0.1)
            composite = find_route(form, (Composite,), ReformulationConfig(gamma=width)).form
            for seed, scale in ((0, 0.3), (1, 1.0), (2, 3.0)):
                point = random_point(seed, 3, scale)
                lowest = float(norm_of(point, form.dual_norm))

                def value(bound, composite=composite, point=point):
                    return float(composite.value(torch.cat([point, point.new_tensor([bound])])))

                high = lowest + 5.0 + 10.0 * scale / prices[1]
                found = minimize_scalar(value, bounds=(lowest, high), method="bounded", options={"xatol": 1e-11})
                difference = min(found.fun, value(lowest)) - float(form.value(point))
                assert -1e-8 <= difference <= width * math.log(2) + 1e-8

    def test_the_smoothing_is_felt(self, t20_risk, hat):
        form = t20_risk()
        exact = float(form.value(hat))
        bound = form.best_bound(hat, form.margins.values(hat))
        joint = torch.cat([hat, bound[None]])
        gaps = [
            float(find_route(form, (Composite,), ReformulationConfig(gamma=width)).form.value(joint)) - exact
            for width in (0.5, 0.05, 1e-4)
        ]
        assert gaps[0] > 0.05
        assert gaps[0] > gaps[1] > gaps[2] >= 0.0
        assert gaps[2] < 1e-5

    @pytest.mark.parametrize("flip_cost", [1.0, math.inf])
    @pytest.mark.parametrize("free", [0, 1])
    def test_the_gradient_is_that_of_the_value(self, t20_risk, flip_cost, free):
        form = t20_risk(0.1, flip_cost, l2=0.2, free=free)
        composite = find_route(form, (Composite,), ReformulationConfig(gamma=0.1)).form
        for seed in range(3):
            point = random_point(10 + seed, 4, 0.5)
            point[3] = 2.0
            steps = 1e-6 * torch.eye(4).double()
            numeric = torch.stack([(composite.value(point + s) - composite.value(point - s)) / 2e-6 for s in steps])
            regularizer = torch.cat([0.2 * point[:3], point.new_tensor([0.1])])
            torch.testing.assert_close(composite.smooth_gradient(point) + regularizer, numeric, rtol=0, atol=1e-8)

    def test_a_draw_is_unbiased(self, t20_risk):
        composite = find_route(t20_risk(), (Composite,), ReformulationConfig(gamma=0.1)).form
        points = torch.stack([random_point(20, 4), random_point(21, 4)])
        full = composite.estimate(points, composite.everything(), None)
        singles = [composite.estimate(points, Rows(torch.tensor([i])), None) for i in range(20)]
        for field in ("loss_value", "loss_gradient"):
            mean = torch.stack([getattr(single, field) for single in singles]).mean(dim=0)
            torch.testing.assert_close(mean, getattr(full, field), rtol=0, atol=1e-13)
        assert float(torch.stack([single.loss_value for single in singles]).std()) > 0.1

    @pytest.mark.parametrize("norm", NORMS)
    def test_a_proximal_step_keeps_the_point_in_the_cone(self, t20_risk, norm):
        form = t20_risk(0.1, 1.0, norm, l2=0.1)
        composite = find_route(form, (Composite,), ReformulationConfig(gamma=0.1)).form
        for seed in range(5):
            moved = composite.regularizer.prox(random_point(30 + seed, 4, 2.0), 0.7)
            assert float(norm_of(moved[:3], form.dual_norm)) <= float(moved[3]) + 1e-12
            assert composite.regularizer.value(moved).isfinite()

    def test_lifting_and_recovering(self, t20_risk, hat):
        route = find_route(t20_risk(), (Composite,), ReformulationConfig())
        assert route.names == ["wasserstein_reduced"]
        assert route.lift(hat).tolist() == [*hat.tolist(), 1.0]
        assert route.lift(10 * hat).tolist()[3] == pytest.approx(float((10 * hat).norm()))
        assert torch.equal(route.recover(route.lift(hat)), hat)
        assert [stage.lifted.width for stage in route.stages] == [0.1, 0.03, 0.01, 0.003, 0.001]

    def test_single_precision(self, t20_rows, t20_signs, t20_risk, hat):
        margins = LinearMarginLosses(t20_rows.float(), t20_signs.float(), Margin())
        single = WassersteinRisk(margins, 0.1, 1.0, "l2", ElasticNet(0.0, 0.1))
        options = ReformulationConfig(gamma=0.01)
        route, double = find_route(single, (Composite,), options), find_route(t20_risk(l2=0.1), (Composite,), options)
        lifted = route.lift(hat.float())
        assert lifted.dtype == torch.float32
        assert float(route.form.value(lifted)) == pytest.approx(float(double.form.value(double.lift(hat))), abs=1e-5)
        assert route.form.smooth_gradient(lifted).dtype == torch.float32


class TestLiteral:
    @pytest.mark.parametrize(
        ("gamma", "value", "by_point", "by_bound"),
        [
            (0.5, 0.601810558788, [0.948591418561, -0.262169148114, -0.815475037166], -0.194288710328),
            (0.05, 1.486345059306, [2.087754694357, -0.685492438538, -1.559470510688], 0.099999993593),
        ],
    )
    def test_known_answers(self, t20_risk, hat, gamma, value, by_point, by_bound):
        composite = SmoothedConstraints(literal_form(t20_risk()), 2.2, gamma)
        joint = joint_of(hat, 0.6, 0.7)
        assert float(composite.value(joint)) == pytest.approx(value, abs=DIGITS)
        gradient = composite.smooth_gradient(joint) + composite.regularizer.gradient(joint)
        assert gradient[:3].tolist() == pytest.approx(by_point, abs=DIGITS)
        assert float(gradient[3]) == pytest.approx(by_bound, abs=DIGITS)
        if gamma == 0.5:
            assert gradient[4:6].tolist() == pytest.approx([-0.017411599598, 0.004579780980], abs=DIGITS)
            estimate = composite.estimate(joint[None], composite.everything(), None)
            unshifted = float(estimate.inner_value[0, 0]) * math.exp(float(estimate.shift) / gamma)
            assert unshifted == pytest.approx(0.728783274678, abs=DIGITS)

    def test_the_route_gives_the_same_composite(self, t20_risk, hat):
        options = ReformulationConfig(wasserstein="literal", gamma=0.5)
        route = find_route(t20_risk(), (Composite,), options)
        assert route.names == ["wasserstein_literal"]
        assert isinstance(route.form, SmoothedConstraints)
        # The exact penalty is known: twice (1 + radius).
        assert route.form.alpha == pytest.approx(2.2)
        assert (route.form.constraints, route.form.cheap_constraints, route.form.terms) == (40, 1, 42)
        assert float(route.form.value(joint_of(hat, 0.6, 0.7))) == pytest.approx(0.601810558788, abs=DIGITS)

    def test_the_lift_is_feasible(self, t20_risk, hat):
        form = t20_risk()
        route = find_route(form, (Composite,), ReformulationConfig(wasserstein="literal"))
        for point in (hat, 5 * hat, torch.zeros(3).double()):
            joint = route.lift(point)
            constraints = route.form.form.constraints
            assert float(constraints.surrogates(joint[None], slice(None))[0].max()) <= 1e-12
            assert float(constraints.cheap(joint[None])[0].max()) <= 1e-12
            assert torch.equal(route.recover(joint), point)

    @pytest.mark.parametrize("norm", NORMS)
    def test_the_objective_at_the_restoration_is_the_risk(self, t20_risk, norm):
        for l2 in (0.0, 0.3):
            form = t20_risk(0.1, 0.5, norm, l2)
            literal = literal_form(form)
            for seed in range(4):
                joint = random_point(40 + seed, 24)
                restored = restore(form, joint)
                assert torch.equal(restored[:3], joint[:3])
                value = float(literal.objective.value(restored))
                assert value == pytest.approx(float(form.value(joint[:3])), rel=1e-13)

    def test_restoration_of_the_test_vector(self, t20_risk, hat):
        restored = restore(t20_risk(), joint_of(hat, 0.2, 0.1))
        assert float(restored[3]) == pytest.approx(0.658223080963, abs=DIGITS)
        assert float(literal_form(t20_risk()).objective.value(restored)) == pytest.approx(0.737748282746, abs=DIGITS)
        torch.testing.assert_close(restored[4:], slacks(t20_risk(), hat, restored[3]))

    def test_without_flips_there_is_no_literal_form(self, t20_risk):
        with pytest.raises(DrobenchError, match="flip_cost"):
            literal_form(t20_risk(flip_cost=math.inf))

    def test_constraints_and_their_derivatives(self, t20_risk):
        form = t20_risk(0.1, 0.5, "linf", free=1)
        constraints = literal_form(form).constraints
        joint = random_point(50, 24)
        margins = form.margins.signed_rows @ joint[:3]
        expected = torch.cat(
            [
                torch.log1p(torch.exp(-margins)) - joint[4:],
                torch.log1p(torch.exp(margins)) - 0.5 * joint[3] - joint[4:],
            ]
        )
        index = torch.tensor([3, 25, 39, 0])
        values, pullback = constraints.surrogates(joint[None], index)
        torch.testing.assert_close(values[0], expected[index], rtol=1e-12, atol=1e-12)
        assert torch.equal(constraints.violations(joint[None], index), values)
        # The intercept is free: the dual norm of linf is l1, over the first two only.
        cheap, cheap_pullback = constraints.cheap(joint[None])
        assert float(cheap) == pytest.approx(float(joint[:2].abs().sum() - joint[3]), rel=1e-13)
        steps = 1e-6 * torch.eye(24).double()
        for part, pull, many in ((constraints.surrogates, pullback, 4), (constraints.cheap, cheap_pullback, 1)):
            jacobian = pull(torch.eye(many).double()[None])[0]
            arguments = (index,) if many == 4 else ()
            plus, minus = (part(joint[None] + sign * steps, *arguments)[0] for sign in (1.0, -1.0))
            torch.testing.assert_close(jacobian, ((plus - minus) / 2e-6).T, rtol=0, atol=1e-8)

    def test_a_quadratic_part_is_on_the_parameters_only(self, t20_risk):
        regularizer = literal_form(t20_risk(l2=0.3)).objective.regularizer
        joint = random_point(51, 24)
        expected = 0.1 * joint[3] + joint[4:].mean() + 0.15 * joint[:3].square().sum()
        torch.testing.assert_close(regularizer.value(joint), expected, rtol=1e-13, atol=0)
        moved = regularizer.prox(joint, 0.5)
        torch.testing.assert_close(moved[:3], joint[:3] / 1.15)
        torch.testing.assert_close(moved[3], joint[3] - 0.05)
        torch.testing.assert_close(moved[4:], joint[4:] - 0.5 / 20)

    def test_the_squared_norm_would_admit_a_negative_bound(self, t20_risk):
        """Radius 1, price 0.5: at `lam = -100` the objective is -49.3 with all other constraints satisfied."""
        form = t20_risk(1.0, 0.5)
        literal = literal_form(form)
        joint = joint_of(torch.zeros(3).double(), -100.0, math.log(2) + 50.0)
        assert float(literal.constraints.surrogates(joint[None], slice(None))[0].max()) <= 1e-12
        assert float(literal.objective.value(joint)) == pytest.approx(-49.3, abs=0.01)
        assert float(joint[:3].square().sum() - joint[3] ** 2) < 0.0
        assert float(literal.constraints.cheap(joint[None])[0]) == pytest.approx(100.0)
        assert float(form.value(solved(form).point)) == pytest.approx(math.log(2), abs=1e-8)

"""Saddle forms: maximised over the adversary they are the risk; operator, projections and starts."""

import math

import cvxpy
import pytest
import torch

from drobench.objective.ambiguity_sets import Chi2Ball, Chi2Penalty, Chi2Variance, CVaR, KLBall, KLPenalty
from drobench.objective.forms import MinMax, RobustRisk
from drobench.objective.losses import LinearMarginLosses, LogisticLoss, Margin
from drobench.objective.regularizers import ElasticNet
from drobench.objective.sampling import Rows
from drobench.objective.wasserstein import WassersteinRisk, norm_of
from drobench.reformulation.reformulation import ReformulationConfig
from drobench.reformulation.routes import NoRouteError, find_route
from drobench.reformulation.saddle import DivergenceSaddle, WassersteinSaddle, project_weights

SETS = (KLPenalty(0.3), Chi2Penalty(0.2), Chi2Penalty(3.0), Chi2Ball(0.1), Chi2Ball(0.8), CVaR(0.2), CVaR(0.7))
NORMS = ("l1", "l2", "linf")
SAMPLES = 11
FULL = Rows(slice(None), covered=1.0)

# An interior-point method may doubt its own answer; the comparisons are what counts.
pytestmark = pytest.mark.filterwarnings("ignore:Solution may be inaccurate")


def randoms(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def signs_of(seed):
    return torch.where(randoms(seed, SAMPLES) > 0, 1.0, -1.0).double()


def robust(ambiguity, seed=0):
    losses = LinearMarginLosses(randoms(seed, SAMPLES, 3), signs_of(seed + 1), LogisticLoss())
    return RobustRisk(losses, ambiguity, ElasticNet(0.0, 0.1))


def transport(radius=0.1, flip_cost=1.0, norm="l2", free=0, seed=0):
    margins = LinearMarginLosses(randoms(seed, SAMPLES, 3), signs_of(seed + 1), Margin())
    return WassersteinRisk(margins, radius, flip_cost, norm, ElasticNet(0.0, 0.1), free)


def lagrangian(form, point, weights):
    """`L(x, q)` from the definition, differentiable."""
    losses = torch.nn.functional.softplus(-(form.losses.signed_rows @ point))
    value = weights @ losses + 0.05 * point.square().sum()
    if isinstance(form.ambiguity, KLPenalty):
        return value - form.ambiguity.gamma * (weights * (weights * SAMPLES).log()).sum()
    if isinstance(form.ambiguity, Chi2Penalty):
        return value - 0.5 * form.ambiguity.gamma * SAMPLES * (weights - 1 / SAMPLES).square().sum()
    return value


def transport_lagrangian(form, point, bound, flips):
    margins = form.margins.signed_rows @ point
    terms = torch.nn.functional.softplus(-margins) + 0.5 * margins + 0.5 * flips * (margins - bound * form.flip_cost)
    return bound * (form.radius - 0.5 * form.flip_cost) + terms.mean() + 0.05 * point.square().sum()


def gradients(value, *variables):
    leaves = [variable.clone().requires_grad_(True) for variable in variables]
    return torch.autograd.grad(value(*leaves), leaves)


class TestDivergence:
    @pytest.mark.parametrize("ambiguity", SETS, ids=str)
    def test_the_maximum_over_the_weights_is_the_risk(self, ambiguity):
        for seed in range(3):
            form = robust(ambiguity, seed)
            saddle = DivergenceSaddle(form)
            point = randoms(10 + seed, 3)
            best = ambiguity.weights(form.losses.values(point))
            risk = float(form.value(point))
            assert float(saddle.value(torch.cat([point, best]))) == pytest.approx(risk, abs=1e-9)
            for other in range(6):
                weights = project_weights(ambiguity, best + 0.1 * randoms(100 + other, SAMPLES))
                assert float(saddle.value(torch.cat([point, weights]))) <= risk + 1e-8

    @pytest.mark.parametrize("ambiguity", SETS, ids=str)
    def test_the_operator_is_the_gradient_of_the_lagrangian(self, ambiguity):
        form = robust(ambiguity)
        saddle = DivergenceSaddle(form)
        for seed in range(3):
            point = randoms(20 + seed, 3)
            weights = 0.5 / SAMPLES + 0.5 * torch.softmax(0.3 * randoms(30 + seed, SAMPLES), 0)
            by_point, by_weights = gradients(lambda x, q: lagrangian(form, x, q), point, weights)
            found = saddle.operator(torch.cat([point, weights]), FULL)
            torch.testing.assert_close(found, torch.cat([by_point, -by_weights]), rtol=1e-10, atol=1e-12)

    @pytest.mark.parametrize("ambiguity", SETS, ids=str)
    def test_the_value_is_the_lagrangian(self, ambiguity):
        form = robust(ambiguity)
        point, weights = randoms(35, 3), ambiguity.weights(randoms(36, SAMPLES))
        weights = 0.9 * weights + 0.1 / SAMPLES
        found = DivergenceSaddle(form).value(torch.cat([point, weights]))
        torch.testing.assert_close(found, lagrangian(form, point, weights), rtol=1e-12, atol=0)

    @pytest.mark.parametrize("ambiguity", SETS, ids=str)
    def test_a_draw_is_unbiased(self, ambiguity):
        saddle = DivergenceSaddle(robust(ambiguity))
        joint = torch.cat([randoms(40, 3), torch.softmax(0.3 * randoms(41, SAMPLES), 0)])
        singles = torch.stack([saddle.operator(joint, Rows(torch.tensor([i]))) for i in range(SAMPLES)])
        torch.testing.assert_close(singles.mean(dim=0), saddle.operator(joint, FULL), rtol=0, atol=1e-12)
        assert float(singles.std(dim=0).max()) > 0.01

    @pytest.mark.parametrize("ambiguity", SETS, ids=str)
    def test_the_projection_is_that_of_a_conic_solver(self, ambiguity):
        for seed in range(3):
            saddle = DivergenceSaddle(robust(ambiguity))
            target = randoms(50 + seed, SAMPLES) / (4.0 if seed else 1.0)
            weights = cvxpy.Variable(SAMPLES)
            conditions = [weights >= 0, cvxpy.sum(weights) == 1]
            if isinstance(ambiguity, CVaR):
                conditions.append(weights <= 1 / (ambiguity.level * SAMPLES))
            if isinstance(ambiguity, Chi2Ball):
                conditions.append(0.5 * SAMPLES * cvxpy.sum_squares(weights - 1 / SAMPLES) <= ambiguity.radius)
            program = cvxpy.Problem(cvxpy.Minimize(cvxpy.sum_squares(weights - target.numpy())), conditions)
            program.solve(solver="CLARABEL")
            point = randoms(60, 3)
            found = saddle.project(torch.cat([point, target]))
            assert torch.equal(found[:3], point)
            assert found[3:].tolist() == pytest.approx(weights.value.tolist(), abs=5e-4)
            assert float((found[3:] - target).square().sum()) == pytest.approx(program.value, abs=1e-6)
            assert ambiguity.penalty(found[3:]) < math.inf

    @pytest.mark.parametrize("ambiguity", SETS, ids=str)
    def test_the_start_is_feasible_and_uniform(self, ambiguity):
        saddle = DivergenceSaddle(robust(ambiguity))
        start = saddle.start(randoms(61, 3))
        torch.testing.assert_close(start[3:], torch.full((SAMPLES,), 1 / SAMPLES, dtype=torch.float64))
        torch.testing.assert_close(saddle.project(start), start, rtol=0, atol=1e-12)

    def test_weights_of_zero_have_a_finite_slope(self):
        saddle = DivergenceSaddle(robust(KLPenalty(0.3)))
        weights = torch.zeros(SAMPLES).double()
        weights[2] = 1.0
        assert saddle.operator(torch.cat([randoms(62, 3), weights]), FULL).isfinite().all()

    @pytest.mark.parametrize("ambiguity", SETS, ids=str)
    def test_the_operator_is_monotone(self, ambiguity):
        saddle = DivergenceSaddle(robust(ambiguity))
        for seed in range(10):
            first, second = (
                torch.cat([randoms(seed + offset, 3), torch.softmax(randoms(seed + offset + 1, SAMPLES), 0)])
                for offset in (200, 300)
            )
            difference = saddle.operator(first, FULL) - saddle.operator(second, FULL)
            assert float(difference @ (first - second)) >= -1e-12


class TestTransport:
    @pytest.mark.parametrize("norm", NORMS)
    @pytest.mark.parametrize("prices", [(0.1, 1.0), (0.05, 0.2), (0.3, 0.25)])
    def test_the_maximum_over_the_flips_is_the_reduced_form(self, norm, prices):
        form = transport(*prices, norm)
        saddle = WassersteinSaddle(form)
        for seed in range(3):
            point = randoms(70 + seed, 3)
            bound = form.best_bound(point, form.margins.values(point))
            margins = form.margins.signed_rows @ point
            flips = torch.sign(margins - bound * form.flip_cost)
            best = float(saddle.value(torch.cat([point, bound[None], flips])))
            assert best == pytest.approx(float(form.value(point)), abs=1e-12)
            for other in range(10):
                lower = torch.rand(SAMPLES, generator=torch.Generator().manual_seed(other), dtype=torch.float64) * 2 - 1
                assert float(saddle.value(torch.cat([point, bound[None], lower]))) <= best + 1e-12

    @pytest.mark.parametrize("norm", NORMS)
    def test_the_operator_is_the_gradient_of_the_lagrangian(self, norm):
        form = transport(0.1, 0.7, norm)
        saddle = WassersteinSaddle(form)
        for seed in range(3):
            point, bound = randoms(80 + seed, 3), torch.tensor(1.3 + seed, dtype=torch.float64)
            flips = torch.tanh(randoms(90 + seed, SAMPLES))
            slopes = gradients(lambda *parts: transport_lagrangian(form, *parts), point, bound, flips)
            joint = torch.cat([point, bound[None], flips])
            expected = torch.cat([slopes[0], slopes[1][None], -slopes[2]])
            torch.testing.assert_close(saddle.operator(joint, FULL), expected, rtol=1e-11, atol=1e-13)
            torch.testing.assert_close(saddle.value(joint), transport_lagrangian(form, point, bound, flips))

    def test_a_draw_is_unbiased(self):
        saddle = WassersteinSaddle(transport())
        joint = torch.cat([randoms(100, 3), torch.tensor([2.0]).double(), torch.tanh(randoms(101, SAMPLES))])
        singles = torch.stack([saddle.operator(joint, Rows(torch.tensor([i]))) for i in range(SAMPLES)])
        torch.testing.assert_close(singles.mean(dim=0), saddle.operator(joint, FULL), rtol=0, atol=1e-12)
        assert float(singles.std(dim=0).max()) > 0.01

    @pytest.mark.parametrize("norm", NORMS)
    @pytest.mark.parametrize("free", [0, 1])
    def test_the_projection_is_that_of_a_conic_solver(self, norm, free):
        form = transport(0.1, 1.0, norm, free)
        saddle = WassersteinSaddle(form)
        order = {"l1": 1, "l2": 2, "linf": "inf"}[form.dual_norm]
        for seed, bound in ((0, 0.3), (1, -1.0), (2, 9.0)):
            target = torch.cat(
                [1.5 * randoms(110 + seed, 3), torch.tensor([bound]).double(), 2 * randoms(120, SAMPLES)]
            )
            joint = cvxpy.Variable(4 + SAMPLES)
            conditions = [cvxpy.norm(joint[: 3 - free], order) <= joint[3], joint[4:] <= 1, joint[4:] >= -1]
            program = cvxpy.Problem(cvxpy.Minimize(cvxpy.sum_squares(joint - target.numpy())), conditions)
            program.solve(solver="CLARABEL")
            assert saddle.project(target).tolist() == pytest.approx(joint.value.tolist(), abs=1e-4)

    @pytest.mark.parametrize("norm", NORMS)
    def test_the_start_is_feasible(self, norm):
        form = transport(0.1, 1.0, norm)
        saddle = WassersteinSaddle(form)
        for scale in (0.0, 0.1, 5.0):
            start = saddle.start(scale * randoms(130, 3))
            assert float(norm_of(start[:3], form.dual_norm)) <= float(start[3]) + 1e-12
            assert float(start[4:].abs().max()) <= 1.0
            torch.testing.assert_close(saddle.project(start), start, rtol=0, atol=1e-12)
        # At the origin the bound is one and no margin pays for a flip.
        start = saddle.start(torch.zeros(3).double())
        assert start.tolist() == [0.0, 0.0, 0.0, 1.0, *[-1.0] * SAMPLES]


class TestRoute:
    @pytest.mark.parametrize("ambiguity", SETS, ids=str)
    def test_lifting_and_recovering(self, ambiguity):
        form = robust(ambiguity)
        route = find_route(form, (MinMax,), ReformulationConfig())
        assert route.names == ["saddle"]
        point = randoms(140, 3)
        assert route.lift(point).shape == (route.form.dimension,) == (3 + SAMPLES,)
        assert torch.equal(route.recover(route.lift(point)), point)

    def test_the_wasserstein_problem_needs_a_price_of_flips(self):
        route = find_route(transport(), (MinMax,), ReformulationConfig())
        assert isinstance(route.form, WassersteinSaddle)
        with pytest.raises(NoRouteError):
            find_route(transport(flip_cost=math.inf), (MinMax,), ReformulationConfig())

    @pytest.mark.parametrize("ambiguity", [KLBall(0.3), Chi2Variance(0.3)], ids=str)
    def test_what_has_no_projection_has_no_saddle_form(self, ambiguity):
        with pytest.raises(NoRouteError):
            find_route(robust(ambiguity), (MinMax,), ReformulationConfig())

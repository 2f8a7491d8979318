"""The Wasserstein risk of given parameters against direct minimisations, its subgradient, and the cone it lives on."""

import math
from itertools import product

import cvxpy
import pytest
import torch
from scipy.optimize import minimize_scalar

from drobench.objective.losses import LinearMarginLosses, Margin
from drobench.objective.regularizers import ElasticNet, NormCone, RegularizedCone
from drobench.objective.wasserstein import DUAL_NORMS, WassersteinRisk, norm_of

NORMS = ("l1", "l2", "linf")
# Radius and price of a flip; in the last but one flipping is cheaper than the radius, in the last impossible.
PRICES = ((0.1, 1.0), (0.1, 0.3), (0.05, 0.2), (0.3, 0.25), (0.1, math.inf))
ORDERS = {"l1": 1, "l2": 2, "linf": "inf"}


def tensor(*values):
    return torch.tensor(values, dtype=torch.float64)


@pytest.fixture
def risk(random_points):
    """Return a risk on seeded rows; an intercept is a last column of ones."""

    def make(samples=15, inputs=3, radius=0.1, flip_cost=1.0, norm="l2", l2=0.0, free=0, seed=0, dtype=torch.float64):
        rows = random_points(seed, samples, inputs)
        if free:
            rows = torch.cat([rows, torch.ones(samples, free, dtype=torch.float64)], dim=1)
        signs = torch.where(random_points(seed + 500, samples) > 0, 1.0, -1.0).double()
        margins = LinearMarginLosses(rows.to(dtype), signs.to(dtype), Margin())
        return WassersteinRisk(margins, radius, flip_cost, norm, ElasticNet(0.0, l2), free)

    return make


def reduced(form, point, bound):
    """The reduced objective at a given bound, in plain numbers."""
    margins = form.margins.signed_rows @ point
    value = form.radius * bound + torch.log1p(torch.exp(-margins)).mean()
    if math.isfinite(form.flip_cost):
        value = value + (margins - bound * form.flip_cost).clamp(min=0.0).mean()
    return float(value)


class TestKnownAnswers:
    @pytest.fixture
    def t20(self):
        i = torch.arange(1, 21, dtype=torch.float64)[:, None]
        k = torch.arange(1, 4, dtype=torch.float64)[None]
        rows = torch.sin(i * k) + 0.5 * torch.cos(2 * i + k)
        signs = torch.where(torch.sin(3 * i[:, 0]) + 0.3 > 0, 1.0, -1.0).double()
        return WassersteinRisk(LinearMarginLosses(rows, signs, Margin()), 0.1, 1.0, "l2", ElasticNet())

    def test_value_and_best_bound(self, t20):
        hat = tensor(0.5, -0.25, 0.1)
        assert float(t20.value(hat)) == pytest.approx(0.737748282746, abs=1e-11)
        assert float(t20.best_bound(hat, t20.margins.values(hat))) == pytest.approx(0.658223080963, abs=1e-11)

    def test_value_at_the_optimum(self, t20):
        point = tensor(0.315576, 0.217326, 1.527883)
        assert float(t20.value(point)) == pytest.approx(0.548187135, abs=3e-8)
        assert float(t20.best_bound(point, t20.margins.values(point))) == pytest.approx(1.929491, abs=1e-5)

    def test_at_the_origin_it_is_ln_two(self, t20):
        assert float(t20.value(torch.zeros(3).double())) == pytest.approx(math.log(2), rel=1e-15)


class TestValue:
    @pytest.mark.parametrize(("radius", "flip_cost"), PRICES)
    @pytest.mark.parametrize("norm", NORMS)
    def test_it_is_the_minimum_over_the_bound(self, risk, random_points, radius, flip_cost, norm):
        for samples, free in [(1, 0), (4, 0), (15, 1), (40, 0)]:
            form = risk(samples, 3, radius, flip_cost, norm, free=free, seed=samples)
            for seed, scale in ((1, 0.1), (2, 1.0), (3, 5.0)):
                point = scale * random_points(seed, 3 + free)
                lowest = float(norm_of(point[:3], DUAL_NORMS[norm]))
                largest = float((form.margins.signed_rows @ point).abs().max())
                highest = lowest + 1.0 + (largest / flip_cost if math.isfinite(flip_cost) else 1.0)
                found = minimize_scalar(
                    lambda bound, form=form, point=point: reduced(form, point, bound),
                    bounds=(lowest, highest),
                    method="bounded",
                    options={"xatol": 1e-12, "maxiter": 500},
                )
                best = min(found.fun, reduced(form, point, lowest))
                value = float(form.value(point))
                assert value == pytest.approx(best, abs=1e-6)
                assert value <= best + 1e-12
                bound = form.best_bound(point, form.margins.values(point))
                assert float(bound) >= lowest
                assert reduced(form, point, bound) == pytest.approx(value, abs=1e-13)

    @pytest.mark.parametrize("norm", NORMS)
    def test_it_is_the_minimum_over_bound_and_slacks(self, risk, random_points, norm):
        """The literal problem in `(lam, s)` at fixed parameters is a linear program."""
        for radius, flip_cost in PRICES:
            form = risk(12, 3, radius, flip_cost, norm, seed=3)
            for seed in (4, 5):
                point = 2.0 * random_points(seed, 3)
                margins = (form.margins.signed_rows @ point).numpy()
                up, down = torch.log1p(torch.exp(-tensor(*margins))), torch.log1p(torch.exp(tensor(*margins)))
                bound, slack = cvxpy.Variable(), cvxpy.Variable(12)
                conditions = [slack >= up.numpy(), bound >= float(norm_of(point, DUAL_NORMS[norm]))]
                if math.isfinite(flip_cost):
                    conditions.append(slack >= down.numpy() - bound * flip_cost)
                program = cvxpy.Problem(cvxpy.Minimize(radius * bound + cvxpy.sum(slack) / 12), conditions)
                expected = program.solve(solver="CLARABEL")
                assert float(form.value(point)) == pytest.approx(expected, abs=1e-7)

    def test_no_flips_is_a_norm_penalty(self, risk, random_points):
        for norm in NORMS:
            form = risk(10, 3, 0.2, math.inf, norm)
            point = random_points(6, 3)
            margins = form.margins.signed_rows @ point
            expected = torch.log1p(torch.exp(-margins)).mean() + 0.2 * norm_of(point, DUAL_NORMS[norm])
            assert float(form.value(point)) == pytest.approx(float(expected), rel=1e-14)

    def test_a_dear_flip_is_none(self, risk, random_points):
        point = random_points(7, 3)
        dear, never = risk(flip_cost=1e6), risk(flip_cost=math.inf)
        assert float(dear.value(point)) == pytest.approx(float(never.value(point)), rel=1e-14)

    def test_the_intercept_is_not_in_the_norm(self, risk):
        form = risk(10, 2, 0.1, math.inf, free=1)
        margins = form.margins.signed_rows @ tensor(0.0, 0.0, 3.0)
        assert float(form.value(tensor(0.0, 0.0, 3.0))) == pytest.approx(float(torch.log1p(torch.exp(-margins)).mean()))

    def test_the_quadratic_part_is_added(self, risk, random_points):
        point = random_points(8, 3)
        plain, ridge = risk(), risk(l2=0.3)
        extra = float(ridge.value(point) - plain.value(point))
        assert extra == pytest.approx(0.15 * float(point.square().sum()), rel=1e-12)

    @pytest.mark.parametrize("norm", NORMS)
    def test_the_risk_covers_every_allowed_move(self, risk, random_points, norm):
        """No perturbation of the samples within the radius has a larger mean loss: the dual is an upper bound."""
        form = risk(10, 3, 0.2, 0.5, norm)
        point = random_points(9, 3)
        value = float(form.value(point))
        rows = form.margins.signed_rows
        reached = []
        for seed in range(40):
            direction = random_points(200 + seed, 10, 3)
            flips = torch.zeros(10, dtype=torch.float64)
            if seed % 2:
                flips[int(torch.argmax(rows @ point))] = 1.0
            left = 0.2 * 10 - 0.5 * float(flips.sum())
            sizes = torch.stack([norm_of(row, norm) for row in direction])
            moved = rows + direction * (left / float(sizes.sum()))
            margins = (moved @ point) * (1.0 - 2.0 * flips)
            reached.append(float(torch.log1p(torch.exp(-margins)).mean()))
        assert max(reached) <= value
        assert max(reached) > reduced(risk(10, 3, 0.2, math.inf, norm), point, 0.0), "no move did anything"

    def test_single_precision(self, risk, random_points):
        point = random_points(10, 3)
        single = risk(dtype=torch.float32)
        assert single.value(point.float()).dtype == torch.float32
        assert float(single.value(point.float())) == pytest.approx(float(risk().value(point)), abs=1e-5)


class TestSubgradient:
    @pytest.mark.parametrize("norm", NORMS)
    def test_the_inequality_holds_between_random_points(self, risk, random_points, norm):
        for (radius, flip_cost), free in product(PRICES, [0, 1]):
            form = risk(15, 3, radius, flip_cost, norm, free=free, seed=11)
            points = [scale * random_points(300 + s, 3 + free) for s in range(4) for scale in (0.3, 3.0)]
            points.append(torch.zeros(3 + free, dtype=torch.float64))
            for first in points:
                slope = form.smooth_gradient(first)
                others = [*points, *(first + 1e-3 * random_points(400 + s, 3 + free) for s in range(5))]
                for second in others:
                    assert float(form.value(second)) >= float(form.value(first) + slope @ (second - first)) - 1e-12

    @pytest.mark.parametrize("norm", NORMS)
    def test_it_is_the_gradient_where_there_is_one(self, risk, random_points, norm):
        for radius, flip_cost in PRICES:
            form = risk(15, 3, radius, flip_cost, norm, seed=12)
            for seed, scale in ((1, 0.5), (2, 3.0)):
                point = scale * random_points(500 + seed, 3)
                steps = 1e-7 * torch.eye(3).double()
                numeric = torch.stack([(form.value(point + s) - form.value(point - s)) / 2e-7 for s in steps])
                torch.testing.assert_close(form.smooth_gradient(point), numeric, rtol=0, atol=1e-6)


# An interior-point method may doubt its own answer at the tip of a cone; the comparison is what counts.
@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
class TestCone:
    @pytest.mark.parametrize("norm", NORMS)
    @pytest.mark.parametrize("weight", [0.3, 1.0, 4.0])
    def test_the_weighted_projection_is_that_of_a_conic_solver(self, norm, weight, random_points):
        for seed, bound in ((0, 1.0), (1, -0.5), (2, 0.0), (3, -5.0), (4, 9.0)):
            inner = 1.5 * random_points(600 + seed, 4)
            target = torch.cat([inner, tensor(bound)])
            b, t = cvxpy.Variable(4), cvxpy.Variable()
            distance = weight * cvxpy.sum_squares(b - inner.numpy()) + cvxpy.square(t - bound)
            cvxpy.Problem(cvxpy.Minimize(distance), [cvxpy.norm(b, ORDERS[norm]) <= t]).solve(solver="CLARABEL")
            found = NormCone(norm, weight).project(target)
            assert found[:4].tolist() == pytest.approx(b.value.tolist(), abs=1e-4)
            assert float(found[4]) == pytest.approx(float(t.value), abs=1e-4)
            again = NormCone(norm, weight).project(found)
            torch.testing.assert_close(again, found, rtol=0, atol=1e-14)

    @pytest.mark.parametrize("norm", NORMS)
    @pytest.mark.parametrize("l2", [0.0, 0.7])
    @pytest.mark.parametrize("free", [0, 1])
    def test_the_proximal_map_is_that_of_a_conic_solver(self, norm, l2, free, random_points):
        cone = RegularizedCone(norm, 0.2, l2, free)
        for seed, step in ((0, 0.5), (1, 2.0), (2, 0.01)):
            target = 1.5 * random_points(700 + seed, 4 + free)
            b, t = cvxpy.Variable(3 + free), cvxpy.Variable()
            objective = 0.2 * t + 0.5 * l2 * cvxpy.sum_squares(b)
            objective += cvxpy.sum_squares(cvxpy.hstack([b, t]) - target.numpy()) / (2 * step)
            program = cvxpy.Problem(cvxpy.Minimize(step * objective), [cvxpy.norm(b[:3], ORDERS[norm]) <= t])
            program.solve(solver="CLARABEL")
            found = cone.prox(target, step)
            assert found.tolist() == pytest.approx([*b.value.tolist(), float(t.value)], abs=1e-4)
            reached = step * float(cone.value(found)) + 0.5 * float((found - target).square().sum())
            assert reached == pytest.approx(program.value, abs=1e-7)

    def test_outside_the_cone_the_value_is_infinite(self):
        cone = RegularizedCone("l2", 0.2, 0.5, 1)
        assert float(cone.value(tensor(3.0, 4.0, 100.0, 4.9))) == math.inf
        inside = 0.2 * 5.1 + 0.25 * (9 + 16 + 10000)
        assert float(cone.value(tensor(3.0, 4.0, 100.0, 5.1))) == pytest.approx(inside, rel=1e-14)


class TestErratum:
    def test_the_squared_norm_constraint_admits_negative_bounds(self, risk):
        """`|b|^2 - lam^2 <= 0` lets the objective fall without end once the radius exceeds the price of a flip."""
        form = risk(10, 3, radius=1.0, flip_cost=0.5)
        origin, ln2 = torch.zeros(3).double(), math.log(2)
        falling = []
        for bound in (-1.0, -100.0, -1e4):
            assert float(origin @ origin) - bound**2 <= 0.0
            falling.append(reduced(form, origin, bound))
        assert falling[1] == pytest.approx(-49.3, abs=0.01)
        assert falling[0] > falling[1] > falling[2]
        # With the norm itself, negative bounds are out and the best parameters are zero.
        assert float(form.value(origin)) == pytest.approx(ln2, rel=1e-14)
        assert float(form.best_bound(origin, form.margins.values(origin))) == 0.0
        for seed in range(20):
            point = torch.randn(3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
            assert float(form.value(point)) >= ln2

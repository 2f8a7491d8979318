"""The single projection at the end: Euclidean, conic, closed-form restoration and Polyak steps."""

import math

import cvxpy
import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from drobench.errors import DrobenchError
from drobench.objective.composite import Composite
from drobench.objective.forms import Constraints
from drobench.objective.losses import LinearMarginLosses, Margin
from drobench.objective.oracles.build import build_oracle
from drobench.objective.regularizers import ElasticNet
from drobench.objective.wasserstein import WassersteinRisk
from drobench.reformulation.constraints import SmoothedConstraints
from drobench.reformulation.projection import ProjectionError, project_euclidean, project_on, restore_by_polyak
from drobench.reformulation.reformulation import ReformulationConfig
from drobench.reformulation.routes import find_route
from drobench.reformulation.wasserstein import literal_form, restore
from drobench.solver import SingleProcess
from drobench_plugins.solvers.exact_convex import ExactConvex, ExactConvexConfig

# An interior-point method may doubt its own answer; the comparisons are what counts.
pytestmark = pytest.mark.filterwarnings("ignore:Solution may be inaccurate")


def randoms(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


class Balls(Constraints):
    """`|x - centre_k|^2 - radius_k^2 <= 0`."""

    def __init__(self, centres, radii):
        self.centres, self.radii = centres, radii
        self.count, self.dimension = centres.shape
        self.features = centres.new_zeros(self.count, 0)

    def surrogates(self, points, index):
        offsets = points[:, None] - self.centres[index]
        values = offsets.square().sum(-1) - self.radii[index].square()
        return values, lambda cotangents: 2.0 * cotangents @ offsets

    def violations(self, points, index):
        return self.surrogates(points, index)[0]


def balls_of(seed, count, inputs):
    """Balls that all hold a neighbourhood of the origin."""
    centres = randoms(seed, count, inputs)
    return Balls(centres, centres.norm(dim=1) + 0.2 + randoms(seed + 1, count).abs())


def risk_of(samples=12, inputs=3, radius=0.1, flip_cost=1.0, norm="l2", seed=0):
    signs = torch.where(randoms(seed + 1, samples) > 0, 1.0, -1.0).double()
    margins = LinearMarginLosses(randoms(seed, samples, inputs), signs, Margin())
    return WassersteinRisk(margins, radius, flip_cost, norm, ElasticNet())


def violation(constraints, point):
    values = [constraints.surrogates(point[None], slice(None))[0].max()]
    if constraints.cheap_count:
        values.append(constraints.cheap(point[None])[0].max())
    return float(max(values))


def solved(form):
    solver, alone = ExactConvex(ExactConvexConfig()), SingleProcess()
    start = form.margins.origin()
    oracle = build_oracle(form, 0, start)
    return solver.step(solver.init(start, oracle, alone), oracle, alone).point


class TestEuclidean:
    @pytest.mark.parametrize(("count", "inputs"), [(1, 2), (5, 3), (40, 6)])
    def test_it_is_that_of_a_conic_solver(self, count, inputs):
        for seed in range(3):
            constraints = balls_of(10 * seed, count, inputs)
            target = 4.0 * randoms(10 * seed + 5, inputs)
            assert violation(constraints, target) > 0.1
            point = cvxpy.Variable(inputs)
            inside = [
                cvxpy.sum_squares(point - centre) <= float(radius) ** 2
                for centre, radius in zip(constraints.centres.numpy(), constraints.radii, strict=True)
            ]
            cvxpy.Problem(cvxpy.Minimize(cvxpy.sum_squares(point - target.numpy())), inside).solve(solver="CLARABEL")
            found = project_euclidean(constraints, target)
            assert violation(constraints, found) <= 1e-8
            assert found.tolist() == pytest.approx(point.value.tolist(), abs=2e-4)
            expected = float(np.linalg.norm(point.value - target.numpy()))
            assert float((found - target).norm()) == pytest.approx(expected, abs=1e-6)

    def test_one_ball_has_a_closed_form(self):
        constraints = Balls(torch.tensor([[1.0, 0.0]]).double(), torch.tensor([2.0]).double())
        found = project_euclidean(constraints, torch.tensor([1.0, 7.0]).double())
        assert found.tolist() == pytest.approx([1.0, 2.0], abs=1e-8)

    def test_a_feasible_point_stays_as_it_is(self):
        constraints = balls_of(3, 8, 4)
        point = 0.05 * randoms(4, 4)
        assert project_euclidean(constraints, point) is point

    def test_constraints_without_common_point_are_an_error(self):
        far = Balls(torch.tensor([[0.0, 0.0], [10.0, 0.0]]).double(), torch.tensor([1.0, 1.0]).double())
        with pytest.raises(ProjectionError, match=r"infeasible|no common point"):
            project_euclidean(far, torch.tensor([5.0, 5.0]).double())

    def test_single_precision_comes_back_as_such(self):
        constraints = balls_of(5, 4, 3)
        single = Balls(constraints.centres.float(), constraints.radii.float())
        target = 4.0 * randoms(6, 3)
        found = project_euclidean(single, target.float(), tolerance=1e-5)
        assert found.dtype == torch.float32
        assert found.tolist() == pytest.approx(project_euclidean(constraints, target).tolist(), abs=1e-3)

    @pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
    @pytest.mark.parametrize("samples", [4, 15])
    def test_on_the_literal_wasserstein_problem_both_ways_agree(self, norm, samples):
        form = risk_of(samples, norm=norm, seed=7)
        constraints = literal_form(form).constraints
        for seed, scale in ((8, 1.0), (9, 0.2)):
            target = scale * randoms(seed, 4 + samples)
            assert violation(constraints, target) > 0.1
            euclidean = project_on(constraints, target, "euclidean")
            conic = project_on(constraints, target, "conic")
            assert violation(constraints, euclidean) <= 1e-8
            assert violation(constraints, conic) <= 1e-5
            assert float((euclidean - target).norm()) == pytest.approx(float((conic - target).norm()), abs=1e-5)
            torch.testing.assert_close(euclidean, conic, rtol=0, atol=2e-3)

    def test_the_projection_is_the_nearest_of_many_feasible_points(self):
        constraints = balls_of(11, 6, 3)
        target = 3.0 * randoms(12, 3)
        distance = float((project_euclidean(constraints, target) - target).norm())
        candidates = 1.5 * randoms(13, 5000, 3)
        feasible = candidates[(constraints.surrogates(candidates, slice(None))[0] <= 0).all(dim=1)]
        assert len(feasible) > 20
        assert float((feasible - target).norm(dim=1).min()) >= distance - 1e-9

    def test_constraints_without_conic_form_say_so(self):
        with pytest.raises(DrobenchError, match="euclidean"):
            project_on(balls_of(14, 3, 2), torch.zeros(2).double(), "conic")


class TestRestoration:
    @pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
    @pytest.mark.parametrize(("radius", "flip_cost"), [(0.1, 1.0), (0.05, 0.2), (0.3, 0.25)])
    def test_it_is_feasible_and_costs_at_most_the_violation(self, norm, radius, flip_cost):
        form = risk_of(12, 3, radius, flip_cost, norm, seed=20)
        literal = literal_form(form)
        for seed in range(6):
            joint = 0.8 * randoms(21 + seed, 16)
            restored = restore(form, joint)
            assert violation(literal.constraints, restored) <= 1e-12
            worst = max(0.0, violation(literal.constraints, joint))
            before, after = (float(literal.objective.value(x)) for x in (joint, restored))
            assert after <= before + (1.0 + radius) * worst + 1e-12
            # It is the best of all feasible points with these parameters: no other bound does better.
            for bound in torch.linspace(0, 3, 7):
                shifted = joint.clone()
                shifted[3] = restored[3] + bound
                shifted[4:] = restored[4:]
                assert float(literal.objective.value(shifted)) >= after - 1e-12

    @pytest.mark.parametrize("gamma", [0.3, 0.03])
    def test_it_loses_at_most_the_gap_and_the_smoothing(self, gamma):
        """`r(R(x)) - r* <= [Psi(x) - min Psi] + gamma ln(M + 1)` for a penalty above `1 + radius`."""
        form = risk_of(12, seed=30)
        literal = literal_form(form)
        composite = SmoothedConstraints(literal, 2.2, gamma)
        optimum = float(form.value(solved(form)))

        def both(x):
            point = torch.from_numpy(x)
            gradient = composite.smooth_gradient(point) + composite.regularizer.gradient(point)
            return float(composite.value(point)), gradient.numpy()

        start = np.concatenate([np.zeros(3), [1.0], np.ones(12)])
        found = minimize(
            both, start, jac=True, method="L-BFGS-B", options={"ftol": 0.0, "gtol": 1e-8, "maxiter": 20000}
        )
        lowest = found.fun
        # The smoothed minimum is itself within its bounds of the constrained one.
        room = gamma * math.log(12 * 2 + 2)
        assert optimum - room - 1e-6 <= lowest <= optimum + 1e-6
        points = [torch.from_numpy(found.x), *(torch.from_numpy(found.x) + 0.3 * randoms(31 + s, 16) for s in range(8))]
        for joint in points:
            lost = float(literal.objective.value(restore(form, joint))) - optimum
            assert -1e-8 <= lost <= float(composite.value(joint)) - lowest + room + 1e-6

    def test_it_is_not_the_euclidean_projection(self, t20_rows, t20_signs):
        """At the optimum with a little slack the projection changes nothing; the restoration takes the slack away."""
        margins = LinearMarginLosses(t20_rows, t20_signs, Margin())
        form = WassersteinRisk(margins, 0.1, 1.0, "l2", ElasticNet())
        literal = literal_form(form)
        best = restore(form, torch.cat([solved(form), torch.zeros(21).double()]))
        slack = best.clone()
        slack[4:] += 0.05
        assert float(literal.objective.value(slack)) == pytest.approx(0.5982, abs=5e-5)
        assert project_euclidean(literal.constraints, slack) is slack
        assert float(literal.objective.value(restore(form, slack))) == pytest.approx(0.5482, abs=5e-5)
        noisy = best + 0.5 * randoms(40, 24)
        projected = project_euclidean(literal.constraints, noisy)
        restored = restore(form, noisy)
        assert not torch.allclose(projected[:3], noisy[:3])
        assert torch.equal(restored[:3], noisy[:3])

    @pytest.mark.parametrize("seed", range(3))
    def test_the_projection_changes_the_objective_by_at_most_its_slope_times_the_distance(self, seed):
        form = risk_of(10, seed=50 + seed)
        literal = literal_form(form)
        joint = 0.7 * randoms(60 + seed, 14)
        projected = project_euclidean(literal.constraints, joint)
        # The objective is linear: its Lipschitz constant is the norm of its slope.
        lipschitz = math.sqrt(0.1**2 + 10 * 0.1**2)
        change = abs(float(literal.objective.value(projected) - literal.objective.value(joint)))
        distance = float((projected - joint).norm())
        assert distance > 0.1
        assert change <= lipschitz * distance + 1e-9

    @pytest.mark.parametrize("method", ["restoration", "euclidean", "conic", "none"])
    def test_recovering_by_each_method(self, method):
        form = risk_of(8, seed=70)
        options = ReformulationConfig(wasserstein="literal", projection=method, gamma=0.1)
        route = find_route(form, (Composite,), options)
        route.lift(torch.zeros(3).double())
        joint = 0.5 * randoms(71, 12)
        found = route.recover(joint)
        assert found.shape == (3,)
        expected = joint
        if method in ("euclidean", "conic"):
            expected = project_on(literal_form(form).constraints, joint, method)
        assert torch.equal(found, expected[:3])


class TestPolyak:
    def test_it_becomes_feasible_on_a_convex_example(self):
        for seed in range(5):
            constraints = balls_of(80 + seed, 10, 4)
            point = 3.0 * randoms(90 + seed, 4)
            assert violation(constraints, point) > 0.1
            found = restore_by_polyak(constraints, point, steps=2000, tolerance=1e-6)
            assert violation(constraints, found) <= 1e-6
            # Steps towards sets that hold the origin never lead away from it.
            assert float(found.norm()) <= float(point.norm()) + 1e-12

    def test_a_feasible_point_stays_as_it_is(self):
        point = 0.01 * randoms(95, 4)
        assert restore_by_polyak(balls_of(96, 5, 4), point) is point

    def test_one_step_on_a_half_space_is_the_projection(self):
        class HalfSpace(Balls):
            def surrogates(self, points, index):
                slope = torch.tensor([[3.0, 4.0]]).double()
                return points @ slope.T - 5.0, lambda cotangents: cotangents @ slope

        space = HalfSpace(torch.zeros(1, 2).double(), torch.ones(1).double())
        found = restore_by_polyak(space, torch.tensor([3.0, 4.0]).double(), steps=1)
        assert found.tolist() == pytest.approx([0.6, 0.8], abs=1e-14)

    def test_without_a_slope_it_gives_up_where_it_is(self):
        empty = Balls(torch.zeros(1, 2).double(), torch.zeros(1).double())
        empty.surrogates = lambda points, index: (
            torch.ones(1, 1).double(),
            lambda cotangents: torch.zeros(1, 1, 2).double(),
        )
        point = torch.ones(2).double()
        assert restore_by_polyak(empty, point) is point

    def test_cheap_constraints_are_restored_too(self):
        """The norm constraint of the literal form is a constraint like the others."""
        form = risk_of(6, seed=97)
        constraints = literal_form(form).constraints
        joint = torch.cat([randoms(98, 3), torch.tensor([0.01]).double(), torch.full((6,), 5.0).double()])
        assert violation(constraints, joint) > 0.1
        assert violation(constraints, restore_by_polyak(constraints, joint, steps=2000, tolerance=1e-6)) <= 1e-5

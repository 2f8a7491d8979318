"""Lower bounds: never above the optimum, whatever they are computed from, and tight where they should be."""

import math

import cvxpy
import numpy as np
import pytest
import torch

from drobench.app.optimum import find_optimum
from drobench.objective.ambiguity_sets import Chi2Ball, Chi2Penalty, Chi2Variance, CVaR, KLBall, KLPenalty
from drobench.objective.forms import FiniteSum, RobustRisk
from drobench.objective.losses import LinearMarginLosses, LogisticLoss, Margin, SigmoidLoss
from drobench.objective.oracles.build import build_oracle
from drobench.objective.regularizers import ElasticNet
from drobench.objective.wasserstein import WassersteinRisk
from drobench.reformulation.certificates import lower_bound
from drobench.registry import load_catalogue
from drobench.solver import SingleProcess
from drobench_plugins.solvers.exact_convex import ExactConvex, ExactConvexConfig

SETS = (
    KLPenalty(0.5),
    KLPenalty(0.05),
    Chi2Penalty(2.0),
    Chi2Penalty(0.25),
    Chi2Ball(0.5),
    Chi2Ball(0.0),
    KLBall(0.5),
    KLBall(0.0),
    KLBall(9.0),
    CVaR(0.25),
    CVaR(0.1),
)
WEIGHTS = ((0.0, 0.1), (0.05, 0.0), (0.05, 0.1), (0.0, 0.0))
NORMS = ("l1", "l2", "linf")
PRICES = ((0.1, 1.0), (0.05, 0.2), (0.1, math.inf))

# An interior-point method may doubt its own answer; the comparisons are what counts.
pytestmark = pytest.mark.filterwarnings("ignore:Solution may be inaccurate")


def randoms(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def solved(form, start):
    solver, alone = ExactConvex(ExactConvexConfig()), SingleProcess()
    oracle = build_oracle(form, 0, start)
    return solver.step(solver.init(start, oracle, alone), oracle, alone)


@pytest.fixture(scope="module")
def noisy():
    """Losses that no parameters bring to zero: the test vectors' data are separable."""
    rows = randoms(1000, 40, 3)
    signs = torch.where(rows @ torch.tensor([1.0, -1.0, 0.5]).double() + randoms(1001, 40) > 0, 1.0, -1.0).double()
    return LinearMarginLosses(rows, signs, LogisticLoss())


@pytest.fixture(scope="module")
def catalogue():
    return load_catalogue()


@pytest.fixture(scope="module")
def t20_risk(t20_rows, t20_signs):
    def make(radius=0.1, flip_cost=1.0, norm="l2", l2=0.0, free=0):
        rows = torch.cat([t20_rows, torch.ones(20, free).double()], dim=1) if free else t20_rows
        margins = LinearMarginLosses(rows, t20_signs, Margin())
        return WassersteinRisk(margins, radius, flip_cost, norm, ElasticNet(0.0, l2), free)

    return make


def dual_program(form):
    """The optimum by an interior-point solver on `min over x of max over q`, through each adversary's dual."""
    rows = form.losses.signed_rows.numpy()
    count = rows.shape[0]
    point = cvxpy.Variable(rows.shape[1])
    losses = cvxpy.logistic(-rows @ point)
    ambiguity = form.ambiguity
    threshold = cvxpy.Variable()
    if isinstance(ambiguity, KLPenalty):
        gamma = ambiguity.gamma
        value = gamma * (cvxpy.log_sum_exp(losses / gamma) - math.log(count))
    elif isinstance(ambiguity, Chi2Penalty):
        excess = cvxpy.pos(losses - threshold + ambiguity.gamma)
        value = threshold - ambiguity.gamma / 2 + cvxpy.sum_squares(excess) / (2 * ambiguity.gamma * count)
    elif isinstance(ambiguity, Chi2Ball):
        value = threshold + math.sqrt((1 + 2 * ambiguity.radius) / count) * cvxpy.norm(cvxpy.pos(losses - threshold), 2)
    else:
        assert isinstance(ambiguity, CVaR)
        value = threshold + cvxpy.sum(cvxpy.pos(losses - threshold)) / (ambiguity.level * count)
    regularizer = form.regularizer.l1 * cvxpy.norm1(point) + 0.5 * form.regularizer.l2 * cvxpy.sum_squares(point)
    return cvxpy.Problem(cvxpy.Minimize(value + regularizer)).solve(solver="CLARABEL")


class TestDivergences:
    @pytest.mark.parametrize("ambiguity", SETS, ids=str)
    def test_the_bound_is_tight_at_the_optimum_and_never_above_it(self, t20, noisy, ambiguity):
        for l1, l2 in WEIGHTS:
            losses = t20 if l1 + l2 > 0.0 else noisy
            form = RobustRisk(losses, ambiguity, ElasticNet(l1, l2))
            state = solved(form, losses.origin())
            value = float(form.value(state.point))
            bound = lower_bound(form, state.point, state.dual)
            assert bound is not None
            assert value - 1e-7 * abs(value) <= bound <= value + 1e-12
            useful = 0
            for seed in range(6):
                point = 0.3 * 3.0 ** (seed % 3 - 1) * randoms(seed, 3) + (state.point if seed % 2 else 0.0)
                point[torch.rand(3, generator=torch.Generator().manual_seed(seed)) < 0.3] = 0.0
                feasible = torch.softmax(randoms(50 + seed, losses.samples), 0)
                anything = randoms(80 + seed, losses.samples) / 10.0
                for dual in (None, ambiguity.weights(randoms(110 + seed, losses.samples)), feasible, anything):
                    other = lower_bound(form, point, dual)
                    # No bound at all is allowed without regularizer; a wrong one is not.
                    assert other is None or other <= value + 1e-9
                    assert l1 + l2 == 0.0 or other is not None
                    useful += other is not None and other > value - 1.0
            assert useful or l1 + l2 == 0.0

    @pytest.mark.parametrize(
        "ambiguity", [KLPenalty(0.5), Chi2Penalty(0.25), Chi2Ball(0.5), CVaR(0.25), CVaR(0.1)], ids=str
    )
    def test_the_optimum_is_that_of_an_interior_point_solver(self, noisy, ambiguity):
        for l1, l2 in WEIGHTS:
            form = RobustRisk(noisy, ambiguity, ElasticNet(l1, l2))
            state = solved(form, noisy.origin())
            assert float(form.value(state.point)) == pytest.approx(dual_program(form), abs=2e-6)

    def test_empirical_risk(self, noisy):
        for l1, l2 in WEIGHTS:
            form = FiniteSum(noisy, ElasticNet(l1, l2))
            point = solved(form, noisy.origin()).point
            value = float(form.value(point))
            assert value - 1e-7 <= lower_bound(form, point) <= value + 1e-12
            for seed in range(5):
                other = lower_bound(form, randoms(seed, 3))
                assert other is None or other <= value + 1e-12

    def test_separable_data_without_regularizer_have_no_bound_above_the_infimum(self):
        losses = LinearMarginLosses(torch.eye(3).double(), torch.ones(3).double(), LogisticLoss())
        form = RobustRisk(losses, KLPenalty(0.5), ElasticNet())
        for scale in (0.0, 1.0, 30.0):
            bound = lower_bound(form, torch.full((3,), scale).double())
            # The infimum is zero and is not attained.
            assert bound is None or bound <= 1e-12

    def test_other_losses_need_strong_convexity(self, t20_rows, t20_signs):
        losses = LinearMarginLosses(t20_rows, t20_signs, SigmoidLoss())
        assert lower_bound(RobustRisk(losses, KLPenalty(0.5), ElasticNet()), torch.zeros(3).double()) is None

    def test_the_variance_form_itself_gets_no_bound_above_its_values(self, t20):
        """It is not convex, so a bound from its own weights proves nothing; if there is one it must hold."""
        form = RobustRisk(t20, Chi2Variance(0.25), ElasticNet(0.0, 0.1))
        lowest = min(float(form.value(0.5 * randoms(seed, 3))) for seed in range(200))
        for seed in range(10):
            bound = lower_bound(form, 0.5 * randoms(seed, 3))
            assert bound is None or bound <= lowest


class TestWasserstein:
    @pytest.mark.parametrize("norm", NORMS)
    @pytest.mark.parametrize("prices", PRICES)
    def test_the_bound_is_tight_at_the_optimum_and_never_above_it(self, t20_risk, norm, prices):
        for l2, free in [(0.0, 0), (0.01, 0), (0.0, 1), (0.01, 1)]:
            form = t20_risk(*prices, norm, l2, free)
            state = solved(form, form.margins.origin())
            value = float(form.value(state.point))
            bound = lower_bound(form, state.point, state.dual)
            assert value - 1e-7 <= bound <= value + 1e-10
            for seed in range(6):
                point = state.point + 0.3 * randoms(seed, 3 + free) if seed % 2 else randoms(seed, 3 + free)
                inside = torch.rand(2, 20, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) / 20
                for dual in (None, inside, randoms(seed + 9, 2, 20), state.dual + 0.01 * randoms(seed + 20, 2, 20)):
                    assert lower_bound(form, point, dual) <= value + 1e-9

    def test_ridge_optimum_by_an_interior_point_solver(self, t20_risk):
        for norm, order in (("l1", "inf"), ("l2", 2), ("linf", 1)):
            form = t20_risk(0.1, 0.5, norm, 0.2, 1)
            rows = form.margins.signed_rows.numpy()
            point, bound = cvxpy.Variable(4), cvxpy.Variable()
            losses = cvxpy.maximum(cvxpy.logistic(-rows @ point), cvxpy.logistic(rows @ point) - 0.5 * bound)
            objective = 0.1 * bound + cvxpy.sum(losses) / 20 + 0.1 * cvxpy.sum_squares(point)
            program = cvxpy.Problem(cvxpy.Minimize(objective), [cvxpy.norm(point[:3], order) <= bound])
            expected = program.solve(solver="CLARABEL")
            assert float(form.value(solved(form, form.margins.origin()).point)) == pytest.approx(expected, abs=1e-6)


class Posed:
    """A problem that is its form alone."""

    def __init__(self, form):
        self.form = form

    def start(self, generator):
        return self.form.losses.origin()


class TestFindOptimum:
    def find(self, form, catalogue, folder):
        name = f"{form.ambiguity} {form.regularizer.l1} {form.regularizer.l2}"
        return find_optimum(Posed(form), {"form": name}, catalogue, folder)

    @pytest.mark.parametrize("gamma", [2.0, 1.0])
    def test_the_variance_form_is_certified_where_it_is_the_exact_one(self, t20, catalogue, tmp_path, gamma):
        form = RobustRisk(t20, Chi2Variance(gamma), ElasticNet(0.0, 0.1))
        found = self.find(form, catalogue, tmp_path)
        assert found.optimum is not None, found.reason
        losses = t20.values(solved(form, t20.origin()).point)
        assert gamma >= float(losses.mean() - losses.min())
        if gamma == 2.0:
            assert found.optimum.value == pytest.approx(0.471152246904, abs=1e-10)

    @pytest.mark.parametrize("gamma", [0.1, 0.05])
    def test_elsewhere_there_is_a_reason_instead(self, t20, catalogue, tmp_path, gamma):
        form = RobustRisk(t20, Chi2Variance(gamma), ElasticNet(0.0, 0.1))
        exact = RobustRisk(t20, Chi2Penalty(gamma), ElasticNet(0.0, 0.1))
        losses = t20.values(solved(exact, t20.origin()).point)
        assert gamma < float(losses.mean() - losses.min())
        found = self.find(form, catalogue, tmp_path)
        assert found.optimum is None
        assert "certified only to" in found.reason
        assert self.find(exact, catalogue, tmp_path).optimum is not None

    @pytest.mark.parametrize("ambiguity", SETS, ids=str)
    def test_every_convex_adversary_is_certified(self, t20, catalogue, tmp_path, ambiguity):
        form = RobustRisk(t20, ambiguity, ElasticNet(0.02, 0.1))
        found = self.find(form, catalogue, tmp_path)
        assert found.optimum is not None, found.reason
        certificate = found.optimum.certificate
        assert certificate["lower_bound"] <= found.optimum.value + 1e-12
        assert certificate["gap"] <= 1e-6 * found.optimum.value
        # Nothing is below it.
        values = [float(form.value(0.5 * randoms(seed, 3))) for seed in range(50)]
        assert np.min(values) >= found.optimum.value - 1e-12

    def test_what_is_not_convex_is_not_certified(self, t20_rows, t20_signs, catalogue, tmp_path):
        losses = LinearMarginLosses(t20_rows, t20_signs, SigmoidLoss())
        found = self.find(RobustRisk(losses, CVaR(0.3), ElasticNet(0.0, 0.1)), catalogue, tmp_path)
        assert found.optimum is None
        assert "not convex" in found.reason


@pytest.mark.parametrize("size", [1.0, 1e-9, 1e-200, 1e-305, 0.0])
def test_slopes_of_rows_without_weight_are_any_within_their_range(size):
    """Warnings are errors: what is wanted, in the scale of next to nothing, overflows."""
    from drobench.reformulation.certificates import _bounded_least_squares

    generator = torch.Generator().manual_seed(0)
    matrix = size * torch.randn(3, 5, generator=generator, dtype=torch.float64)
    wanted = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    low, high = torch.full((5,), -1.0, dtype=torch.float64), torch.full((5,), 2.0, dtype=torch.float64)
    found = _bounded_least_squares(matrix, wanted, low, high)
    assert bool((found >= low).all())
    assert bool((found <= high).all())
    if size == 1.0:
        best = torch.from_numpy(_least_by_search(matrix, wanted, low, high))
        assert float((matrix @ found - wanted).norm()) <= float((matrix @ best - wanted).norm()) + 1e-6


def _least_by_search(matrix, wanted, low, high):
    from scipy.optimize import minimize

    def residual(slopes):
        return float(((matrix.numpy() @ slopes - wanted.numpy()) ** 2).sum())

    bounds = list(zip(low.tolist(), high.tolist(), strict=True))
    return minimize(residual, [0.0] * 5, bounds=bounds, method="L-BFGS-B").x


def test_a_form_that_brings_its_own_bound_is_asked_for_it(t20, hat):
    class Bounded(RobustRisk):
        def lower_bound(self, point, dual=None):
            return float(self.value(point)) - 0.25 if dual is None else -1.0

    form = Bounded(t20, KLPenalty(0.5), ElasticNet(l2=0.1))
    assert lower_bound(form, hat) == float(form.value(hat)) - 0.25
    assert lower_bound(form, hat, torch.ones(20)) == -1.0
    # A form without one has none that is made up.
    assert RobustRisk(t20, KLPenalty(0.5), ElasticNet(l2=0.1)).lower_bound(hat) is None

"""The constants of the theorems against exact derivatives of single rows."""

import math

import pytest
import torch

from drobench.objective.ambiguity_sets import Chi2Variance, KLPenalty
from drobench.objective.composite import Composite, RowTerms
from drobench.objective.composites.functions import FunctionComposite
from drobench.objective.forms import RobustRisk
from drobench.objective.losses import LinearMarginLosses, LogisticLoss
from drobench.objective.oracles.composite import CompositeOracle
from drobench.objective.outer_functions import ScaledLog
from drobench.objective.regularizers import ElasticNet, Zero
from drobench.objective.sampling import Rows
from drobench.reformulation.reformulation import ReformulationConfig
from drobench.reformulation.routes import find_route
from drobench.solver.smoothness import Smoothness, measure_smoothness

GAMMA = 0.7


class Recording(CompositeOracle):
    """Remembers the rows of its only draw."""

    drawn: Rows

    def draw(self, samples=None, constraints=None, *, replacement=False) -> Rows:
        assert not hasattr(self, "drawn")
        self.drawn = super().draw(samples, constraints, replacement=replacement)
        return self.drawn


def place(dimension: int) -> torch.Tensor:
    return 0.4 * torch.randn(dimension, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


def data(m: int, n: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    rows = torch.randn(m, n, generator=generator, dtype=torch.float64)
    return rows, torch.where(torch.rand(m, generator=generator) < 0.5, -1.0, 1.0).double()


def robust_oracle(ambiguity, rows, signs, point) -> Recording:
    form = RobustRisk(LinearMarginLosses(rows, signs, LogisticLoss()), ambiguity, ElasticNet(l2=0.1))
    return Recording(find_route(form, (Composite,), ReformulationConfig()).form, 0, point)


def largest(function, rows: torch.Tensor, point: torch.Tensor) -> tuple[float, float]:
    """Return the largest gradient norm and the largest eigenvalue of a Hessian over all rows, by differentiation."""
    slopes, curvatures = [], []
    for row in rows:
        value = lambda x, row=row: function(row @ x)  # noqa: E731
        slopes.append(float(torch.func.grad(value)(point).norm()))
        hessian = torch.func.jacrev(torch.func.grad(value))(point)
        curvatures.append(float(torch.linalg.eigvalsh(hessian).abs().max()))
    return max(slopes), max(curvatures)


def test_constants_of_a_kl_problem(communicator):
    rows, signs = data(80, 5)
    point = place(5)
    oracle = robust_oracle(KLPenalty(GAMMA), rows, signs, point)
    found = measure_smoothness(oracle, communicator, point)
    seen = (signs[:, None] * rows)[oracle.drawn.samples]
    # Products do not depend on the shift, so it may be anything here.
    tilt = lambda margin: torch.exp(torch.nn.functional.softplus(-margin) / GAMMA)  # noqa: E731
    inner_slope, inner_curvature = largest(tilt, seen, point)
    mean = float(tilt(seen @ point).mean())
    outer_slope, outer_curvature = GAMMA / mean, GAMMA / mean**2
    assert found.inner_slope**2 * found.outer_curvature == pytest.approx(inner_slope**2 * outer_curvature, rel=1e-4)
    assert found.outer_slope * found.inner_curvature == pytest.approx(outer_slope * inner_curvature, rel=1e-4)
    assert found.loss_curvature == 0.0


def test_constants_of_a_variance(communicator):
    rows, signs = data(60, 4)
    point = place(4)
    oracle = robust_oracle(Chi2Variance(GAMMA), rows, signs, point)
    found = measure_smoothness(oracle, communicator, point)
    seen = (signs[:, None] * rows)[oracle.drawn.samples]
    loss = lambda margin: torch.nn.functional.softplus(-margin)  # noqa: E731
    inner_slope, inner_curvature = largest(loss, seen, point)
    assert found.inner_slope == pytest.approx(inner_slope, rel=1e-6)
    assert found.inner_curvature == pytest.approx(inner_curvature, rel=1e-4)
    assert found.outer_curvature == pytest.approx(1.0 / GAMMA, rel=1e-6)
    assert found.loss_curvature > 0.0


class Bowls(FunctionComposite):
    """Quadratics of one curvature in every direction, whose gradients need no differentiation."""

    curvatures = torch.linspace(0.5, 2.0, 40, dtype=torch.float64)

    def __init__(self, dimension):
        super().__init__(
            dimension,
            40,
            0,
            Zero(),
            loss=lambda x, numbers: 0.5 * self.curvatures[numbers] * x.square().sum(),
        )

    def row_terms(self, point, rows, shift):
        gradients = self.curvatures[rows.samples][:, None] * point
        nothing = point.new_zeros(gradients.shape[0], 0)
        return RowTerms(nothing, nothing[:, :, None] * point, gradients, inner_is_positive=False, shift=shift)


def test_the_gradients_of_the_bowls_are_those_of_their_losses():
    form, point, rows = Bowls(3), torch.tensor([0.3, -1.0, 2.0], dtype=torch.float64), Rows(torch.tensor([0, 39]))
    expected = FunctionComposite.row_terms(form, point, rows, None).loss_gradient
    torch.testing.assert_close(form.row_terms(point, rows, None).loss_gradient, expected)


def test_many_parameters_are_probed_in_random_directions_without_bias(communicator):
    # The Frobenius norm of a bowl is its curvature times sqrt(d).
    point = torch.zeros(30, dtype=torch.float64)
    squared = []
    for seed in range(200):
        oracle = CompositeOracle(Bowls(30), seed, point)
        squared.append(measure_smoothness(oracle, communicator, point).loss_curvature ** 2)
    # One row's estimate has the relative deviation sqrt(2 / 360); the mean of 200 is good to a percent.
    assert sum(squared) / 200 == pytest.approx(2.0**2 * 30, rel=0.02)


@pytest.mark.parametrize("constants", [(1.0, 2.0, 3.0, 4.0, 5.0), (0.1, 7.0, 0.5, 2.0, 0.0), (0.0, 0.0, 0.0, 0.0, 3.0)])
def test_the_step_meets_the_descent_lemma_with_equality(constants):
    inner, inner_curvature, outer, outer_curvature, loss = constants
    found = Smoothness(*constants)
    curvature = inner**2 * outer_curvature + outer * inner_curvature + loss
    noise = 3.0 * (inner**4 * outer_curvature**2 + outer**2 * inner_curvature**2 + loss**2)
    step = found.largest_step
    # 1 / (4 eta) - L / 2 - (3 / 4) eta G_0 >= 0 for tau = S
    left = 0.25 / step - 0.5 * curvature - 0.75 * step * noise
    assert left == pytest.approx(0.0, abs=1e-9 / step)
    assert found.curvature == pytest.approx(curvature)
    # The printed step, 4 / (L + sqrt(L^2 + 12 G_0)), is larger and violates it.
    printed = 4.0 / (curvature + math.sqrt(curvature**2 + 12.0 * noise))
    assert 0.25 / printed - 0.5 * curvature - 0.75 * printed * noise < 0.0


def test_a_logarithm_has_the_slope_and_curvature_of_its_closed_form(communicator):
    composite = FunctionComposite(
        dimension=2,
        samples=3,
        outputs=1,
        regularizer=Zero(),
        inner=lambda x, numbers: (numbers.double() + 1.0) * (2.0 + x[0]),
        outer=ScaledLog(GAMMA),
    )
    point = torch.zeros(2, dtype=torch.float64)
    found = measure_smoothness(CompositeOracle(composite, 0, point), communicator, point)
    assert found == pytest.approx((3.0, 0.0, GAMMA / 4.0, GAMMA / 16.0, 0.0), rel=1e-5, abs=1e-6)

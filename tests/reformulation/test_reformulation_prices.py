"""Prices, balls of any order and spectral risks as composites and as saddles: values, gradients, second derivatives."""

import math

import pytest
import torch
from scipy.optimize import minimize

from drobench.objective.ambiguity_sets import Chi2Ball, Chi2Penalty
from drobench.objective.composite import Composite
from drobench.objective.divergence_prices import DivergencePrice
from drobench.objective.forms import MinMax, RobustRisk
from drobench.objective.oracles.build import build_oracle
from drobench.objective.power_divergences import CressieReadBall, CressieReadPenalty
from drobench.objective.regularizers import ElasticNet
from drobench.objective.sampling import Rows
from drobench.objective.tail_risks import CappedChi2, CappedKL, SuperquantileMixture, TotalVariationBall
from drobench.reformulation.certificates import lower_bound
from drobench.reformulation.reformulation import ReformulationConfig
from drobench.reformulation.routes import NoRouteError, find_route

REGULARIZER = ElasticNet(l2=0.1)


class Mine(DivergencePrice):
    """A stranger's adversary by its conjugate alone: `phi(t) = (t - 1)^2`, whose slopes are `(1 + s / 2)_+`."""

    def conjugate(self, excess):
        slopes = (1.0 + 0.5 * excess).clamp(min=0.0)
        return slopes.square() - 1.0, slopes


class Kinked(DivergencePrice):
    """A stranger's adversary with kinks: CVaR of level 1/4."""

    slopes = "jump"
    largest_ratio = 4.0

    def conjugate(self, excess):
        return 4.0 * excess.clamp(min=0.0), 4.0 * (excess > 0.0).to(excess.dtype)


EQUIVALENT = [CressieReadPenalty(1.5, 0.3), CappedKL(0.3, 0.2), CappedChi2(0.3, 0.2), Mine()]
SMOOTHED = [
    CressieReadPenalty(3.0, 0.3),
    CressieReadBall(1.5, 0.4),
    CressieReadBall(3.0, 0.4),
    TotalVariationBall(0.2),
    SuperquantileMixture((0.2, 0.6), (0.4, 0.6)),
    Kinked(),
]
ALL = [*EQUIVALENT, *SMOOTHED]


def ids(ambiguity):
    return f"{type(ambiguity).__name__}-{getattr(ambiguity, 'order', '')}"


def composite_of(t20, ambiguity, width=None):
    native = RobustRisk(t20, ambiguity, REGULARIZER)
    return native, find_route(native, (Composite,), ReformulationConfig(gamma=width))


def at_best_duals(route, native, hat):
    """The value of the composite with the dual variables at their best, by a search that knows nothing."""
    start = route.lift(hat)
    size = native.dimension

    def value(duals):
        return float(route.form.value(torch.cat([hat, torch.as_tensor(duals, dtype=torch.float64)])))

    found = minimize(
        value, start[size:].numpy(), method="Nelder-Mead", options={"xatol": 1e-10, "fatol": 1e-13, "maxiter": 2000}
    )
    return found.fun


@pytest.mark.parametrize("ambiguity", EQUIVALENT, ids=ids)
def test_minimised_over_its_variable_the_composite_is_the_robust_risk(ambiguity, t20, hat):
    native, route = composite_of(t20, ambiguity)
    assert route.names == ["price"]
    expected = float(native.value(hat))
    assert at_best_duals(route, native, hat) == pytest.approx(expected, rel=1e-9)
    # The start for the variable is its best value there.
    assert float(route.form.value(route.lift(hat))) == pytest.approx(expected, rel=1e-12)
    assert torch.equal(route.recover(route.lift(hat)), hat)


@pytest.mark.parametrize("ambiguity", SMOOTHED, ids=ids)
def test_smoothing_changes_the_value_by_what_it_says_and_vanishes(ambiguity, t20, hat):
    errors = []
    for width in (0.3, 0.03, 0.003):
        native, route = composite_of(t20, ambiguity, width)
        errors.append(at_best_duals(route, native, hat) - float(native.value(hat)))
        assert abs(errors[-1]) <= route.form.smoothing_error * (1.0 + 1e-9)
    assert abs(errors[0]) > 1e-5
    assert abs(errors[2]) <= 0.1 * abs(errors[0])
    # A ball's root and hinge are smoothed upwards, and a price that is added makes the adversary weaker.
    assert all(error * (1.0 if isinstance(ambiguity, CressieReadBall) else -1.0) >= -1e-9 for error in errors)


@pytest.mark.parametrize("ambiguity", SMOOTHED, ids=ids)
def test_a_smoothing_error_is_kept(ambiguity, t20, hat):
    native = RobustRisk(t20, ambiguity, REGULARIZER)
    route = find_route(native, (Composite,), ReformulationConfig(smoothing_error=0.01))
    assert route.form.smoothing_error == pytest.approx(0.01, rel=1e-9)
    assert abs(at_best_duals(route, native, hat) - float(native.value(hat))) <= 0.01 * (1.0 + 1e-9)


@pytest.mark.parametrize("ambiguity", ALL, ids=ids)
def test_gradient_and_hessian_are_derivatives(ambiguity, t20, hat):
    _, route = composite_of(t20, ambiguity, 0.3)
    form, point = route.form, route.lift(hat)
    # Beside the points where the losses meet a kink of the second derivative.
    point = point + torch.linspace(0.011, 0.029, point.numel(), dtype=torch.float64)
    step = 1e-6
    directions = torch.eye(point.numel(), dtype=torch.float64)

    def smooth(at):
        return float(form.value(at) - form.regularizer.value(at))

    differences = [(smooth(point + step * one) - smooth(point - step * one)) / (2 * step) for one in directions]
    expected = torch.tensor(differences, dtype=torch.float64)
    torch.testing.assert_close(form.smooth_gradient(point), expected, rtol=1e-6, atol=1e-7)
    rows, means = form.everything(), form.estimate(point[None], form.everything(), None)
    weights = form.outer.gradient(means.inner_value[0], means.shift)
    jacobian = means.inner_jacobian[0]
    hessian = form.hessian(point, rows, weights, means.shift)
    hessian = hessian + jacobian.T @ form.outer.hessian(means.inner_value[0], means.shift) @ jacobian
    columns = [(form.smooth_gradient(point + step * one) - form.smooth_gradient(point - step * one)) / (2 * step)
               for one in directions]  # fmt: skip
    torch.testing.assert_close(hessian, torch.stack(columns), rtol=2e-4, atol=2e-5)
    vector = torch.linspace(-1.0, 1.0, point.numel(), dtype=torch.float64)
    product = form.hessian_product(point, rows, weights, means.shift, vector)
    torch.testing.assert_close(product, form.hessian(point, rows, weights, means.shift) @ vector, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("ambiguity", ALL, ids=ids)
def test_single_rows_make_up_the_means(ambiguity, t20, hat):
    _, route = composite_of(t20, ambiguity, 0.3)
    form, point = route.form, route.lift(hat)
    means = form.estimate(point[None], form.everything(), None)
    terms = form.row_terms(point, Rows(torch.arange(20)), None)
    torch.testing.assert_close(terms.inner_value.mean(dim=0), means.inner_value[0])
    if terms.loss_gradient is not None:
        torch.testing.assert_close(terms.loss_gradient.mean(dim=0), means.loss_gradient[0])
    drawn = Rows(torch.tensor([3, 5, 5, 17]))
    two = torch.stack([point, point + 0.1])
    change, both = form.change(two, drawn, means.shift), form.estimate(two, drawn, means.shift)
    torch.testing.assert_close(change.inner_jacobian, both.inner_jacobian[0] - both.inner_jacobian[1])
    if change.loss_gradient is not None:
        torch.testing.assert_close(change.loss_gradient, both.loss_gradient[0] - both.loss_gradient[1])


def test_order_two_is_the_composite_of_chi_square(t20, hat):
    for ours, older in (
        (CressieReadPenalty(2.0, 0.5), Chi2Penalty(0.5)),
        (CressieReadBall(2.0, 0.5), Chi2Ball(0.5)),
    ):
        values = []
        for ambiguity in (ours, older):
            _, route = composite_of(t20, ambiguity, 0.1)
            values.append(route.form.value(torch.cat([hat, hat.new_tensor([0.4])])))
        torch.testing.assert_close(*values, rtol=1e-12, atol=0)


@pytest.mark.parametrize("ambiguity", [*EQUIVALENT, CressieReadPenalty(3.0, 0.3)], ids=ids)
def test_the_saddle_of_a_price(ambiguity, t20, hat):
    native = RobustRisk(t20, ambiguity, REGULARIZER)
    route = find_route(native, (MinMax,), ReformulationConfig())
    saddle, size = route.form, native.dimension
    best = ambiguity.weights(t20.values(hat))
    joint = torch.cat([hat, best])
    assert float(saddle.value(joint)) == pytest.approx(float(native.value(hat)), rel=1e-10)
    operator = saddle.operator(joint, Rows(slice(None)))
    torch.testing.assert_close(operator[:size], native.smooth_gradient(hat) + REGULARIZER.gradient(hat))
    # At the best reply the slopes of all weights that are neither zero nor at a cap are the same.
    free = (best > 1e-6) & (best < 0.999 * min(ambiguity.largest_ratio, 20.0) / 20.0)
    assert float(operator[size:][free].max() - operator[size:][free].min()) < 1e-7
    moved = saddle.project(joint + 0.1 * torch.sin(torch.arange(joint.numel(), dtype=torch.float64)))
    assert float(moved[size:].sum()) == pytest.approx(1.0)
    assert ambiguity.penalty(moved[size:]) < math.inf
    torch.testing.assert_close(saddle.project(moved), moved, rtol=0, atol=1e-9)


def test_no_saddle_is_made_of_a_set_without_a_known_projection(t20):
    for ambiguity in (CressieReadBall(1.5, 0.4), TotalVariationBall(0.2)):
        with pytest.raises(NoRouteError, match=f"{type(ambiguity).__name__} .*reach: Composite, FiniteSum"):
            find_route(RobustRisk(t20, ambiguity, REGULARIZER), (MinMax,), ReformulationConfig())


@pytest.mark.parametrize("ambiguity", ALL, ids=ids)
@pytest.mark.parametrize("seed", range(3))
def test_bounds_hold_wherever_they_are_taken(ambiguity, seed, t20):
    native = RobustRisk(t20, ambiguity, REGULARIZER)
    generator = torch.Generator().manual_seed(seed)
    points = torch.randn(6, 3, generator=generator, dtype=torch.float64)
    reply = torch.rand(20, generator=generator, dtype=torch.float64)
    bounds = [lower_bound(native, point, dual) for point in points[:3] for dual in (None, reply)]
    assert max(bounds) <= min(float(native.value(point)) for point in points) + 1e-12


@pytest.mark.parametrize("ambiguity", ALL, ids=ids)
def test_an_oracle_counts_on_these_forms(ambiguity, t20, hat):
    _, route = composite_of(t20, ambiguity)
    start = route.lift(hat)
    oracle = build_oracle(route.form, 0, start)
    found = oracle.estimate(start[None], oracle.draw(5), None)
    assert found.loss_gradient.shape == (1, start.numel())
    assert oracle.passes == pytest.approx(0.25)

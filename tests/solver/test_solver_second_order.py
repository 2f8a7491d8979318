"""Hessians of composites against differences of exact gradients, for every reduction, model and way of holding rows."""

from itertools import pairwise

import pytest
import torch

from drobench.objective.ambiguity_sets import Chi2Ball, Chi2Penalty, Chi2Variance, CVaR, KLBall, KLPenalty
from drobench.objective.composite import Composite
from drobench.objective.composites.lifted import DualTransform, LiftedComposite
from drobench.objective.composites.losses import LossComposite, LossTransform
from drobench.objective.forms import Constrained, FiniteSum, RobustRisk
from drobench.objective.group_adversary import GroupAdversary
from drobench.objective.losses import (
    CrossEntropyLoss,
    LinearMarginLosses,
    LinearScoreLosses,
    LogisticLoss,
    Margin,
    NetworkLosses,
    SigmoidLoss,
)
from drobench.objective.oracles.composite import CompositeOracle
from drobench.objective.outer_functions import OuterFunction
from drobench.objective.rate_constraints import RateConstraints
from drobench.objective.regularizers import ElasticNet, Zero
from drobench.objective.sampling import Rows, Shard
from drobench.objective.streamed_losses import StreamedLosses
from drobench.objective.wasserstein import WassersteinRisk
from drobench.reformulation.reformulation import ReformulationConfig
from drobench.reformulation.routes import find_route
from drobench.solver import SingleProcess, refresh
from drobench.solver.second_order import hessian, hessian_product

ROWS, COLUMNS = 40, 4
DIVERGENCES = [KLPenalty(0.3), KLBall(0.3), Chi2Variance(2.0), Chi2Penalty(0.4), Chi2Ball(0.2), CVaR(0.3)]


def noise(*shape, seed=0):
    generator = torch.Generator().manual_seed(sum(shape) + 100 * seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def linear(loss):
    return LinearMarginLosses(noise(ROWS, COLUMNS), noise(ROWS).sign(), loss)


def softmax():
    return LinearScoreLosses(noise(ROWS, COLUMNS), 3, torch.arange(ROWS) % 3, CrossEntropyLoss())


def network():
    features, targets = noise(ROWS, COLUMNS), noise(ROWS).sign()

    def scores(point, rows):
        hidden = torch.tanh(rows @ point[: COLUMNS * 3].view(COLUMNS, 3))
        return hidden @ point[COLUMNS * 3 :]

    return NetworkLosses(scores, COLUMNS * 3 + 3, features, targets, LogisticLoss())


def streamed():
    rows, signs = noise(ROWS, COLUMNS), noise(ROWS).sign()
    return StreamedLosses(lambda index: LinearMarginLosses(rows[index], signs[index], LogisticLoss()), ROWS, 7)


def rates(surrogate, merged, which=None):
    groups = (noise(6, ROWS, seed=1) > 0).to(torch.float64)
    everybody = torch.ones(ROWS, dtype=torch.float64)
    count = 6 if which is None else which.numel()
    constraints = RateConstraints(
        linear(Margin()), groups, everybody, 0.05, surrogate, noise(count, 2), which=which, merged=merged
    )
    return Constrained(FiniteSum(linear(LogisticLoss()), Zero()), constraints)


def forms():
    logistic = linear(LogisticLoss())
    return {
        **{
            type(ambiguity).__name__: RobustRisk(linear(LogisticLoss()), ambiguity, Zero()) for ambiguity in DIVERGENCES
        },
        "KL sigmoid": RobustRisk(linear(SigmoidLoss()), KLPenalty(0.5), Zero()),
        "KL softmax": RobustRisk(softmax(), KLPenalty(0.5), Zero()),
        "chi2 softmax": RobustRisk(softmax(), Chi2Variance(1.0), Zero()),
        "KL streamed": RobustRisk(streamed(), KLPenalty(0.5), Zero()),
        "KL ball streamed": RobustRisk(streamed(), KLBall(0.3), Zero()),
        "KL network": RobustRisk(network(), KLPenalty(0.5), Zero()),
        "CVaR network": RobustRisk(network(), CVaR(0.4), Zero()),
        "plain": FiniteSum(linear(LogisticLoss()), Zero()),
        "groups": RobustRisk(logistic, GroupAdversary(torch.arange(ROWS) % 3, KLPenalty(0.3)), Zero()),
        "worst group": RobustRisk(logistic, GroupAdversary(torch.arange(ROWS) % 3, CVaR(1 / 3)), Zero()),
        "W2": WassersteinRisk(linear(Margin()), 0.1, 1.0, "l2", ElasticNet()),
        "W2 without flips": WassersteinRisk(linear(Margin()), 0.1, float("inf"), "l2", ElasticNet()),
        "rates bce": rates("bce", merged=False),
        "rates bce merged": rates("bce", merged=True),
        "rates hinge": rates("hinge", merged=False),
        "rates of repeated groups": rates("bce", merged=False, which=torch.tensor([0, 1, 1, 4, 5, 5, 5])),
    }


# Wide enough for a difference quotient to see smoothed kinks as smooth.
OPTIONS = ReformulationConfig(gamma=0.5)


def composite(name):
    form = find_route(forms()[name], (Composite,), OPTIONS).form
    point = 0.5 * noise(form.dimension, seed=3)
    if isinstance(form, LiftedComposite):
        point[-1] = 0.8
    return form, point


def measured_hessian(form, point, rows=None):
    oracle = CompositeOracle(form, 0, point)
    rows = rows or oracle.draw()
    estimates = refresh(oracle, SingleProcess(), point, rows)
    return oracle, estimates, rows, hessian(oracle, SingleProcess(), point, estimates, rows)


def differences(form, point, step=1e-5):
    columns = [
        (form.smooth_gradient(point + step * unit) - form.smooth_gradient(point - step * unit)) / (2.0 * step)
        for unit in torch.eye(point.numel(), dtype=point.dtype)
    ]
    return torch.stack(columns)


@pytest.mark.parametrize("name", forms())
def test_products_are_differences_of_gradients(name):
    form, point = composite(name)
    oracle, vector = CompositeOracle(form, 0, point), noise(form.dimension, seed=5)
    rows = oracle.draw()
    estimates = refresh(oracle, SingleProcess(), point, rows)
    product = hessian_product(oracle, SingleProcess(), point, estimates, rows, vector)
    torch.testing.assert_close(product, differences(form, point) @ vector, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", [name for name in forms() if "network" not in name])
def test_the_matrix_is_that_of_differences(name):
    form, point = composite(name)
    matrix = measured_hessian(form, point)[-1]
    torch.testing.assert_close(matrix, differences(form, point), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("gamma", [1.0, 0.05])
def test_the_matrix_of_kl_is_that_of_autograd(gamma):
    rows, signs = noise(ROWS, COLUMNS), noise(ROWS).sign()

    def risk(point):
        losses = torch.nn.functional.softplus(-signs * (rows @ point))
        return gamma * (torch.logsumexp(losses / gamma, dim=0) - torch.log(torch.tensor(float(ROWS))))

    form = find_route(RobustRisk(linear(LogisticLoss()), KLPenalty(gamma), Zero()), (Composite,), OPTIONS).form
    point = noise(COLUMNS, seed=3)
    torch.testing.assert_close(measured_hessian(form, point)[-1], torch.func.hessian(risk)(point), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("name", forms())
def test_closed_forms_agree_with_automatic_differentiation(name):
    form, point = composite(name)
    if not isinstance(form, LossComposite):
        pytest.skip("no reduction of losses")
    estimates = form.estimate(point[None], form.everything(), None)
    weights = form.outer.gradient(estimates.inner_value[0], estimates.shift)
    losses = form.losses.values(point[: form.losses.dimension])
    if isinstance(form, LiftedComposite):
        given = (losses, point[form.losses.dimension :], weights, estimates.shift)
        found, expected = form.lifted.bends(*given), DualTransform.bends(form.lifted, *given)
    else:
        given = (losses, weights, estimates.shift)
        found, expected = form.transform.bends(*given), LossTransform.bends(form.transform, *given)
    for part, other in zip(found, expected, strict=True):
        torch.testing.assert_close(part, other)
    outer = form.outer
    torch.testing.assert_close(
        outer.hessian(estimates.inner_value[0], estimates.shift),
        OuterFunction.hessian(outer, estimates.inner_value[0], estimates.shift),
    )


@pytest.mark.parametrize("name", ["KLPenalty", "KLBall", "CVaR", "groups", "rates bce"])
@pytest.mark.parametrize("parts", [2, 3])
def test_parts_of_processes_add_up(name, parts):
    form, point = composite(name)
    oracle, estimates, _, whole = measured_hessian(form, point)
    weights = oracle.outer_gradient(estimates.inner_value, estimates.shift)
    vector = noise(form.dimension, seed=7)
    matrix, product = torch.zeros_like(whole), torch.zeros_like(vector)
    for rank in range(parts):
        of_rank = CompositeOracle(form, 0, point, Shard(rank, parts))
        rows = of_rank.draw()
        matrix = matrix + of_rank.hessian(point, rows, weights, estimates.shift)
        product = product + of_rank.hessian_product(point, rows, weights, estimates.shift, vector)
        assert of_rank.totals.hessian_rows == of_rank.totals.hessian_products == form.samples + form.constraints
    if form.outputs:
        outer = estimates.inner_jacobian.T @ oracle.outer_hessian(estimates.inner_value, estimates.shift)
        matrix = matrix + outer @ estimates.inner_jacobian
        product = product + outer @ estimates.inner_jacobian @ vector
    torch.testing.assert_close(matrix, whole)
    torch.testing.assert_close(product, whole @ vector)


def test_some_rows_have_the_hessian_of_their_own_mean():
    form, point = composite("KLPenalty")
    some = torch.tensor([3, 1, 4, 15, 9])
    matrix = measured_hessian(form, point, Rows(some, drawn_samples=5))[-1]
    losses = LinearMarginLosses(noise(ROWS, COLUMNS)[some], noise(ROWS).sign()[some], LogisticLoss())
    alone = find_route(RobustRisk(losses, KLPenalty(0.3), Zero()), (Composite,), OPTIONS).form
    torch.testing.assert_close(matrix, measured_hessian(alone, point)[-1])


def test_a_matrix_at_the_point_of_a_gradient_is_no_further_call():
    form, point = composite("KLPenalty")
    oracle, estimates, rows, _ = measured_hessian(form, point)
    assert oracle.counters.sample_calls == ROWS
    assert oracle.counters.hessian_rows == ROWS
    hessian_product(oracle, SingleProcess(), point, estimates, rows, point)
    assert (oracle.counters.sample_calls, oracle.counters.hessian_products) == (2 * ROWS, ROWS)
    hessian(oracle, SingleProcess(), point + 1.0, estimates, rows)
    assert (oracle.counters.sample_calls, oracle.counters.hessian_rows) == (3 * ROWS, 2 * ROWS)


def test_widths_of_network_parts_are_no_matrix():
    form, _ = composite("KL network")
    assert form.has_hessian_products
    assert not form.has_hessian
    assert all(one.has_hessian for one, _ in pairwise([composite(name)[0] for name in ("CVaR", "W2", "groups")]))

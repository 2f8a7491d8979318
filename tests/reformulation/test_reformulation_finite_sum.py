"""Empirical risk as a composite, and what is left where robustness is dropped."""

import pytest
import torch

from drobench.objective.ambiguity_sets import KLPenalty
from drobench.objective.composite import Composite
from drobench.objective.forms import FiniteSum, RobustRisk
from drobench.objective.regularizers import ElasticNet
from drobench.reformulation.reformulation import ReformulationConfig
from drobench.reformulation.routes import find_route

OPTIONS = ReformulationConfig()
REGULARIZER = ElasticNet(l1=0.01, l2=0.1)


@pytest.fixture
def kl(t20):
    return RobustRisk(t20, KLPenalty(0.5), REGULARIZER)


@pytest.fixture
def empirical(t20):
    return FiniteSum(t20, REGULARIZER)


def test_robust_risk_becomes_a_finite_sum_only_as_a_relaxation(kl, hat):
    route = find_route(kl, (FiniteSum,), OPTIONS)
    assert isinstance(route.form, FiniteSum)
    assert route.names == ["drop_robustness (relaxation)"]
    assert route.form.losses is kl.losses
    assert route.form.regularizer is kl.regularizer
    expected = kl.losses.values(hat).mean() + REGULARIZER.value(hat)
    torch.testing.assert_close(route.form.value(hat), expected, rtol=1e-14, atol=0)
    assert route.form.value(hat) < kl.value(hat)


def test_a_finite_sum_becomes_a_composite_without_inner_map(empirical, hat):
    route = find_route(empirical, (Composite,), OPTIONS)
    assert route.names == ["empirical_risk"]
    assert (route.form.outputs, route.form.has_losses, route.form.uses_shift) == (0, True, False)
    for point in (hat, -2 * hat):
        torch.testing.assert_close(route.form.value(point), empirical.value(point), rtol=1e-14, atol=0)
        torch.testing.assert_close(
            route.form.smooth_gradient(point), empirical.smooth_gradient(point), rtol=1e-13, atol=1e-15
        )

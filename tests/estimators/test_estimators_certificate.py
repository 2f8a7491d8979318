"""Bounds hold, and where there is none it is said why."""

import re

import numpy as np
import pytest
from scipy.optimize import minimize

from drobench.estimators import DROClassifier, FairClassifier
from drobench.estimators.certificate import Certificate


@pytest.mark.parametrize(
    ("objective", "bound", "gap", "tight"),
    [(1.0, 1.0 - 5e-7, 5e-7, True), (1.0, 0.9, 0.1, False), (1.0, None, None, False), (1.0, 1.0 + 1e-12, -1e-12, True)],
)
def test_a_certificate_is_tight_to_a_millionth(objective, bound, gap, tight):
    found = Certificate(objective, bound, "somebody")
    assert found.gap == (None if gap is None else pytest.approx(gap))
    assert found.tight is tight


@pytest.mark.parametrize("passes", [3, 10, 30])
def test_the_bound_of_an_early_end_is_below_the_optimum(table, standardized, passes):
    """By scipy: the optimum lies between the bound and the objective, wherever the solver stopped."""
    features, labels = table
    rows = np.hstack([standardized(features), np.ones((len(features), 1))]) * labels[:, None]

    def value(point):
        return 0.5 * np.log(np.mean(np.exp(np.logaddexp(0.0, -rows @ point) / 0.5))) + 0.05 * point @ point

    optimum = minimize(value, np.zeros(5), options={"gtol": 1e-9}).fun
    settings = {"gamma": 0.5, "l2": 0.1, "solver": "prox_gradient", "budget": passes, "certify": False, "tol": 1.0}
    model = DROClassifier(**settings).fit(features, labels)
    assert model.certificate_.lower_bound <= optimum + 1e-9
    assert model.objective_ >= optimum - 1e-9
    assert model.gap_ == model.objective_ - model.certificate_.lower_bound


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"loss": "sigmoid"}, "not convex"),
        ({"model": "mlp", "model_settings": {"hidden": [4]}, "budget": 5}, "not convex"),
        ({"l2": 0.0, "loss": "smoothed_hinge"}, "no lower bound .* without l2 > 0"),
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_without_a_bound_it_is_said_why(table, settings, reason):
    model = DROClassifier(**settings).fit(*table)
    assert (model.gap_, model.optimum_, model.certificate_.lower_bound) == (None, None, None)
    assert re.search(reason, model.certificate_.reason)


def test_nothing_is_proved_of_rates(unequal):
    features, labels, groups = unequal(0)
    model = FairClassifier(problem_settings={"surrogate": "hinge"}, epsilon=0.3).fit(features, labels, groups=groups)
    assert "stand-ins" in model.certificate_.reason

"""Classes that weigh more: the certified optimum is that of scikit-learn, where there is no adversary."""

import numpy as np
import pytest

from drobench import run
from drobench.errors import SettingError
from drobench_plugins.problems.divergence_classification import CVaRClassificationConfig
from drobench_plugins.problems.divergence_regression import KLRegressionConfig

DATA = ("dataset=breast_cancer", "dataset.split=[1,0,0]", "solver=exact_convex", "problem.l2=0.1")


def theirs(weights) -> float:
    from sklearn.datasets import load_breast_cancer
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    source = load_breast_cancer()
    features, labels = StandardScaler().fit_transform(source.data), 1 - source.target
    # The intercept is penalised here: it is a feature that is one.
    rows = np.c_[features, np.ones(len(features))]
    model = LogisticRegression(
        C=1.0 / (0.1 * len(rows)), class_weight=weights, fit_intercept=False, tol=1e-12, max_iter=10_000
    ).fit(rows, labels)
    point = model.coef_[0]
    counts = np.bincount(labels)
    if weights == "balanced":
        weights = {k: len(labels) / (2 * counts[k]) for k in (0, 1)}
    margins = rows @ point * (2 * labels - 1)
    losses = np.array([weights[label] for label in labels]) * np.logaddexp(0.0, -margins)
    return float(losses.mean() + 0.05 * point @ point)


@pytest.mark.parametrize(
    ("words", "weights"),
    [(("problem.class_weights=[1,4]",), {0: 1.0, 1: 4.0}), (("problem.balance_classes=true",), "balanced")],
)
def test_the_optimum_without_an_adversary_is_that_of_weighted_regression(words, weights, tmp_path):
    record = run("problem=cvar_classification", "problem.level=1", *DATA, *words, results=tmp_path)
    assert record.optimum.value == pytest.approx(theirs(weights), rel=2e-6)


@pytest.mark.parametrize("problem", ["kl_classification", "cvar_classification", "group_classification"])
def test_robust_optima_of_weighted_losses_are_certified(problem, tmp_path):
    record = run(f"problem={problem}", "problem.class_weights=[1,2]", *DATA, results=tmp_path)
    assert record.optimum is not None
    assert record.iterates.last.gap == pytest.approx(0.0, abs=1e-5)


def test_weights_of_one_are_none(tmp_path):
    plain = run("problem=kl_classification", *DATA, results=tmp_path)
    ones = run("problem=kl_classification", "problem.class_weights=[1,1]", *DATA, results=tmp_path)
    assert ones.optimum.value == pytest.approx(plain.optimum.value, rel=2e-6)
    assert ones.run_id != plain.run_id


@pytest.mark.parametrize("weights", [[0.0, 1.0], [1.0, -1.0], [float("inf"), 1.0]])
def test_impossible_weights_are_refused(weights):
    with pytest.raises(SettingError, match="class_weights must be finite numbers above 0"):
        CVaRClassificationConfig(class_weights=weights)


def test_weights_are_given_or_balanced_and_only_for_classes(tmp_path):
    with pytest.raises(SettingError, match="found both"):
        CVaRClassificationConfig(class_weights=[1.0, 2.0], balance_classes=True)
    with pytest.raises(SettingError, match="have no classes"):
        KLRegressionConfig(balance_classes=True)
    record = run("problem.class_weights=[1,2,3]", "dataset=breast_cancer", "budget=smoke", results=tmp_path)
    assert record.status == "failed"
    assert "one weight for each of the 2 classes" in record.reason

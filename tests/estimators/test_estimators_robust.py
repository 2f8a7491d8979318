"""Robust classification and regression against convex programs, and against scikit-learn where nothing is robust."""

import cvxpy as cp
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, QuantileRegressor, Ridge

from drobench.estimators import DROClassifier, DRORegressor

L2 = 1e-2
# cvxpy's own tolerance is below what is asked for here.
pytestmark = pytest.mark.filterwarnings("ignore:Solution may be inaccurate")


def kl(losses, m):
    return 0.5 * cp.log_sum_exp(losses / 0.5) - 0.5 * np.log(m), []


def kl_ball(losses, m):
    """`min over t > 0 of t ln mean exp(l / t) + 0.2 t`, with the perspective as exponential cones."""
    scale, shift, terms = cp.Variable(nonneg=True), cp.Variable(), cp.Variable(m)
    cone = cp.constraints.ExpCone(losses_as(losses, cones := []) - shift, scale * np.ones(m), terms)
    return shift + (0.2 + np.log(1.0 / m)) * scale + 0 * cp.sum(terms), [cone, cp.sum(terms) <= scale, *cones]


def losses_as(losses, conditions):
    variable = cp.Variable(losses.shape)
    conditions.append(losses <= variable)
    return variable


def chi2_ball(losses, m):
    shift = cp.Variable()
    return np.sqrt(1.0 + 2.0 * 0.3) * cp.norm(cp.pos(losses - shift)) / np.sqrt(m) + shift, []


def cvar(losses, m):
    shift = cp.Variable()
    return shift + cp.sum(cp.pos(losses - shift)) / (m * 0.2), []


CASES = {
    "kl": ({"problem": "kl", "gamma": 0.5}, kl),
    "kl_ball": ({"problem": "kl", "radius": 0.2}, kl_ball),
    "chi2_ball": ({"problem": "chi2", "radius": 0.3}, chi2_ball),
    "cvar": ({"problem": "cvar", "level": 0.2}, cvar),
}


def with_constant(features):
    return np.hstack([features, np.ones((len(features), 1))])


def minimum(risk, losses, point, m):
    value, conditions = risk(losses, m)
    problem = cp.Problem(cp.Minimize(value + 0.5 * L2 * cp.sum_squares(point)), conditions)
    return problem.solve(solver=cp.CLARABEL)


@pytest.mark.parametrize("name", CASES)
def test_classification_is_at_the_optimum_of_a_convex_program(table, standardized, name):
    features, labels = table
    parameters, risk = CASES[name]
    model = DROClassifier(l2=L2, **parameters).fit(features, labels)
    point = cp.Variable(5)
    losses = cp.logistic(-cp.multiply(labels, with_constant(standardized(features)) @ point))
    optimum = minimum(risk, losses, point, len(labels))
    assert model.objective_ == pytest.approx(optimum, abs=1e-6)
    assert -1e-9 <= model.gap_ <= 1e-6
    assert model.converged_


@pytest.mark.parametrize("name", CASES)
def test_regression_is_at_the_optimum_of_a_convex_program(numbers, standardized, name):
    features, targets = numbers
    parameters, risk = CASES[name]
    model = DRORegressor(l2=L2, loss="huber", **parameters).fit(features, targets)
    point = cp.Variable(4)
    losses = 0.5 * cp.huber(with_constant(standardized(features)) @ point - standardized(targets), 1.0)
    assert model.objective_ == pytest.approx(minimum(risk, losses, point, len(targets)), abs=1e-6)
    assert -1e-9 <= model.gap_ <= 1e-6


def test_wasserstein_is_at_the_optimum_of_a_convex_program(table, standardized):
    features, labels = table
    model = DROClassifier("wasserstein", radius=0.1, problem_settings={"flip_cost": 0.7}).fit(features, labels)
    weights, constant, price, worst = cp.Variable(4), cp.Variable(), cp.Variable(), cp.Variable(len(labels))
    margins = cp.multiply(labels, standardized(features) @ weights + constant)
    conditions = [
        cp.norm(weights) <= price,
        cp.logistic(-margins) <= worst,
        cp.logistic(margins) - 0.7 * price <= worst,
    ]
    optimum = cp.Problem(cp.Minimize(0.1 * price + cp.sum(worst) / len(labels)), conditions).solve(solver=cp.CLARABEL)
    assert model.objective_ == pytest.approx(optimum, abs=1e-6)
    assert model.optimum_ == model.objective_


@pytest.mark.parametrize("parameters", [{"problem": "kl", "gamma": 1e7}, {"problem": "cvar", "level": 1.0}])
def test_without_robustness_it_is_logistic_regression(table, parameters):
    features, labels = table
    plain = {"l2": L2, "standardize": False, "model_settings": {"intercept": False}}
    model = DROClassifier(**parameters, **plain).fit(features, labels)
    other = LogisticRegression(C=1.0 / (L2 * len(labels)), fit_intercept=False, tol=1e-10).fit(features, labels)
    np.testing.assert_allclose(model.coef_, other.coef_, rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(model.predict_proba(features), other.predict_proba(features), atol=1e-4)
    np.testing.assert_allclose(model.intercept_, [0.0], atol=0.0)


def test_without_robustness_several_classes_are_softmax_regression(table):
    features, _ = table
    labels = np.array(["low", "middle", "high"])[np.digitize(features[:, 0], [-0.5, 0.5])]
    plain = {"l2": L2, "standardize": False, "model_settings": {"intercept": False}}
    model = DROClassifier("cvar", level=1.0, **plain).fit(features, labels)
    other = LogisticRegression(C=1.0 / (L2 * len(labels)), fit_intercept=False, tol=1e-10, max_iter=5000)
    other.fit(features, labels)
    assert model.classes_.tolist() == ["high", "low", "middle"]
    np.testing.assert_allclose(model.predict_proba(features), other.predict_proba(features), atol=1e-4)


def test_a_smaller_price_is_a_larger_risk(table):
    """The robust risk is between the mean and the largest loss, and falls as the price rises."""
    found = [DROClassifier(gamma=gamma, l2=L2).fit(*table).objective_ for gamma in (0.1, 1.0, 10.0, 1e5)]
    assert found == sorted(found, reverse=True)
    assert found[0] - found[-1] > 0.05


def test_without_robustness_it_is_ridge_regression(numbers):
    features, targets = numbers
    plain = {"l2": L2, "standardize": False, "model_settings": {"intercept": False}}
    model = DRORegressor("cvar", level=1.0, **plain).fit(features, targets)
    other = Ridge(alpha=0.5 * L2 * len(targets), fit_intercept=False).fit(features, targets)
    np.testing.assert_allclose(model.coef_, other.coef_, rtol=1e-6)


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_without_robustness_the_loss_of_a_quantile_is_quantile_regression(numbers, level):
    features, targets = numbers
    plain = {"l1": 0.02, "l2": 1e-9, "standardize": False, "model_settings": {"intercept": False}}
    quantile = {"loss": "quantile", "loss_settings": {"level": level}}
    model = DRORegressor("cvar", level=1.0, **plain, **quantile).fit(features, targets)
    other = QuantileRegressor(quantile=level, alpha=0.02, fit_intercept=False).fit(features, targets)

    def objective(weights):
        residuals = targets - features @ weights
        return np.maximum(level * residuals, (level - 1.0) * residuals).mean() + 0.02 * np.abs(weights).sum()

    assert objective(model.coef_) == pytest.approx(objective(other.coef_), rel=1e-5)


def test_predictions_are_in_the_units_of_the_targets(numbers):
    features, targets = numbers
    model = DRORegressor().fit(features, targets)
    scaled = DRORegressor().fit(100.0 * features - 7.0, 1000.0 * targets + 5.0)
    np.testing.assert_allclose(scaled.predict(100.0 * features - 7.0), 1000.0 * model.predict(features) + 5.0)
    np.testing.assert_allclose(model.predict(features), features @ model.coef_ + model.intercept_)
    assert scaled.objective_ == pytest.approx(model.objective_)
    assert abs(model.predict(features).mean() - targets.mean()) < 1.0


def test_the_objective_is_that_of_the_parameters(table, standardized):
    features, labels = table
    model = DROClassifier(gamma=0.5, l2=L2).fit(features, labels)
    losses = np.logaddexp(0.0, -labels * (with_constant(standardized(features)) @ model.parameters_))
    value = 0.5 * np.log(np.mean(np.exp(losses / 0.5))) + 0.5 * L2 * model.parameters_ @ model.parameters_
    assert model.objective_ == pytest.approx(value, abs=1e-12)


def test_groups_are_what_the_worst_group_is_taken_of(unequal):
    features, labels, groups = unequal(0, 400)
    blind = DROClassifier("group").fit(features, labels)
    seeing = DROClassifier("group").fit(features, labels, groups=groups)
    losses = blind.group_table(features, labels, groups)["mean_loss"].max()
    assert seeing.group_table(features, labels, groups)["mean_loss"].max() < losses - 1e-3
    assert seeing.groups_.tolist() == ["a", "b"]
    regularizer = 0.5e-3 * float(seeing.parameters_ @ seeing.parameters_)
    worst = seeing.group_table(features, labels, groups)["mean_loss"].max()
    assert seeing.objective_ == pytest.approx(worst + regularizer, abs=1e-9)


def test_a_table_of_groups_is_in_the_units_of_the_targets(numbers):
    features, targets = numbers
    groups = np.where(features[:, 0] > 0, "more", "less")
    model = DRORegressor().fit(features, targets)
    found = model.group_table(features, targets, groups)
    assert found["group"].to_list() == ["less", "more"]
    for group, mae in zip(found["group"], found["mae"], strict=True):
        rows = groups == group
        assert mae == pytest.approx(np.abs(model.predict(features[rows]) - targets[rows]).mean())


@pytest.mark.parametrize("name", ["kl", "chi2", "cvar", "group", "cressie_read", "total_variation", "spectral"])
def test_every_adversary_is_certified(tumours, name):
    model = DROClassifier(name).fit(*tumours)
    assert -1e-9 <= model.gap_ <= 1e-6 * max(1.0, model.objective_)
    assert model.score(*tumours) > 0.9


@pytest.mark.parametrize("name", ["kl", "chi2", "cvar", "cressie_read", "total_variation", "spectral"])
def test_every_adversary_of_a_regression_is_certified(numbers, name):
    model = DRORegressor(name, loss="huber").fit(*numbers)
    assert -1e-9 <= model.gap_ <= 1e-6 * max(1.0, model.objective_)
    assert model.score(*numbers) > 0.5


def test_regression_under_transport_is_the_mean_and_a_norm(numbers, standardized):
    """For the absolute loss the worst case within a ball is the mean and the radius times the norm of the weights."""
    features, targets = numbers
    model = DRORegressor("wasserstein", radius=0.1, loss="absolute").fit(features, targets)
    weights, constant = cp.Variable(3), cp.Variable()
    residuals = standardized(features) @ weights + constant - standardized(targets)
    optimum = cp.Problem(cp.Minimize(cp.norm1(residuals) / len(targets) + 0.1 * cp.norm(weights))).solve("CLARABEL")
    assert model.objective_ == pytest.approx(optimum, abs=1e-6)
    assert -1e-9 <= model.gap_ <= 1e-6


def test_classes_may_be_balanced(unequal):
    """The same as scikit-learn's balanced weights in the mean of the losses, where nothing is robust."""
    features, labels, _ = unequal(0, 300)
    plain = {"l2": L2, "standardize": False, "model_settings": {"intercept": False}}
    model = DROClassifier("cvar", level=1.0, problem_settings={"balance_classes": True}, **plain).fit(features, labels)
    settings = {"C": 1.0 / (L2 * len(labels)), "fit_intercept": False, "tol": 1e-10}
    other = LogisticRegression(class_weight="balanced", **settings).fit(features, labels)
    np.testing.assert_allclose(model.coef_, other.coef_, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(model.predict_proba(features), other.predict_proba(features), atol=1e-5)

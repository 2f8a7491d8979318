"""What every estimator has after a fit."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from drobench.errors import SettingError
from drobench.estimators import DROClassifier, DRORegressor, FairClassifier


def test_a_fit_leaves_what_is_documented(table):
    model = DROClassifier().fit(*table)
    text = DROClassifier.__doc__.split("Attributes:")[1]
    named = [line.strip().split(":")[0] for line in text.splitlines() if line.startswith("        ") and line[8] != " "]
    assert len(named) >= 15
    assert [name for name in named if not hasattr(model, name)] == []


def test_every_parameter_is_documented():
    for kind in (DROClassifier, FairClassifier):
        text = kind.__doc__.split("Args:")[1].split("Attributes:")[0]
        assert [name for name in kind().get_params() if f"        {name}: " not in text] == []


@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("intercept", [True, False])
def test_coefficients_are_in_the_units_of_the_raw_features(table, standardize, intercept):
    features, labels = table
    settings = {"standardize": standardize, "model_settings": {"intercept": intercept}}
    model = DROClassifier(**settings).fit(features, labels)
    np.testing.assert_allclose(model.decision_function(features), features @ model.coef_[0] + model.intercept_[0])


def test_coefficients_of_several_classes_are_in_rows(table):
    features, _ = table
    labels = np.digitize(features[:, 0], [-0.5, 0.5])
    model = DROClassifier().fit(features, labels)
    assert model.coef_.shape == (3, 4)
    np.testing.assert_allclose(model.decision_function(features), features @ model.coef_.T + model.intercept_)


def test_a_network_has_no_coefficients(table):
    settings = {"model": "mlp", "model_settings": {"hidden": [3]}, "budget": 3}
    with pytest.warns(ConvergenceWarning, match="lbfgs ended with passes"):
        model = DROClassifier(**settings, random_state=0).fit(*table)
    assert not hasattr(model, "coef_")
    assert model.parameters_.shape == (4 * 3 + 3 + 3 + 1,)


def test_a_fit_that_has_not_converged_warns_where_it_was_called(table, numbers):
    settings = {"solver": "prox_gradient", "budget": 2, "certify": False}
    for kind, data in ((DROClassifier, table), (DRORegressor, numbers)):
        with pytest.warns(ConvergenceWarning, match="has not converged: prox_gradient ended with passes") as told:
            kind(**settings).fit(*data)
        assert told[0].filename == __file__


@pytest.mark.parametrize(
    ("groups", "message"),
    [(["a"] * 3, "groups must have an entry for each of the 120 rows; found 3"), (np.zeros((3, 2)), "found 3")],
)
def test_groups_have_an_entry_for_each_row(table, groups, message):
    with pytest.raises(SettingError, match=message):
        DROClassifier().fit(*table, groups=groups)


def test_nothing_is_predicted_before_a_fit(table):
    for ask in ("predict", "decision_function", "predict_proba"):
        with pytest.raises(NotFittedError):
            getattr(DROClassifier(), ask)(table[0])


def test_what_is_returned_is_not_shared(table):
    model = DROClassifier().fit(*table)
    before = model.predict_proba(table[0])
    other = DROClassifier(gamma=0.1).fit(*table)
    assert not np.shares_memory(model.parameters_, other.parameters_)
    np.testing.assert_array_equal(model.predict_proba(table[0]), before)


def test_nothing_is_left_of_the_fit_before(table):
    features, labels = table
    model = DROClassifier("group").fit(features, labels, groups=np.arange(120) % 2)
    assert hasattr(model, "coef_")
    assert hasattr(model, "groups_")
    model.set_params(problem="kl", model="mlp", model_settings={"hidden": [2]}, budget=2, random_state=0)
    with pytest.warns(ConvergenceWarning):
        model.fit(features, labels)
    assert not any(hasattr(model, name) for name in ("coef_", "intercept_", "groups_"))

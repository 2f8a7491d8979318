"""Labels of any kind, probabilities where they mean something, and a table that agrees with fairlearn's."""

import numpy as np
import pytest
from fairlearn.metrics import MetricFrame, count, false_positive_rate, selection_rate, true_positive_rate
from sklearn.metrics import zero_one_loss

from drobench.errors import SettingError
from drobench.estimators import DROClassifier, FairClassifier


@pytest.mark.parametrize(
    "names", [["no", "yes"], [False, True], [-1, 1], [7, 3], np.array(["b", "a"], dtype=object), [0.0, 2.0]]
)
def test_classes_are_predicted_as_they_were_called(table, names):
    features, signs = table
    labels = np.asarray(names)[(signs > 0).astype(int)]
    model = DROClassifier().fit(features, labels)
    assert model.classes_.tolist() == sorted(names)
    assert model.predict(features).dtype == labels.dtype
    assert model.score(features, labels) == DROClassifier().fit(features, signs).score(features, signs) > 0.6


def test_probabilities_are_those_of_the_scores(table):
    features, labels = table
    model = DROClassifier().fit(features, labels)
    probabilities, scores = model.predict_proba(features), model.decision_function(features)
    np.testing.assert_allclose(probabilities[:, 1], 1.0 / (1.0 + np.exp(-scores)))
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    np.testing.assert_allclose(model.predict_log_proba(features), np.log(probabilities), atol=1e-12)
    three = DROClassifier().fit(features, np.digitize(features[:, 0], [-0.5, 0.5]))
    np.testing.assert_allclose(three.predict_proba(features).sum(axis=1), 1.0)
    np.testing.assert_allclose(three.predict_log_proba(features), np.log(three.predict_proba(features)), atol=1e-12)
    np.testing.assert_array_equal(three.predict_proba(features).argmax(axis=1), three.predict(features))


def test_far_scores_have_finite_logarithms(table):
    features, labels = table
    model = DROClassifier().fit(features, labels)
    assert np.isfinite(model.predict_log_proba(1e4 * features)).all()


@pytest.mark.parametrize("settings", [{"loss": "hinge"}, {"problem_settings": {"loss": "hinge"}}, {"loss": "sigmoid"}])
def test_without_a_logarithmic_loss_there_are_no_probabilities(table, settings):
    assert not hasattr(DROClassifier(**settings), "predict_proba")
    model = DROClassifier(**settings).fit(*table)
    assert not hasattr(model, "predict_proba")
    assert not hasattr(model, "predict_log_proba")
    assert hasattr(DROClassifier("wasserstein").fit(*table), "predict_proba")
    assert hasattr(FairClassifier(), "predict_proba")


def test_the_table_of_groups_agrees_with_fairlearn(unequal):
    features, labels, groups = unequal(0)
    model = DROClassifier().fit(features, labels)
    found = model.group_table(features, labels, groups)
    names = {
        "count": count,
        "error": zero_one_loss,
        "selection_rate": selection_rate,
        "true_positive_rate": true_positive_rate,
        "false_positive_rate": false_positive_rate,
    }
    expected = MetricFrame(
        metrics=names, y_true=labels, y_pred=model.predict(features), sensitive_features=groups
    ).by_group
    assert found["group"].to_list() == expected.index.to_list() == ["a", "b"]
    for name in names:
        np.testing.assert_allclose(found[name].to_numpy(), expected[name].to_numpy(dtype=float))
    chosen = groups == "b"
    losses = np.logaddexp(0.0, -(2 * labels - 1) * model.decision_function(features))
    assert found["mean_loss"][1] == pytest.approx(losses[chosen].mean())


def test_the_table_of_several_classes_has_errors_and_losses(table):
    features, _ = table
    labels = np.array(["x", "y", "z"])[np.digitize(features[:, 0], [-0.5, 0.5])]
    model = DROClassifier().fit(features, labels)
    found = model.group_table(features, labels, np.arange(len(labels)) % 2)
    assert set(found.columns) == {"group", "count", "share", "error", "mean_loss"}
    assert found["error"][0] == pytest.approx((model.predict(features) != labels)[::2].mean())


def test_a_table_wants_classes_of_the_fit(table):
    features, labels = table
    model = DROClassifier().fit(features, labels)
    with pytest.raises(SettingError, match=r"y must hold classes of the fit, \[-1, 1\]; found"):
        model.group_table(features, labels + 1, labels)


def test_one_class_is_refused(table):
    with pytest.raises(ValueError, match="at least two classes in y; found the single class"):
        DROClassifier().fit(table[0], np.ones(120))

"""scikit-learn's own checks, all of them, and what people do with estimators: pipelines, searches, copies."""

import pickle

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from drobench.estimators import DROClassifier, DRORegressor, FairClassifier

MLP = {"model": "mlp", "model_settings": {"hidden": [4]}}


@pytest.mark.filterwarnings("ignore:FairClassifier was fitted without groups")
@parametrize_with_checks([DROClassifier(), DRORegressor(), FairClassifier()])
def test_the_checks_of_scikit_learn_pass(estimator, check):
    check(estimator)


@pytest.mark.convergence
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(
    [
        DROClassifier("cvar"),
        DROClassifier("chi2", radius=0.5, solver="gcivr", budget=60),
        DROClassifier(**MLP, budget=60),
        DRORegressor("cvar", loss="absolute"),
        DRORegressor("wasserstein"),
    ]
)
def test_the_checks_pass_whatever_is_fitted(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    "estimator",
    [
        DROClassifier("cvar", level=0.5),
        DROClassifier(**MLP, budget=10, tol=1e9, random_state=3),
        DROClassifier("wasserstein", solver="newton", tol=1e9),
        DRORegressor(loss="quantile", loss_settings={"level": 0.8}),
        FairClassifier(epsilon=0.1),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_copy_predicts_the_same(unequal, estimator):
    features, labels, groups = unequal(0, 200)
    model = clone(estimator).fit(features, labels, groups=groups)
    there_and_back = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(there_and_back.predict(features), model.predict(features))
    assert there_and_back.certificate_ == model.certificate_
    again = clone(model)
    assert not hasattr(again, "parameters_")
    assert repr(again) == repr(estimator)
    np.testing.assert_array_equal(again.fit(features, labels, groups=groups).parameters_, model.parameters_)


def test_in_a_pipeline_scaling_twice_is_scaling_once(table):
    features, labels = table
    alone, piped = DROClassifier(), make_pipeline(StandardScaler(), DROClassifier())
    expected = alone.fit(features, labels).predict_proba(features)
    np.testing.assert_allclose(piped.fit(features, labels).predict_proba(features), expected, atol=1e-8)


def test_a_frame_of_texts_and_numbers(table):
    pandas = pytest.importorskip("pandas")
    features, labels = table
    frame = pandas.DataFrame(features, columns=["age", "income", "debt", "years"])
    frame["town"] = np.where(features[:, 1] > 5.0, "here", "there")
    columns = ColumnTransformer([("text", OneHotEncoder(), ["town"])], remainder="passthrough")
    model = make_pipeline(columns, DROClassifier()).fit(frame, labels)
    assert model.score(frame, labels) > 0.6
    named = DROClassifier().fit(frame[["age", "income"]], labels)
    assert named.feature_names_in_.tolist() == ["age", "income"]
    with pytest.raises(ValueError, match="feature names should match"):
        named.predict(frame[["income", "age"]])


def test_a_search_over_strengths_and_settings(table):
    features, labels = table
    grid = [
        {"problem": ["kl"], "gamma": [0.1, 10.0]},
        {"problem": ["chi2"], "problem_settings": [{"variant": "exact"}, {"variant": "ball", "radius": 0.1}]},
    ]
    search = GridSearchCV(DROClassifier(), grid, cv=3, scoring="neg_log_loss").fit(features, labels)
    assert len(search.cv_results_["params"]) == 4
    assert len(set(search.cv_results_["mean_test_score"].round(9))) == 4
    assert search.best_estimator_.gap_ < 1e-6


def test_a_regressor_is_scored_by_cross_validation(numbers):
    assert cross_val_score(DRORegressor(), *numbers, cv=3).min() > 0.5


def test_groups_reach_the_estimator(unequal):
    features, labels, groups = unequal(0, 300)
    piped = make_pipeline(StandardScaler(), FairClassifier(epsilon=0.1))
    piped.fit(features, labels, fairclassifier__groups=groups)
    assert piped[-1].groups_.tolist() == ["a", "b"]
    with config_context(enable_metadata_routing=True):
        model = FairClassifier(epsilon=0.1).set_fit_request(groups=True)
        search = GridSearchCV(model, {"l2": [1e-3, 1e-1]}, cv=2).fit(features, labels, groups=groups)
    assert search.best_estimator_.groups_.tolist() == ["a", "b"]


def test_sparse_rows_are_refused(table):
    from scipy.sparse import csr_array

    with pytest.raises(TypeError, match="Sparse data was passed"):
        DROClassifier().fit(csr_array(table[0]), table[1])

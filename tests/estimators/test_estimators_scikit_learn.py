"""scikit-learn's own checks, all of them, and what people do with estimators: pipelines, searches, copies."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from drobench.estimators import DROClassifier, DRORegressor, FairClassifier


@pytest.mark.filterwarnings("ignore:FairClassifier was fitted without groups")
@parametrize_with_checks([DROClassifier(), DRORegressor(), FairClassifier()])
def test_the_checks_of_scikit_learn_pass(estimator, check):
    check(estimator)

"""What the classifiers share: labels of any kind, scores, probabilities, a table by group."""

from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.base import ClassifierMixin
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data

from drobench.errors import SettingError
from drobench.estimators.base import RobustEstimator
from drobench.estimators.fitting import Array
from drobench.objective.predictor import predict_classes, probabilities

# Losses whose scores are log odds: of the settings of an estimator that has not been fitted.
_LOG_LOSSES = (None, "logistic", "softmax")


def _has_probabilities(estimator: Any) -> bool:
    """Whether scores stand for probabilities, which only minimising a logarithmic loss makes them."""
    fitted = getattr(estimator, "_loss", None)
    if fitted is not None:
        return fitted.link is not None
    return ((estimator.problem_settings or {}).get("loss") or estimator.loss) in _LOG_LOSSES


class RobustClassifier(ClassifierMixin, RobustEstimator):
    """Classifies by the scores of a model."""

    _task: ClassVar[str] = "classification"

    classes_: Array
    loss: str | None
    problem_settings: dict[str, Any] | None

    def _fit_classes(self, X: Any, y: Any, groups: Any) -> Self:
        features, labels = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=2)
        check_classification_targets(labels)
        classes, codes = np.unique(column_or_1d(labels, warn=True), return_inverse=True)
        if len(classes) < 2:
            raise SettingError(
                f"{type(self).__name__} needs at least two classes in y; found the single class {classes[0]!r}."
            )
        if len(classes) > 2 and not get_tags(self).classifier_tags.multi_class:
            # scikit-learn's own words, which its checks look for.
            raise SettingError(
                "Only binary classification is supported. The type of the target is multiclass: y has "
                f"{len(classes)} classes, and rates are those of two."
            )
        self.classes_ = classes
        self._fit(features, codes.astype(np.int64), None, self._groups_for(codes, groups))
        weights = self._raw_weights()
        if weights is not None:
            self.coef_, self.intercept_ = weights
        return self

    def _groups_for(self, codes: Array, groups: Any) -> Any:
        """Return the groups of the rows; a subclass may have some where none were given."""
        return groups

    def decision_function(self, X: Any) -> Array:
        """Return the scores: of two classes those of the second, above 0 where it is predicted; else one per class."""
        found: Array = self._scores(X).numpy()
        return found

    def predict(self, X: Any) -> Array:
        """Return the class of each row, as it was called in `y`."""
        codes = predict_classes(self._scores(X)).numpy()
        found: Array = self.classes_[codes]
        return found

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> Array:
        """Return the probability of each class, `(rows, classes)`; there are none with other losses than `logistic`.

        They are those of the worst case that was trained for, not of the training data: a robust model is less sure.
        """
        scores = self._scores(X)
        found: Array = probabilities(scores, "softmax" if scores.dim() > 1 else "logistic").numpy()
        return found

    @available_if(_has_probabilities)
    def predict_log_proba(self, X: Any) -> Array:
        """Return the logarithms of the probabilities."""
        scores = self.decision_function(X)
        both = scores if scores.ndim > 1 else np.stack([np.zeros_like(scores), scores], axis=1)
        found: Array = both - np.logaddexp.reduce(both, axis=1, keepdims=True)
        return found

    def group_table(self, X: Any, y: Any, groups: Any) -> Any:
        """Return a polars frame with one row per group: rows, error, rates and mean loss.

        Rates are those of the second class; with more than two classes there are errors alone.
        """
        scores = self._scores(X)
        labels = column_or_1d(y)
        unknown = np.setdiff1d(labels, self.classes_)
        if len(unknown):
            raise SettingError(f"y must hold classes of the fit, {self.classes_.tolist()}; found {unknown[0]!r}.")
        codes = torch.from_numpy(np.searchsorted(self.classes_, labels))
        losses = None
        if self._loss is not None:
            targets = codes if len(self.classes_) > 2 else (2 * codes - 1).to(scores.dtype)
            losses, _ = self._loss.value_and_slope(scores, targets)
        return self._table(scores, codes, groups, losses)

"""Robust and fair learning as scikit-learn has it: `fit`, `predict`, pipelines, grid searches, and a certified gap.

    from drobench.estimators import DROClassifier

    model = DROClassifier("kl", gamma=0.5).fit(X, y)
    model.predict(X), model.gap_, model.certificate_

The problems, solvers and models are those of the catalogue, by name, and solvers are driven by the same loop, through
the same counted oracle, as in a run of the benchmark. Nothing is written to disk.
"""

from drobench.estimators.fair import FairClassifier
from drobench.estimators.robust import DROClassifier, DRORegressor

__all__ = ["DROClassifier", "DRORegressor", "FairClassifier"]

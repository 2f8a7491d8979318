"""Distributionally robust classification and regression."""

from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.base import RegressorMixin
from sklearn.utils.validation import validate_data

from drobench.estimators.base import RobustEstimator
from drobench.estimators.classifier import RobustClassifier
from drobench.estimators.fitting import Array

_STRENGTHS = ("gamma", "radius", "level", "l1", "l2", "loss", "loss_settings")


class DROClassifier(RobustClassifier):
    """Classification by the worst case over distributions near the training data.

    Args:
        problem: The ambiguity set, as `kl`, `chi2`, `cvar`, `wasserstein` or `group`, or the full name of any problem
            of classification in the catalogue.
        gamma: Price of the adversary's divergence; large is close to plain risk.
        radius: How far the adversary may go; asks for a ball, where the problem has a price as well.
        level: Share of the worst rows that counts, of `cvar`.
        l1: Weight of the l1 norm of all parameters.
        l2: Weight of half their squared l2 norm; 0 mostly leaves no certificate.
        loss: Any installed loss of classification, such as `logistic` or `hinge`.
        loss_settings: Settings of the loss.
        problem_settings: Further settings of the problem.
        model: `linear`, `mlp` or any model of the catalogue that takes rows of numbers.
        model_settings: Its settings, such as `{"hidden": [64]}` or `{"intercept": False}`.
        solver: Any solver of the catalogue, or `auto`: Newton's method for linear models and L-BFGS for networks. If a
            linear model's solution does not prove to be optimal, `auto` takes that of a reference solver.
        solver_settings: Settings of the solver, if it is named.
        reformulation_settings: Settings of the way to the form that the solver works on.
        budget: A number of passes over the data, a dictionary of limits and targets, the name of a preset of the
            benchmark, or `None` for 200 passes. Newton's method and others end on their own.
        standardize: Whether to centre and scale the features; `coef_` is in the units of the raw features all the same.
        validation_fraction: Share of the rows that are kept from training, and by whose error the iterate is chosen.
        certify: Whether to ask reference solvers for a bound where the solution itself does not prove to be optimal:
            `True`, `False`, or `auto`, with up to 2000 rows.
        tol: Relative gap, (value - bound) / (value at the start - bound), above which there is a warning.
        random_state: Seed of start, draws and validation rows.

    Attributes:
        classes_: The labels.
        coef_: Weights of a linear model, in the units of the raw features.
        intercept_: Its constants.
        objective_: The exact robust objective of the solution on the training rows.
        gap_: The solution is at most this far above the optimum; `None` where nothing is proved.
        certificate_: What is proved, by which solver, or why nothing is.
        optimum_: The optimal value, where it is certified to 1e-6; else `None`.
        n_passes_: How often the rows were looked at.
        n_steps_: Steps of the solver.
        status_: How the solver ended: `converged` (a target was reached), `budget_spent`, `diverged`, `non_finite`.
        reason_: The same for people.
        converged_: Whether the gap is within `tol`, or a target of the budget was reached; where no gap is known,
            whether the solver came to an end of its own.
        solver_: The solver that found the solution.
        curve_: One dictionary of metrics per evaluation, as in the records of runs.
        parameters_: The flat vector of parameters, in the units of standardized features.
    """

    _endings: ClassVar[tuple[str, ...]] = ("classification", "logistic")
    _strengths: ClassVar[tuple[str, ...]] = _STRENGTHS

    def __init__(
        self,
        problem: str = "kl",
        *,
        gamma: float | None = None,
        radius: float | None = None,
        level: float | None = None,
        l1: float | None = None,
        l2: float | None = None,
        loss: str | None = None,
        loss_settings: dict[str, float] | None = None,
        problem_settings: dict[str, Any] | None = None,
        model: str = "linear",
        model_settings: dict[str, Any] | None = None,
        solver: str = "auto",
        solver_settings: dict[str, Any] | None = None,
        reformulation_settings: dict[str, Any] | None = None,
        budget: Any = None,
        standardize: bool = True,
        validation_fraction: float = 0.0,
        certify: bool | str = "auto",
        tol: float = 1e-4,
        random_state: Any = None,
    ) -> None:
        self.problem = problem
        self.gamma = gamma
        self.radius = radius
        self.level = level
        self.l1 = l1
        self.l2 = l2
        self.loss = loss
        self.loss_settings = loss_settings
        self.problem_settings = problem_settings
        self.model = model
        self.model_settings = model_settings
        self.solver = solver
        self.solver_settings = solver_settings
        self.reformulation_settings = reformulation_settings
        self.budget = budget
        self.standardize = standardize
        self.validation_fraction = validation_fraction
        self.certify = certify
        self.tol = tol
        self.random_state = random_state

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Fit to rows `X` with labels `y`.

        Args:
            X: Numbers, `(rows, features)`.
            y: Labels of any kind, two or more.
            groups: The group of each row, for `problem="group"`; others do without.
        """
        return self._fit_classes(X, y, groups)


class DRORegressor(RegressorMixin, RobustEstimator):
    """Regression by the worst case over distributions near the training data.

    With `standardize`, targets are centred and scaled as features are: strengths, losses, `objective_` and `gap_` are
    those of targets of mean 0 and deviation 1, and predictions, `coef_` and `intercept_` in the units of `y`.

    The parameters and attributes are those of `DROClassifier`; losses are those of regression, such as `squared`,
    `absolute`, `huber` or `quantile`.
    """

    _endings: ClassVar[tuple[str, ...]] = ("regression",)
    _strengths: ClassVar[tuple[str, ...]] = _STRENGTHS
    _task: ClassVar[str] = "regression"

    __init__ = DROClassifier.__init__

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Fit to rows `X` with numbers `y`; `groups` are the group of each row, where a problem asks for them."""
        return self._fit_targets(X, y, groups)

    def _fit_targets(self, X: Any, y: Any, groups: Any) -> Self:
        features, targets = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=2, y_numeric=True)
        targets = np.asarray(targets, dtype=np.float64)
        self._target_mean, self._target_scale = 0.0, 1.0
        if self.standardize and targets.min() < targets.max():
            self._target_mean, self._target_scale = float(targets.mean()), float(targets.std())
        self._fit(features, None, (targets - self._target_mean) / self._target_scale, groups)
        weights = self._raw_weights()
        if weights is not None:
            self.coef_ = weights[0][0] * self._target_scale
            self.intercept_ = float(weights[1][0] * self._target_scale + self._target_mean)
        return self

    def predict(self, X: Any) -> Array:
        """Return the predicted number of each row, in the units of `y`."""
        found: Array = self._scores(X).numpy() * self._target_scale + self._target_mean
        return found

    def group_table(self, X: Any, y: Any, groups: Any) -> Any:
        """Return a polars frame with one row per group: rows, errors in the units of `y`, and mean loss."""
        scores = self._scores(X)
        wanted = torch.from_numpy(np.asarray(y, dtype=np.float64))
        scaled = (wanted - self._target_mean) / self._target_scale
        losses = None if self._loss is None else self._loss.value_and_slope(scores, scaled)[0]
        return self._table(scores * self._target_scale + self._target_mean, wanted, groups, losses)

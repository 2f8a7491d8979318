"""What the estimators share: parameters become a plan, a fit becomes attributes."""

import warnings
from typing import Any, ClassVar

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from drobench.data.dataset import Dataset
from drobench.errors import SettingError
from drobench.estimators.certificate import Certificate
from drobench.estimators.fitting import AUTO, Array, Fit, Plan, dataset_of, fit
from drobench.estimators.settings import budget_of, find_problem, problem_settings, setting_names, settings_of
from drobench.objective.predictor import LinearPredictor
from drobench.problem.group_table import group_table
from drobench.reformulation.reformulation import ReformulationConfig
from drobench.registry import Catalogue, ProblemEntry, load_catalogue
from drobench.results.record import Status

_SEEDS = 2**31 - 1
# What not every fit leaves, and must not be left of the fit before.
_NOT_ALWAYS = ("coef_", "intercept_", "groups_")


class RobustEstimator(BaseEstimator):
    """Fits a problem of the catalogue; a subclass says of which task, and what its parameters are.

    Every subclass has the parameters `problem`, `problem_settings`, `model`, `model_settings`, `solver`,
    `solver_settings`, `reformulation_settings`, `budget`, `standardize`, `validation_fraction`, `certify`, `tol` and
    `random_state`.
    """

    _endings: ClassVar[tuple[str, ...]] = ()
    """What a short name of a problem may be short for."""
    _strengths: ClassVar[tuple[str, ...]] = ()
    """Parameters that are settings of the problem."""
    _task: ClassVar[str]

    certificate_: Certificate

    def _problem_settings(self, entry: ProblemEntry, grouped: bool) -> Any:
        """Return the settings of the problem; `grouped`: whether it is known which group a row belongs to."""
        further = self._further_settings(entry)
        if grouped and "groups" in setting_names(entry) and "groups" not in further:
            further["groups"] = "attribute"
        return problem_settings(entry, {name: getattr(self, name) for name in self._strengths}, further)

    def _further_settings(self, entry: ProblemEntry) -> dict[str, Any]:
        """Return the settings of the problem that are no parameters."""
        given: Any = getattr(self, "problem_settings", None)
        if given is not None and not isinstance(given, dict):
            raise SettingError(f"problem_settings must be a dictionary of settings or None; found {given!r}.")
        return dict(given or {})

    def _fit(self: Any, features: Array, codes: Array | None, targets: Array | None, groups: Any) -> None:
        """Fit, and set what all estimators have afterwards."""
        for name in _NOT_ALWAYS:
            vars(self).pop(name, None)
        catalogue = load_catalogue()
        entry = find_problem(self.problem, self._endings, catalogue)
        columns = self._group_columns(groups, len(features))
        seed = int(check_random_state(self.random_state).randint(_SEEDS))
        dataset = dataset_of(
            type(self).__name__,
            features,
            codes,
            columns if targets is None else {**columns, "targets": targets},
            names=list(self.feature_names_in_) if hasattr(self, "feature_names_in_") else None,
            standardize=self.standardize,
            validation_fraction=self.validation_fraction,
            seed=seed,
        )
        _refuse_lacking(entry, dataset.provides)
        found = self._solve(self._plan(entry, "groups" in columns, seed), dataset, catalogue)
        self._feature_mean, self._feature_scale = dataset.feature_mean.numpy(), dataset.feature_scale.numpy()
        self._keep(found)

    def _plan(self: Any, entry: ProblemEntry, grouped: bool, seed: int) -> Plan:
        if self.certify not in (True, False, AUTO):
            raise SettingError(f"certify must be True, False or 'auto'; found {self.certify!r}.")
        return Plan(
            problem=entry,
            settings=self._problem_settings(entry, grouped),
            model=self.model,
            model_settings=self.model_settings or {},
            solver=self.solver,
            solver_settings=self.solver_settings or {},
            reformulation=settings_of(ReformulationConfig, self.reformulation_settings or {}, "reformulation_settings"),
            budget=budget_of(self.budget),
            certify=self.certify,
            seed=seed,
        )

    def _solve(self, plan: Plan, dataset: Dataset, catalogue: Catalogue) -> Fit:
        return fit(plan, dataset, catalogue)

    def _keep(self: Any, found: Fit) -> None:
        verdict = found.loop.verdict
        assert verdict is not None  # the loop ends with one
        self._predictor = found.problem.predictor
        self._loss = getattr(found.problem, "loss", None)
        self.parameters_ = found.point.numpy().copy()
        self.certificate_ = found.certificate
        self.objective_, self.gap_ = found.certificate.objective, found.certificate.gap
        self.optimum_ = self.objective_ if found.certificate.tight else None
        self.solver_ = found.solver
        self.status_, self.reason_ = str(verdict.status), verdict.reason
        self.n_steps_, self.n_passes_ = found.loop.steps, found.passes
        self.curve_ = found.loop.curve
        # Without any bound, a target that was reached, or an end of the method's own, is all there is to go by.
        ended = found.loop.task.solver.ended(found.loop.solver_state) and found.relative_gap is None
        within = found.relative_gap is not None and found.relative_gap <= self.tol
        self.converged_ = bool(within or ended or verdict.status is Status.CONVERGED)
        if not self.converged_:
            known = "" if self.gap_ is None else f", at most {self.gap_:.3g} above the optimum"
            # Where there is a bound and no reference was asked for a better one.
            ask = "set certify=True, " if known and self.certify is not True else ""
            warnings.warn(
                f"{type(self).__name__} has not converged: {self.solver_} ended with {self.reason_}{known}. Raise "
                f"budget=, {ask}choose another solver=, or raise tol=.",
                ConvergenceWarning,
                stacklevel=5,
            )

    def _group_columns(self, groups: Any, rows: int) -> dict[str, Array]:
        """Return the groups of the rows as columns of a dataset; one group a row, or several attributes."""
        if groups is None:
            return {}
        found = np.asarray(groups)
        if found.ndim == 2 and found.shape[1] != 1:
            return {"attributes": _checked_rows(found.astype(np.float64), rows)}
        labels, codes = np.unique(_checked_rows(column_or_1d(found), rows), return_inverse=True)
        self.groups_ = labels
        return {"groups": codes.astype(np.int64)}

    def _check_features(self: Any, X: Any) -> Array:
        """Return new rows as the model wants them."""
        check_is_fitted(self)
        raw = validate_data(self, X, reset=False, dtype=np.float64)
        return (raw - self._feature_mean) / self._feature_scale

    def _scores(self: Any, X: Any) -> torch.Tensor:
        features = torch.from_numpy(self._check_features(X))
        with torch.no_grad():
            scores: torch.Tensor = self._predictor.scores(torch.from_numpy(self.parameters_), features)
        return scores

    def _raw_weights(self: Any) -> tuple[Array, Array] | None:
        """Return weights `(outputs, features)` and intercepts in the units of the raw features, of a linear model."""
        if not isinstance(self._predictor, LinearPredictor):
            return None
        blocks = self.parameters_.reshape(self._predictor.outputs, -1)
        inputs = self._feature_mean.shape[0]
        weights = blocks[:, :inputs] / self._feature_scale
        constant = blocks[:, inputs] if self._predictor.intercept else np.zeros(len(blocks))
        return weights, constant - weights @ self._feature_mean

    def _table(self: Any, scores: torch.Tensor, wanted: torch.Tensor, groups: Any, losses: torch.Tensor | None) -> Any:
        """Return a polars frame with one row per group."""
        import polars  # noqa: PLC0415  # only a table wants it

        labels, codes = np.unique(_checked_rows(column_or_1d(np.asarray(groups)), len(wanted)), return_inverse=True)
        rows = group_table(torch.from_numpy(codes), wanted, scores, losses, self._task)
        known = [
            {name: value for name, value in vars(row).items() if any(vars(other)[name] is not None for other in rows)}
            for row in rows
        ]
        return polars.DataFrame([{**row, "group": labels[row["group"]].item()} for row in known])


def _refuse_lacking(entry: ProblemEntry, provided: frozenset[str]) -> None:
    missing = sorted(entry.needs - provided)
    if not missing:
        return
    advice = {
        "groups": "Pass fit(X, y, groups=...) with one group for each row.",
        "attributes": "Pass fit(X, y, groups=...) with two columns of numbers or more, that groups are cut out of.",
        "binary_labels": "It is for two classes.",
    }
    told = " ".join(advice[name] for name in missing if name in advice)
    raise SettingError(
        f"problem={entry.name!r} needs {', '.join(missing)}, which these data do not have. "
        f"{told or 'Choose another problem.'}"
    )


def _checked_rows(column: Array, rows: int) -> Array:
    if len(column) != rows:
        raise SettingError(f"groups must have an entry for each of the {rows} rows; found {len(column)}.")
    return column

"""Classification with the rates of groups held together."""

import warnings
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.utils import Tags

from drobench.data.dataset import Dataset
from drobench.errors import SettingError
from drobench.estimators.classifier import RobustClassifier
from drobench.estimators.fitting import Array, Fit, Plan, fit
from drobench.estimators.settings import find_problem, setting_names
from drobench.registry import Catalogue, ProblemEntry, load_catalogue
from drobench.training.evaluation import Evaluator

# What makes the problem of groups known through noisy proxies one of groups that are known, where nobody asks for more.
_KNOWN_GROUPS = {"noise": 0.0, "resampling": False, "proxy_features": False}
_MOST_ATTEMPTS = 6
# A slack that is used up to this is used up.
_CLOSE = 1e-3


class FairClassifier(RobustClassifier):
    """Classification of two classes, with a rate of every group at most `epsilon` worse than that of everybody.

    With `problem="noisy_group"` and one group for each row that rate is the share of the second class that is missed:
    equal opportunity. With `problem="intersectional"` and two columns of numbers or more, it is the error of all groups
    that thresholds on these columns cut out. Groups are needed for fitting alone.

    Solvers see smooth stand-ins for rates. So the fit is made up to six times, each time with the slack that the rates
    of the solution before had left over, or lacked; of the solutions whose rates keep within `epsilon` that with the
    lowest objective is taken.

    Args:
        problem: `noisy_group` or `intersectional`, or the full name of a problem with constraints on rates.
        epsilon: By how much the rate of a group may exceed that of everybody.
        l2: Weight of half the squared l2 norm of all parameters.
        loss: The objective: `logistic` or `hinge`.
        problem_settings: Further settings of the problem.
        model: As in `DROClassifier`.
        model_settings: As in `DROClassifier`.
        solver: As in `DROClassifier`.
        solver_settings: As in `DROClassifier`.
        reformulation_settings: As in `DROClassifier`.
        budget: As in `DROClassifier`.
        standardize: As in `DROClassifier`.
        validation_fraction: As in `DROClassifier`.
        certify: As in `DROClassifier`; rates are not convex, and nothing is proved of them.
        tol: As in `DROClassifier`.
        random_state: As in `DROClassifier`.

    Attributes:
        violation_: The largest violation of a training group, net of `epsilon`: at most 0 where all keep within it.
        groups_: The groups, where each row has one; that of a row without groups is its class.
    """

    _endings: ClassVar[tuple[str, ...]] = ("fairness",)
    _strengths: ClassVar[tuple[str, ...]] = ("epsilon", "l2", "loss")

    def __init__(
        self,
        problem: str = "noisy_group",
        *,
        epsilon: float = 0.05,
        l2: float | None = None,
        loss: str | None = None,
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
        self.epsilon = epsilon
        self.l2 = l2
        self.loss = loss
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

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Fit to rows `X` with labels `y`, of two kinds.

        Args:
            X: Numbers, `(rows, features)`.
            y: Labels.
            groups: The group of each row, or columns of numbers that groups are cut out of. Without them nothing is
                constrained, with a warning.
        """
        return self._fit_classes(X, y, groups)

    def _groups_for(self, codes: Array, groups: Any) -> Any:
        entry = find_problem(self.problem, self._endings, load_catalogue())
        if groups is not None or "groups" not in entry.needs:
            return groups
        warnings.warn(
            "FairClassifier was fitted without groups: nothing is constrained. Pass fit(X, y, groups=...).",
            stacklevel=4,
        )
        # Every row that a true-positive rate is about belongs to one group, whose rate is that of everybody.
        return self.classes_[codes]

    def _further_settings(self, entry: ProblemEntry) -> dict[str, Any]:
        given = super()._further_settings(entry)
        if given.get("proxy_features"):
            raise SettingError(
                "problem_settings: proxy_features=True makes features of the groups, which new rows come without. Put "
                "them into X yourself."
            )
        names = setting_names(entry)
        if given.get("noise"):
            return {"proxy_features": False, **given}
        return {name: value for name, value in _KNOWN_GROUPS.items() if name in names} | given

    def _solve(self, plan: Plan, dataset: Dataset, catalogue: Catalogue) -> Fit:
        """Fit, and again with the slack that the rates themselves have left over or lack."""
        tried = [fit(plan, dataset, catalogue)]
        slack, scorer = plan.settings.epsilon, Evaluator(tried[0].problem, None)
        while len(tried) < _MOST_ATTEMPTS and abs(_violation(tried[-1])) > _CLOSE:
            slack, before = max(0.0, slack - _violation(tried[-1])), slack
            if slack == before:
                break
            again = fit(replace(plan, settings=replace(plan.settings, epsilon=slack)), dataset, catalogue)
            # Whatever was solved, it is judged by what was asked for.
            scores = scorer.score(again.point, again.scores.step)
            tried.append(replace(again, problem=tried[0].problem, scores=scores))
            if bool(torch.equal(tried[-1].point, tried[-2].point)):
                break
        kept = [found for found in tried if found.scores.feasible]
        found = min(kept, key=lambda one: one.scores.objective) if kept else min(tried, key=_violation)
        self.violation_ = _violation(found)
        if not kept:
            warnings.warn(
                f"FairClassifier: a group is {self.violation_:.3g} beyond epsilon={self.epsilon}. Raise epsilon=, or "
                "try another solver=.",
                stacklevel=5,
            )
        others = sum(one.passes for one in tried if one is not found)
        certificate = replace(found.certificate, objective=found.scores.objective)
        return replace(found, certificate=certificate, passes_before=found.passes_before + others)


def _violation(found: Fit) -> float:
    largest = found.scores.train_max_violation
    return -np.inf if largest is None else largest

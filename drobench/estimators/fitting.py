"""One fit: data in memory, a problem, a route, the counted oracle, a solver, and what is proved of its solution."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from torch import Tensor

from drobench.data.build import build_dataset
from drobench.data.dataset import Dataset, DatasetConfig
from drobench.errors import SettingError
from drobench.estimators.certificate import Certificate, bound_below, provable
from drobench.estimators.settings import settings_of, solver_for
from drobench.objective.forms import Constrained, NativeForm
from drobench.objective.predictor import LinearPredictor
from drobench.problem.problem import Problem
from drobench.reasons import reason_of
from drobench.reformulation.reformulation import ReformulationConfig
from drobench.reformulation.routes import find_route
from drobench.registry import Catalogue, ProblemEntry, SolverEntry, check_requirements
from drobench.registry.models import PluginModel
from drobench.registry.reformulations import reformulations_of
from drobench.training.budget import BudgetConfig
from drobench.training.evaluation import Scores
from drobench.training.loop import SolverLoop, run_alone
from drobench.training.settings import EvaluationConfig
from drobench.training.task import task_of

AUTO = "auto"
LARGEST_AUTO = 2000
"""Training rows up to which `auto` asks a reference solver: beyond, interior points take longer than the fit."""

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, kw_only=True, eq=False)
class Plan:
    """What is to be fitted, and how."""

    problem: ProblemEntry
    settings: Any
    model: str
    model_settings: Mapping[str, Any]
    solver: str
    solver_settings: Mapping[str, Any]
    reformulation: ReformulationConfig
    budget: BudgetConfig
    certify: bool | str
    seed: int


@dataclass(frozen=True, eq=False)
class Fit:
    """A solution of the problem, how it was found, and what is proved of it."""

    problem: Problem
    loop: SolverLoop
    solver: str
    scores: Scores
    point: Tensor
    certificate: Certificate
    passes_before: float = 0.0
    """Of other fits that were made on the way to this one."""

    @property
    def passes(self) -> float:
        """How often the rows were looked at, by solvers that count; a reference solver says one for all it does."""
        return self.passes_before + self.loop.usage().passes

    @property
    def relative_gap(self) -> float | None:
        """The gap as a fraction of that of the start; zero where nothing is left to gain."""
        found = self.certificate
        if found.gap is None or found.lower_bound is None:
            return None
        return 0.0 if found.tight else found.gap / (self.loop.curve[0]["objective"] - found.lower_bound)


def dataset_of(
    name: str,
    features: Array,
    codes: Array | None,
    columns: Mapping[str, Array],
    *,
    names: list[str] | None,
    standardize: bool,
    validation_fraction: float,
    seed: int,
) -> Dataset:
    """Return the rows as a dataset: all of them for training, but for those that iterates are chosen by."""
    if not 0.0 <= validation_fraction < 1.0:
        raise SettingError(
            f"validation_fraction must be at least 0 and below 1; found {validation_fraction!r}. Use 0 for none."
        )
    split = [1.0 - validation_fraction, validation_fraction, 0.0]
    config = DatasetConfig(seed=seed, split=split, standardize=standardize)
    provides = frozenset(columns) - {"targets"}
    return build_dataset(name, features, codes, config, columns=columns, feature_names=names, provides=provides)


def fit(plan: Plan, dataset: Dataset, catalogue: Catalogue) -> Fit:
    """Return the solution that the plan finds on the data."""
    model_entry = catalogue.model(plan.model).entry
    if model_entry.needs - dataset.provides:
        needs = ", ".join(sorted(model_entry.needs))
        raise SettingError(f"model={plan.model!r} needs {needs}; rows of X are rows of numbers. Choose another model.")
    model = PluginModel(model_entry, settings_of(model_entry.config, plan.model_settings, "model_settings"))
    problem: Problem = plan.problem.factory(plan.settings, dataset, model)
    asks = _asks_reference(plan, dataset)
    if asks and plan.solver == AUTO and _kind(problem) == "kinked":
        # First-order methods take longer to come near than a reference takes to be there.
        for exact in _references(plan, problem, catalogue):
            if isinstance(exact, Fit) and exact.certificate.tight:
                return exact
    found = _solved(plan, problem, catalogue, _chosen_solver(plan, problem, catalogue), problem.form)
    return _with_references(plan, found, catalogue) if asks and not found.certificate.tight else found


def _chosen_solver(plan: Plan, problem: Problem, catalogue: Catalogue) -> SolverEntry:
    name = plan.solver
    if name == AUTO:
        if plan.solver_settings:
            raise SettingError(
                f"solver_settings are those of a solver that is named; found {plan.solver_settings!r} with "
                'solver="auto". Name the solver.'
            )
        name = solver_for(_kind(problem))
    return catalogue.solver(name).entry


def _kind(problem: Problem) -> str:
    """Return what decides on a solver: a linear model, one with a loss that has kinks, or a network."""
    if not isinstance(problem.predictor, LinearPredictor):
        return "network"
    loss = getattr(problem, "loss", None)
    return "kinked" if loss is not None and math.isinf(loss.largest_bend) else "linear"


def _solved(plan: Plan, problem: Problem, catalogue: Catalogue, entry: SolverEntry, form: NativeForm) -> Fit:
    """Run a solver, and take the best iterate that was seen: by validation error, or by the objective without one."""
    route = find_route(form, entry.accepts, plan.reformulation, reformulations_of(catalogue))
    check_requirements(entry, route.form, [found.entry for found in catalogue.solvers.values()])
    solver = entry.factory(settings_of(entry.config, plan.solver_settings, "solver_settings"))
    task = task_of(problem, route, solver, plan.reformulation, plan.budget, EvaluationConfig(), seed=plan.seed)
    loop = run_alone(task)
    scores, point = _best_of(loop)
    bound, reason = bound_below(problem.form, point, loop.solver_state)
    certificate = Certificate(scores.objective, bound, entry.name, reason)
    return Fit(problem, loop, entry.name, scores, point, certificate)


def _best_of(loop: SolverLoop) -> tuple[Scores, Tensor]:
    """Return the best iterate. That the start is feasible, which says one thing of everybody, is no solution."""
    best = loop.final.get("best_feasible", loop.final["last"])
    constrained = isinstance(loop.task.problem.form, Constrained)
    return loop.final["last"] if constrained and best[0].step == 0 else best


def _asks_reference(plan: Plan, dataset: Dataset) -> bool:
    if plan.certify == AUTO:
        return dataset.train.rows <= LARGEST_AUTO
    return bool(plan.certify)


def _with_references(plan: Plan, found: Fit, catalogue: Catalogue) -> Fit:
    """Return the fit with the best bound that reference solvers prove; where the solver is open, with their solution.

    A reference that fails leaves the bound as it is, and the fit undamaged.
    """
    for exact in _references(plan, found.problem, catalogue, but=found.solver):
        if isinstance(exact, str):
            known = found.certificate
            found = replace(found, certificate=replace(known, reason=known.reason or exact))
        else:
            found = _joined(found, exact, plan.solver == AUTO)
        if found.certificate.tight:
            break
    return found


def _references(plan: Plan, problem: Problem, catalogue: Catalogue, but: str = "") -> Iterator[Fit | str]:
    """Yield what each reference solver finds that accepts the problem, or why it fails; without the one named `but`."""
    convex, _ = provable(problem.form)
    exact = [registered.entry for registered in catalogue.solvers.values() if registered.entry.exact]
    if convex is None:
        return
    for entry in exact:
        if entry.name == but or not isinstance(convex, entry.accepts):
            continue
        # A step of theirs is a whole solve, after which they say that they have come to their end.
        reference = replace(plan, solver=entry.name, solver_settings={}, budget=BudgetConfig(steps=2))
        try:
            result: Fit | str = _solved(reference, problem, catalogue, entry, convex)
        except Exception as error:  # whatever a reference solver raises, it is not the fit that failed
            result = f"{entry.name}: {reason_of(error)}"
        yield result


def _joined(found: Fit, exact: Fit, takes_solution: bool) -> Fit:
    """Return one of two solutions of a problem, with the better bound, which holds for both."""
    better = takes_solution and exact.scores.feasible and exact.scores.objective < found.scores.objective
    chosen = replace(exact, passes_before=found.passes) if better else found
    proof = max((found.certificate, exact.certificate), key=_bound)
    return replace(chosen, certificate=replace(proof, objective=chosen.scores.objective))


def _bound(certificate: Certificate) -> float:
    return -math.inf if certificate.lower_bound is None else certificate.lower_bound

"""Scoring iterates on the original problem, off the clock and off the count.

This is the only place where validation and test rows are touched.
"""

import math
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor

from drobench.objective.forms import Constrained, stationarity
from drobench.problem.metrics import SplitScore
from drobench.problem.problem import Problem

_UNKNOWN = SplitScore()


@dataclass(frozen=True)
class Scores:
    """One iterate, scored. `None` where a value does not exist."""

    step: int
    objective: float
    gap: float | None
    train_error: float | None
    validation_error: float | None
    test_error: float | None
    train_max_violation: float | None
    validation_max_violation: float | None
    test_max_violation: float | None
    test_p95_violation: float | None
    test_p99_violation: float | None
    stationarity: float | None
    feasible: bool
    extra: dict[str, float] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class Evaluator:
    """Scores parameters of the original problem, which solutions are recovered to before they get here."""

    def __init__(self, problem: Problem, optimum: float | None) -> None:
        self.problem = problem
        self.optimum = optimum

    @torch.no_grad()
    def score(self, point: Tensor, step: int) -> Scores:
        splits = {name: self.problem.score(point, name) for name in ("train", "validation", "test")}
        train, validation, test = (splits[name] or _UNKNOWN for name in splits)
        objective = float(self.problem.form.value(point))
        feasible = train.max_violation is None or train.max_violation <= self.problem.tolerance
        measured = math.isfinite(objective) and feasible
        return Scores(
            step=step,
            objective=objective,
            gap=objective - self.optimum if self.optimum is not None and measured else None,
            train_error=train.error,
            validation_error=validation.error,
            test_error=test.error,
            train_max_violation=train.max_violation,
            validation_max_violation=validation.max_violation,
            test_max_violation=test.max_violation,
            test_p95_violation=test.p95_violation,
            test_p99_violation=test.p99_violation,
            stationarity=self._stationarity(point),
            feasible=feasible,
            extra={
                f"{split}_{name}": value
                for split, scored in splits.items()
                if scored is not None
                for name, value in scored.extra.items()
            },
        )

    def _stationarity(self, point: Tensor) -> float | None:
        """Return the squared gradient mapping; under constraints that of the objective alone would say nothing."""
        form = self.problem.form
        return None if isinstance(form, Constrained) else float(stationarity(form, point))


def better_feasible(new: Scores, best: Scores | None) -> bool:
    """Return whether `new` replaces `best`: feasible, and lower in validation error, or in objective without one."""
    if not new.feasible or not math.isfinite(new.objective):
        return False
    if best is None:
        return True
    if new.validation_error is None or best.validation_error is None:
        return new.objective < best.objective
    return (_or_worst(new.validation_error), new.objective) < (_or_worst(best.validation_error), best.objective)


def _or_worst(error: float) -> float:
    """Return an error that is no number as the worst of all, since it compares with nothing."""
    return math.inf if math.isnan(error) else error

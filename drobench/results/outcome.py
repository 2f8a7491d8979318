"""What a run came to, beside how it ended: whether what it returned is any better than what it was given.

- `start_is_optimal`: the start is feasible, and no further above the certified optimum than the certificate can tell.
  There was nothing to solve, wherever the run went from there.
- `worse_than_start`: the start dominates the last iterate: that one's objective is higher and its violation not lower,
  or its violation is higher and its objective not lower. So is a run that diverged, or whose objective is no number.
- `ok`: everything else. To give objective for violation, or violation for objective, is a trade, not worse; and to come
  from an infeasible start to a feasible end is none at all, whatever it cost.

A violation is the positive part of the largest one on the training data; numbers that differ by rounding are the same.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from drobench.results.parts import ITERATE_FIELDS, Iterate, Optimum, certified_within
from drobench.results.record import Outcome, Record, Status

_ROUNDING = 1e-12
_UNSCORED = (Status.FAILED, Status.SKIPPED)
_LOST = (Status.DIVERGED, Status.NON_FINITE)


@dataclass(frozen=True)
class Ending:
    """What a run came to, and the scored start that says so.

    Attributes:
        outcome: `None` where it cannot be known.
        start: The first row of the curve; `None` where there is none.
    """

    outcome: Outcome | None = None
    start: Iterate | None = None


def outcome_of(status: Status, start: Iterate | None, last: Iterate | None, optimum: Optimum | None) -> Outcome | None:
    """Judge a run by where it began and what it returned.

    Args:
        status: How it ended.
        start: Its scored start.
        last: Its scored last iterate; without an objective, as records have it, that is not finite.
        optimum: The certified optimum, if there is one.

    Returns:
        The outcome; `None` without a scored start or last iterate.
    """
    if status in _UNSCORED or last is None or start is None or start.objective is None:
        return None
    if _is_optimal(start, optimum):
        return Outcome.START_IS_OPTIMAL
    if status in _LOST or _is_dominated(last, start):
        return Outcome.WORSE_THAN_START
    return Outcome.OK


def scored_start(row: Mapping[str, Any]) -> Iterate:
    """The first row of a curve as a scored point; what is no number there is unknown."""
    known: dict[str, Any] = {name: row[name] for name in ITERATE_FIELDS if isinstance(row.get(name), int | float)}
    return Iterate(**known)


def ending_of(record: Record, start: Iterate | None) -> Ending:
    """The recorded outcome, or for a record of an older version the one that follows from start and last iterate."""
    if record.outcome is not None:
        return Ending(record.outcome, start)
    return Ending(outcome_of(record.status, start, record.iterates.last, record.optimum), start)


def explanation(record: Record, found: Ending) -> str | None:
    """The outcome of a run with what is the matter, in one sentence; `None` where it is as it should be."""
    told = matter(record, found)
    return None if found.outcome is None or told is None else f"{in_words(found.outcome)}: {told}"


def in_words(outcome: Outcome) -> str:
    """An outcome as a sentence has it."""
    return outcome.replace("_", " ")


def matter(record: Record, found: Ending) -> str | None:
    """What is the matter with the outcome of a run; `None` where it is as it should be."""
    if found.outcome is Outcome.START_IS_OPTIMAL:
        value = "" if record.optimum is None else f" {record.optimum.value:.6g}"
        return f"nothing to solve here, the certified optimum{value} is the start"
    if found.outcome is not Outcome.WORSE_THAN_START:
        return None
    start, last = found.start, record.iterates.last
    if start is None or last is None:
        return "the start has the lower objective or violation, and neither higher"
    told = f"the objective went from {_number(start.objective)} to {_number(last.objective)}"
    if _violation(start) == _violation(last) == 0.0:
        return told
    return f"{told}, the largest violation from {_violation(start):.6g} to {_violation(last):.6g}"


def _is_optimal(start: Iterate, optimum: Optimum | None) -> bool:
    if optimum is None or not start.feasible or start.objective is None:
        return False
    return start.objective - optimum.value <= certified_within(optimum.value)


def _is_dominated(last: Iterate, start: Iterate) -> bool:
    if last.objective is None or not math.isfinite(last.objective):
        return True
    if start.objective is None or not math.isfinite(start.objective):
        return False
    if last.feasible and start.feasible is False:
        return False
    objective = _compared(last.objective, start.objective)
    violation = _compared(_violation(last), _violation(start))
    return min(objective, violation) >= 0 and max(objective, violation) > 0


def _compared(one: float, other: float) -> int:
    """The sign of the difference; 0 where rounding may have made it."""
    if math.isclose(one, other, rel_tol=_ROUNDING, abs_tol=_ROUNDING):
        return 0
    return 1 if one > other else -1


def _violation(point: Iterate) -> float:
    """How far the point is from keeping the constraints: 0 where it does or there are none."""
    worst = point.train_max_violation
    if worst is None:
        return 0.0
    return math.inf if math.isnan(worst) else max(0.0, worst)


def _number(value: float | None) -> str:
    return "a value that is not finite" if value is None or not math.isfinite(value) else f"{value:.6g}"

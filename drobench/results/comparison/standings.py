"""How two runs are compared: one order for all runs of a board, from the best to the worst.

1. It reached the target: the cheaper the better.
2. It did not, but its iterate is feasible: the smaller the measure of the board (gap, error, objective) the better, or
   the larger, of a metric of which more is better.
3. Its iterate is infeasible: the smaller the violation the better.
4. It has no such iterate, or no number to judge it by.
5. It failed.

Costs and violations say nothing of the objective at the end. So in 1 and 3 a run whose last iterate is worse than its
start comes after those of which that is not true; in 2 the measure says what it was asked for. Where the start itself
is optimal, gaps that the certificate cannot tell from zero are alike.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy

from drobench.results.comparison.metrics import value_of
from drobench.results.parts import certified_within
from drobench.results.record import FAILURES, Iterate, Outcome, Record

Array = numpy.ndarray[Any, numpy.dtype[Any]]
_TIED = -10.0
_OTHER_ACHIEVEMENT = 10.0


class Achievement(IntEnum):
    """How far a run came; less is better."""

    REACHED = 0
    FEASIBLE = 1
    INFEASIBLE = 2
    UNSCORED = 3
    FAILED = 4


@dataclass(frozen=True, order=True)
class Standing:
    """What decides about one run: how far it came, and how well it did among those that came as far; less is better.

    Attributes:
        achievement: How far it came.
        is_worse: Whether its last iterate is worse than its start, where nothing else here would show it.
        amount: The cost, the measure (negated where more of it is better) or the violation.
    """

    achievement: Achievement
    is_worse: bool = field(default=False, kw_only=True)
    amount: float = 0.0

    @property
    def level(self) -> int:
        """What no amount can make up for."""
        return 2 * self.achievement + self.is_worse


def standing_of(
    record: Record,
    point: Iterate | None,
    cost: float,
    measure: str,
    allowed: float | None,
    outcome: Outcome | None = None,
    *,
    more: bool = False,
) -> Standing:
    """Judge one run.

    Args:
        record: The run.
        point: The iterate that is compared.
        cost: What reaching the target cost; infinite if it was not reached.
        measure: The metric that decides between feasible iterates.
        allowed: The violation up to which an iterate counts as feasible; `None` leaves it to the problem's tolerance.
        outcome: What the run came to, if the iterate is its last one.
        more: Whether more of the measure is better.
    """
    is_worse = outcome is Outcome.WORSE_THAN_START
    if record.status in FAILURES:
        return Standing(Achievement.FAILED)
    if math.isfinite(cost):
        return Standing(Achievement.REACHED, cost, is_worse=is_worse)
    if point is None:
        return Standing(Achievement.UNSCORED)
    if is_feasible(point, allowed):
        value = value_of(point, measure)
        if value is None or not math.isfinite(value):
            return Standing(Achievement.UNSCORED)
        told_from_zero = (
            outcome is not Outcome.START_IS_OPTIMAL or measure != "gap" or _exceeds_certificate(record, value)
        )
        amount = value if told_from_zero else 0.0
        return Standing(Achievement.FEASIBLE, -amount if more else amount)
    violation = point.train_max_violation
    amount = 0.0 if violation is None or not math.isfinite(violation) else violation
    return Standing(Achievement.INFEASIBLE, amount, is_worse=is_worse)


def _exceeds_certificate(record: Record, gap: float) -> bool:
    return record.optimum is None or gap > certified_within(record.optimum.value)


def is_feasible(point: Iterate | None, allowed: float | None) -> bool:
    """Whether an iterate keeps the constraints, by the problem's tolerance or by a wider one."""
    if point is None:
        return False
    if allowed is None or point.train_max_violation is None:
        return point.feasible is True
    return point.train_max_violation <= allowed


def signed_differences(first: Sequence[Standing], second: Sequence[Standing]) -> list[float]:
    """One number per pair for a signed-rank test: positive where the first is better.

    Numbers of different kinds cannot be subtracted, but their differences can be ordered: to come further weighs more
    than any difference among those that came as far, costs more than measures, measures more than violations. The test
    needs only signs and such an order. If the two solvers were alike, either sign would be as likely whatever the
    order, so its p-value is right.
    """
    levels, others = (numpy.array([run.level for run in runs], dtype=float) for runs in (first, second))
    apart = others - levels
    ahead = numpy.array([run.amount for run in second]) - numpy.array([run.amount for run in first])
    within = numpy.where(ahead == 0, _TIED, -levels)
    # Complex numbers are sorted by their real part, then by the imaginary one: exactly the order wanted.
    sizes = numpy.where(apart == 0, within + 1j * numpy.abs(ahead), _OTHER_ACHIEVEMENT + numpy.abs(apart))
    _, ordinals = numpy.unique(sizes, return_inverse=True)
    differences: list[float] = (numpy.sign(numpy.where(apart == 0, ahead, apart)) * (ordinals + 1)).tolist()
    return differences

"""The goals in passes: each method with its defaults, in every seed, on every instance."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from benchmarks.studies.second_order.runs import Measured


@dataclass(frozen=True)
class Goal:
    """A relative gap that a method is to reach within so many passes."""

    method: str
    target: float
    within: float

    @property
    def words(self) -> str:
        """The goal as the head of a column."""
        return f"`{self.method}`, {self.target:.0e} in {self.within:g}"


@dataclass(frozen=True)
class Verdict:
    """How a goal was met on one instance.

    Attributes:
        what: The goal and the instance.
        passes: By seed, infinite where the target was not reached; empty: nothing was measured.
        within: What was wanted.
        unknown: Further seeds, whose optimum is not known well enough to tell.
    """

    what: str
    passes: Sequence[float]
    within: float
    unknown: int = 0

    @property
    def met(self) -> bool:
        """Whether every seed was in time; what cannot be told is not met."""
        return bool(self.passes) and max(self.passes) <= self.within and not self.unknown

    @property
    def cell(self) -> str:
        """The passes of the worst seed, and NO where they are too many."""
        doubt = [f"{self.unknown} not certified"] if self.unknown else []
        if not self.passes:
            return ", ".join(doubt) or "not measured"
        there = [spent for spent in self.passes if spent < math.inf]
        all_there = len(there) == len(self.passes)
        shown = f"{max(there):.1f}" if all_there else f"{len(there)} of {len(self.passes)} get there"
        return ", ".join([*([] if self.met else ["NO"]), shown, *doubt])

    @property
    def shortfall(self) -> str:
        """What is missing, in a sentence for people."""
        late = [spent for spent in self.passes if spent > self.within]
        never = sum(spent == math.inf for spent in late)
        parts = [f"{len(late)} of {len(self.passes)} seeds miss it"] if late else []
        parts += [f"{', '.join(f'{spent:.1f}' for spent in sorted(late) if spent < math.inf)} passes"] * (
            len(late) > never
        )
        parts += [f"not reached in {never}"] if never else []
        parts += [f"{self.unknown} without a certified optimum"] if self.unknown else []
        return f"{self.what}: {', '.join(parts) or 'not measured'}"


SMOOTH = (
    Goal("newton", 1e-4, 12.0),
    Goal("newton", 1e-8, 20.0),
    Goal("preconditioned_gcivr", 1e-4, 15.0),
    Goal("preconditioned_gcivr", 1e-8, 30.0),
)
KINKED = tuple(Goal(method, 1e-4, 60.0) for method in ("newton", "lbfgs", "preconditioned_gcivr", "gcivr"))


def goals_of(measured: Measured) -> tuple[Goal, ...]:
    """Return the goals that an instance is held against."""
    return KINKED if measured.instance.kinked else SMOOTH


def judge(goal: Goal, measured: Measured) -> Verdict:
    """Return how the goal was met; a run that failed has reached what it had reached, one that is missing nothing."""
    instance, curves = measured.instance, measured.curves.get(goal.method, ())
    what = f"{goal.words} on {instance.data}, {instance.problem}"
    if not curves:
        return Verdict(what, [], goal.within)
    # The comparison is the other way round for what is no number.
    judged = {seed for seed, certified in measured.certified.items() if certified <= goal.target}
    passes = [curve.passes_to(goal.target) for curve in curves if curve.run.seed in judged]
    passes += [math.inf] * (len(judged) - len(passes))
    return Verdict(what, passes, goal.within, len(measured.certified) - len(judged))


def verdicts(found: Iterable[Measured]) -> list[Verdict]:
    """Return all verdicts, but for instances without a seed that leaves anything to solve."""
    return [judge(goal, measured) for measured in found if measured.certified for goal in goals_of(measured)]

"""Seconds to a relative gap of 1e-6: our methods against L-BFGS of scipy, in turn, in one process, on one thread.

Both sides have the objective of the original problem in the same arithmetic. Ours are looked at off the clock; scipy
is stopped by the first value that is low enough, among those it computes anyway. The time is the least of some rounds.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch

from benchmarks.assembled import Assembled, assembled
from benchmarks.studies.second_order import peer
from benchmarks.studies.second_order.instances import L2, Instance, Words
from benchmarks.studies.second_order.kept import Kept
from benchmarks.studies.second_order.stepping import Trace, follow
from drobench.objective.forms import RobustRisk

TARGET = 1e-6
RATIO = 0.5
"""The largest share of scipy's time that the best of ours may take."""
# A method is waited for up to so many times the seconds of scipy, or this many seconds, and up to so many passes.
_PATIENCE = 3.0
_SECONDS = 1.0
_PASSES = 400.0


@dataclass(frozen=True)
class Race:
    """The least seconds of every side on one instance."""

    instance: Instance
    scipy: float
    evaluations: int
    """Of value and gradient by scipy."""
    ours: dict[str, float]
    """Infinite for a method that was not waited for."""

    @property
    def best(self) -> str | None:
        """The fastest of ours."""
        return min(self.ours, key=lambda name: self.ours[name], default=None)

    @property
    def ratio(self) -> float:
        """Seconds of the best of ours over those of scipy."""
        return math.inf if self.best is None else self.ours[self.best] / self.scipy

    @property
    def met(self) -> bool:
        """Whether ours is fast enough."""
        return self.ratio <= RATIO

    @property
    def shortfall(self) -> str:
        """What is missing, in a sentence for people."""
        return f"seconds on {self.instance.data}, {self.instance.problem}: {self.ratio:.2g} of scipy's, {RATIO} wanted"


def race(words: Words, methods: Sequence[str], repeats: int, kept: Kept, seed: int = 0) -> Race:
    """Return the times on one instance, those that were kept if code, instance and methods are the same."""
    runs = {name: assembled((*words.of_seed(seed), f"solver={name}", "budget.passes=1")) for name in methods}
    asked: dict[str, Any] = {
        "seconds": {name: run.asked for name, run in runs.items()},
        "repeats": repeats,
        "target": TARGET,
    }
    found = kept.get(asked)
    if found is None:
        found = _measured(runs, repeats)
        kept.put(asked, found)
    return Race(words.instance, found["scipy"], found["evaluations"], found["ours"])


def _measured(runs: dict[str, Assembled], repeats: int) -> dict[str, Any]:
    form = cast(RobustRisk, next(iter(runs.values())).form)
    start = next(iter(runs.values())).task.problem.start(torch.Generator().manual_seed(0))
    first = float(form.value(start))
    least = peer.minimise(form, L2, start).value
    target = least + TARGET * (first - least)
    scipy, evaluations = math.inf, 0
    ours = dict.fromkeys(runs, math.inf)
    # The first round fills caches, and shows who is not worth waiting for.
    for number in range(repeats + 1):
        reached = peer.minimise(form, L2, start, until=target)
        scipy = reached.seconds if number == 0 else min(scipy, reached.seconds)
        evaluations = reached.evaluations
        for name, run in runs.items():
            if number > 0 and math.isinf(ours[name]):
                continue
            spent = _seconds(run, target, max(_PATIENCE * scipy, _SECONDS))
            ours[name] = spent if number <= 1 else min(ours[name], spent)
    return {"scipy": scipy, "evaluations": evaluations, "ours": ours}


def _seconds(run: Assembled, target: float, limit: float) -> float:
    def enough(trace: Trace) -> bool:
        return trace.values[-1] <= target

    return follow(run, enough, _PASSES, limit).seconds_to(target)

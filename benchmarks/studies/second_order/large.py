"""A million rows: how far preconditioned GCIVR is before Newton's method has ended its first pass.

The value from which gaps are measured is where Newton's method comes to rest, with the bound that a duality gap gives
at that point.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.assembled import assembled
from benchmarks.studies.second_order.instances import Words
from benchmarks.studies.second_order.kept import Kept
from benchmarks.studies.second_order.stepping import Trace, at_rest, follow
from drobench.reformulation.certificates import lower_bound

METHODS = ("preconditioned_gcivr", "newton")
"""The one that the goals are about, and the one that finds the reference."""
GOALS = ((1e-3, 1.0), (1e-6, 8.0))
"""Relative gaps, and the passes in which `preconditioned_gcivr` is to reach them."""
_PASSES = 10.0
_REFERENCE_PASSES = 40.0


@dataclass(frozen=True)
class Large:
    """What was reached with one seed.

    Attributes:
        certificate: Least value less its lower bound, relative to the gap of the start.
        passes: By method and target; the first method is the one that the goals are about.
        seconds: The same in seconds of the solver.
    """

    seed: int
    certificate: float
    passes: dict[str, Sequence[float]]
    seconds: dict[str, Sequence[float]]

    def shortfalls(self) -> list[str]:
        """Return what is missing, in sentences for people."""
        method, passes = next(iter(self.passes.items()))
        return [
            f"`{method}` on a million rows, seed {self.seed}: {target:.0e} in {spent:.2f} passes, {within:g} wanted"
            for (target, within), spent in zip(GOALS, passes, strict=True)
            if not spent <= within
        ] + [
            f"a million rows, seed {self.seed}: certified to {self.certificate:.1e} only, not to {target:.0e}"
            for target, _ in GOALS
            if not self.certificate <= target
        ]


def large(words: Words, seed: int, kept: Kept, methods: tuple[str, str] = METHODS) -> Large:
    """Return what both methods reach, as it was kept if code and instance are the same."""
    # One after the other: two copies of the data would be a waste of memory.
    traces: dict[str, dict[str, Any]] = {}
    for name in methods:
        run = assembled((*words.of_seed(seed), f"solver={name}", "budget.passes=1"))
        asked = {"large": dict(run.asked)}
        found = kept.get(asked)
        if found is None:
            reference = name == methods[-1]
            trace = follow(run, at_rest if reference else _never, _REFERENCE_PASSES if reference else _PASSES)
            below = lower_bound(run.form, trace.point) if reference and trace.point is not None else None
            found = {"passes": trace.passes, "seconds": trace.seconds, "values": trace.values, "below": below}
            kept.put(asked, found)
        traces[name] = found
        del run
    first = traces[methods[-1]]["values"][0]
    least = min(min(found["values"]) for found in traces.values())
    below = traces[methods[-1]]["below"]
    levels = [least + target * (first - least) for target, _ in GOALS]
    shown = {
        name: Trace(found["passes"], found["seconds"], [float(value) for value in found["values"]])
        for name, found in traces.items()
    }
    return Large(
        seed,
        math.inf if below is None else (least - below) / (first - least),
        {name: [trace.passes_to(level) for level in levels] for name, trace in shown.items()},
        {name: [trace.seconds_to(level) for level in levels] for name, trace in shown.items()},
    )


def _never(_trace: Trace) -> bool:
    return False

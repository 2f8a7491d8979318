"""Methods followed step by step on the smooth instances, in one process: what each reached by passes and seconds.

Newton's method comes first, until it is at rest: the value there is what gaps are measured from, with the bound that a
duality gap gives at that point. The others are followed until they are far below every target, or to a limit.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any

from benchmarks.assembled import Assembled, assembled
from benchmarks.studies.second_order.instances import Words
from benchmarks.studies.second_order.kept import Kept
from benchmarks.studies.second_order.runs import Measured, Run, measure
from benchmarks.studies.second_order.stepping import Trace, at_rest, follow
from drobench.reformulation.certificates import lower_bound

REFERENCE = "newton"
PASSES = 60.0
_LOW_ENOUGH = 1e-9


def followed(words: Words, seeds: Iterable[int], methods: Sequence[str], kept: Kept) -> Measured:
    """Return what the methods do on one instance, as it was kept if code and instance are the same."""
    runs = []
    for seed in seeds:
        reference = _kept(words, seed, REFERENCE, kept, None)
        values = [float(value) for value in reference["values"]]
        least, below = min(values), reference["below"]
        gap = math.inf if below is None else max(least - below, 0.0)
        enough = least + _LOW_ENOUGH * (values[0] - least)
        for name in (REFERENCE, *(name for name in methods if name != REFERENCE)):
            found = reference if name == REFERENCE else _kept(words, seed, name, kept, enough)
            traced = found["passes"], found["seconds"], [float(value) for value in found["values"]]
            runs.append(Run(name, seed, *traced, optimum=least, duality_gap=gap))
    return measure(words.instance, runs)


def _kept(words: Words, seed: int, name: str, kept: Kept, enough: float | None) -> dict[str, Any]:
    run = assembled((*words.of_seed(seed), f"solver={name}", "budget.passes=1"))
    asked = {"followed": dict(run.asked), "passes": PASSES}
    found = kept.get(asked)
    if found is None:
        found = _measured(run, enough)
        kept.put(asked, found)
    return found


def _measured(run: Assembled, enough: float | None) -> dict[str, Any]:
    def low(trace: Trace) -> bool:
        return at_rest(trace) if enough is None else trace.values[-1] <= enough

    trace = follow(run, low, PASSES)
    below = lower_bound(run.form, trace.point) if enough is None and trace.point is not None else None
    return {"passes": trace.passes, "seconds": trace.seconds, "values": trace.values, "below": below}

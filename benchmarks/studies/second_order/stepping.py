"""Taking the steps of a solver one by one, with looks at its objective that are neither timed nor counted."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from benchmarks.assembled import Assembled
from drobench.objective.sampling import Shard
from drobench.solver.communicator import SingleProcess

# Of a pass: methods with thousands of small steps are not looked at after each of them.
LOOKS = 0.05


@dataclass
class Trace:
    """What a solver had reached by passes and seconds, the start first."""

    passes: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    point: Tensor | None = None
    """The last one that was looked at."""

    def passes_to(self, value: float) -> float:
        """Return the passes at the first look that is not above a value, or infinity."""
        return next((spent for spent, found in zip(self.passes, self.values, strict=True) if found <= value), math.inf)

    def seconds_to(self, value: float) -> float:
        """The same in seconds."""
        return next((spent for spent, found in zip(self.seconds, self.values, strict=True) if found <= value), math.inf)


@torch.no_grad()
def follow(run: Assembled, enough: Callable[[Trace], bool], passes: float, seconds: float = math.inf) -> Trace:
    """Let the solver of a run go on until there is enough, or it ends, or a limit is used up.

    Args:
        run: A run whose way to the solver has a single stage.
        enough: Asked after every look.
        passes: Limit on passes over the data, as the oracle counts them.
        seconds: Limit on the time of the solver.
    """
    task, alone = run.task, SingleProcess()
    if len(task.build_oracles) != 1:
        raise ValueError(f"one stage is needed to follow a solver; found {len(task.build_oracles)}")
    oracle = task.build_oracles[0](Shard())
    trace, spent = Trace(), 0.0

    def look(point: Tensor) -> None:
        trace.point = task.recover(point)
        trace.passes.append(oracle.passes)
        trace.seconds.append(spent)
        trace.values.append(float(run.form.value(trace.point)))

    look(task.start)
    begin = time.perf_counter()
    state = task.solver.init(task.start, oracle, alone)
    spent += time.perf_counter() - begin
    while oracle.passes < passes and spent < seconds and not enough(trace) and not task.solver.ended(state):
        due, before = trace.passes[-1] + LOOKS, oracle.passes
        begin = time.perf_counter()
        while True:
            state = task.solver.step(state, oracle, alone)
            if oracle.passes >= due or oracle.passes == before or task.solver.ended(state):
                break
        spent += time.perf_counter() - begin
        look(task.solver.solution(state))
    return trace


def at_rest(trace: Trace) -> bool:
    """Whether the last five looks have brought nothing that double precision could tell from rounding."""
    values = trace.values
    return len(values) > 6 and min(values[:-5]) - min(values) <= 1e-14 * abs(values[-1])

"""The Lightning harness against a bare loop over the same solver steps.

Full gradient steps on the mean loss of a few rows: the shortest steps there are, all of the same cost, about 100
microseconds, so that what the harness adds to each shows most. Both sides take the same steps from the same start.

    base             `state = solver.step(state, oracle, communicator)` in a loop, first step's start to last step's end
    steps            the same span inside `drobench.training.trainer.train`: the steps, the harness's checks of budget,
                     counters and clock after each, and Lightning's own work between chunks of steps
    with start-up    the whole call of `train`: also the Trainer's construction, `solver.init`, the evaluations at start
                     and end, and the final scoring; not the import of Lightning, which is loaded before

The budget limits steps, passes, oracle calls and seconds, of which only the steps are reached. There is no evaluation
in between and no logger; checkpoints are at their default interval, which is longer than the run. Both sides read the
clock after every step, once.
"""

import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from benchmarks.assembled import Assembled, assembled
from benchmarks.speed.instances import SEED
from benchmarks.speed.side_by_side import Comparison, least, print_comparisons, repeats
from drobench.objective.sampling import Shard
from drobench.solver import Communicator, SingleProcess, Solver
from drobench.training.run_log import RunLog
from drobench.training.trainer import train

STEPS, SMALL_STEPS = 10_000, 100
GOAL = 1.3
_NEVER = 10**12
_RUN = (
    "dataset=synthetic",
    "dataset.rows=100",
    "dataset.features=10",
    "problem=kl_classification",
    "model.intercept=false",
    "solver=unconstrained",
    "solver.optimizer=sgd",
    "solver.learning_rate=0.1",
    "solver.batch=null",
    f"seed={SEED}",
    f"budget.passes={_NEVER}",
    f"budget.oracle_calls={_NEVER}",
    f"budget.seconds={_NEVER}",
    f"evaluation.every_passes={_NEVER}",
)


class Stamped(Solver[Any]):
    """A solver that remembers when its first step began and its last one ended."""

    def __init__(self, solver: Solver[Any]) -> None:
        self.solver = solver
        self.first_began: float | None = None
        self.last_ended = 0.0

    def init(self, start: torch.Tensor, oracle: Any, communicator: Communicator) -> Any:
        """Return the solver's first state."""
        return self.solver.init(start, oracle, communicator)

    def step(self, state: Any, oracle: Any, communicator: Communicator) -> Any:
        """Return the state after one step."""
        if self.first_began is None:
            self.first_began = time.perf_counter()
        state = self.solver.step(state, oracle, communicator)
        self.last_ended = time.perf_counter()
        return state

    def ended(self, state: Any) -> bool:
        """Return whether the solver has nothing left to do."""
        return self.solver.ended(state)

    def solution(self, state: Any) -> torch.Tensor:
        """Return the solver's solution."""
        return self.solver.solution(state)

    @property
    def span(self) -> float:
        """Seconds from the start of the first step to the end of the last."""
        assert self.first_began is not None
        return self.last_ended - self.first_began


def measure(small: bool = False) -> list[Comparison]:
    """Return the ratios, without and with start-up."""
    steps = SMALL_STEPS if small else STEPS
    run = assembled((*_RUN, f"budget.steps={steps}"))
    with tempfile.TemporaryDirectory() as folder:
        sides = [lambda: _harness(run, steps, Path(folder)), lambda: _bare(run, steps)]
        seconds = least(sides, repeats(small))
    each = 1e6 * seconds["bare"] / steps
    return [
        Comparison(f"Lightning harness / bare loop ({each:.0f} us a step)", seconds["steps"], seconds["bare"], GOAL),
        Comparison(f"  the same with start-up ({steps} steps)", seconds["with start-up"], seconds["bare"]),
    ]


def _harness(run: Assembled, steps: int, folder: Path) -> Mapping[str, float]:
    solver = Stamped(run.task.solver)
    begin = time.perf_counter()
    module = train(replace(run.task, solver=solver), run.trainer, RunLog(), folder)
    whole = time.perf_counter() - begin
    assert module.steps == steps
    assert len(module.curve) == 2
    return {"steps": solver.span, "with start-up": whole}


def _bare(run: Assembled, steps: int) -> Mapping[str, float]:
    solver, communicator = Stamped(run.task.solver), SingleProcess()
    oracle = run.task.build_oracles[-1](Shard())
    with torch.no_grad():
        state = solver.init(run.task.start, oracle, communicator)
        for _ in range(steps):
            state = solver.step(state, oracle, communicator)
    return {"bare": solver.span}


def main() -> None:
    """Measure and print."""
    print_comparisons(__doc__, measure)


if __name__ == "__main__":
    main()

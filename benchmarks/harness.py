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

from benchmarks.instances import SEED
from benchmarks.side_by_side import Comparison, least, machine, one_thread, table
from drobench.solver import Communicator, SingleProcess, Solver

STEPS = 10_000
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
    f"budget.steps={STEPS}",
    f"budget.passes={_NEVER}",
    f"budget.oracle_calls={_NEVER}",
    f"budget.seconds={_NEVER}",
    f"evaluation.every_passes={_NEVER}",
)


class Stamped(Solver[Any]):
    """A solver that remembers when its first step began and its last one ended."""

    def __init__(self, solver: Solver[Any]) -> None:
        self.solver = solver
        self.began: float | None = None
        self.ended = 0.0

    def init(self, start: torch.Tensor, oracle: Any, communicator: Communicator) -> Any:
        """Return the solver's first state."""
        return self.solver.init(start, oracle, communicator)

    def step(self, state: Any, oracle: Any, communicator: Communicator) -> Any:
        """Return the state after one step."""
        if self.began is None:
            self.began = time.perf_counter()
        state = self.solver.step(state, oracle, communicator)
        self.ended = time.perf_counter()
        return state

    def solution(self, state: Any) -> torch.Tensor:
        """Return the solver's solution."""
        return self.solver.solution(state)

    @property
    def span(self) -> float:
        """Seconds from the start of the first step to the end of the last."""
        assert self.began is not None
        return self.ended - self.began


def measure() -> list[Comparison]:
    """Return the ratios, without and with start-up."""
    from drobench.app.assemble import assemble
    from drobench.app.config import compose, hydra_ready, register, resolve
    from drobench.app.prepare import prepare
    from drobench.objective.oracles.build import build_oracle
    from drobench.registry import load_catalogue
    from drobench.training.run_log import RunLog
    from drobench.training.trainer import train

    catalogue = load_catalogue()
    register(catalogue)
    with hydra_ready():
        config = resolve(compose(_RUN, catalogue))

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        assembly = assemble(prepare(config, catalogue), folder)

        def harness() -> Mapping[str, float]:
            solver = Stamped(assembly.task.solver)
            begin = time.perf_counter()
            module = train(replace(assembly.task, solver=solver), config.trainer, RunLog(), folder / "run")
            whole = time.perf_counter() - begin
            assert module.steps == STEPS
            assert len(module.curve) == 2
            return {"steps": solver.span, "with start-up": whole}

        def bare() -> Mapping[str, float]:
            solver, communicator = Stamped(assembly.task.solver), SingleProcess()
            start = assembly.task.start
            oracle = build_oracle(assembly.route.form, SEED, start)
            with torch.no_grad():
                state = solver.init(start, oracle, communicator)
                for _ in range(STEPS):
                    state = solver.step(state, oracle, communicator)
            return {"bare": solver.span}

        seconds = least([harness, bare])
    each = 1e6 * seconds["bare"] / STEPS
    return [
        Comparison(f"Lightning harness / bare loop ({each:.0f} us a step)", seconds["steps"], seconds["bare"], GOAL),
        Comparison(f"  the same with start-up ({STEPS} steps)", seconds["with start-up"], seconds["bare"]),
    ]


if __name__ == "__main__":
    one_thread()
    print(table(measure()))
    print(machine())

"""The Lightning harness against a bare loop over the same solver steps.

SCGD, whose steps all cost the same, on a KL-robust logistic regression of a size at which a bare step takes about
100 microseconds. Both sides start from the same seed and take the same steps, with the solver already initialised.

    base             `state = solver.step(state, oracle, communicator)` in a loop, first step's start to last step's end
    steps            the same span inside `drobench.training.trainer.train`: the steps, the harness's checks of budget,
                     counters and clock after each, and Lightning's own work between chunks of steps
    with start-up    the whole call of `train`: also the Trainer's construction, `solver.init`, the evaluations at start
                     and end, and the final scoring; not the import of Lightning, which is loaded before

The budget limits steps, passes, oracle calls and seconds, of which only the steps are reached. There is no evaluation in
between and no logger; checkpoints are at their default interval, which is longer than the run. Both sides note the time
at every step, two readings of the clock.
"""

import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.instances import SEED, composite_oracle, composite_route, kl_problem
from benchmarks.side_by_side import Comparison, least, machine, one_thread, table
from drobench.objective.oracle import CompositeOracle, build_oracle
from drobench.solver import Communicator, SingleProcess
from drobench_plugins.problems.divergence_classification import DivergenceClassification
from drobench_plugins.solvers.scgd import Scgd, ScgdConfig, ScgdState

ROWS, FEATURES, BATCH = 10_000, 10, 32
STEPS = 15_000
STEP_SIZE = 0.5
GOAL = 1.3
_NEVER = 10**12


class StampedScgd(Scgd):
    """SCGD that remembers when its first step began and its last one ended."""

    began: float | None = None
    ended = 0.0

    def step(self, state: ScgdState, oracle: CompositeOracle, communicator: Communicator) -> ScgdState:
        """Return the state after one step."""
        if self.began is None:
            self.began = time.perf_counter()
        state = super().step(state, oracle, communicator)
        self.ended = time.perf_counter()
        return state

    @property
    def span(self) -> float:
        """Seconds from the start of the first step to the end of the last."""
        assert self.began is not None
        return self.ended - self.began


def measure() -> list[Comparison]:
    """Return the ratios, without and with start-up."""
    problem = kl_problem(ROWS, FEATURES)
    start = problem.start(torch.Generator().manual_seed(SEED))
    seconds = least([lambda: _harness(problem, start), lambda: _bare(problem, start)])
    each = 1e6 * seconds["bare"] / STEPS
    return [
        Comparison(f"Lightning harness / bare loop ({each:.0f} us a step)", seconds["steps"], seconds["bare"], GOAL),
        Comparison(f"  the same with start-up ({STEPS} steps)", seconds["with start-up"], seconds["bare"]),
    ]


def _solver() -> StampedScgd:
    return StampedScgd(ScgdConfig(step_size=STEP_SIZE, batch=BATCH))


def _bare(problem: DivergenceClassification, start: Tensor) -> Mapping[str, float]:
    solver, oracle, communicator = _solver(), composite_oracle(problem, start), SingleProcess()
    with torch.no_grad():
        state = solver.init(start, oracle, communicator)
        for _ in range(STEPS):
            state = solver.step(state, oracle, communicator)
    return {"bare": solver.span}


def _harness(problem: DivergenceClassification, start: Tensor) -> Mapping[str, float]:
    from drobench.training.budget import BudgetConfig
    from drobench.training.evaluation import EvaluationConfig
    from drobench.training.settings import LoggerConfig, TrainerConfig
    from drobench.training.solver_module import Task
    from drobench.training.trainer import train

    solver, route = _solver(), composite_route(problem)
    task = Task(
        problem=problem,
        solver=solver,
        build_oracle=lambda shard: build_oracle(route.form, SEED, start, shard),
        start=start,
        recover=route.recover,
        projects=route.projects,
        budget=BudgetConfig(passes=_NEVER, oracle_calls=_NEVER, seconds=_NEVER, steps=STEPS),
        evaluation=EvaluationConfig(every_passes=_NEVER),
        optimum=None,
    )
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        module = train(task, TrainerConfig(), LoggerConfig(), Path(folder), Path(folder))
        whole = time.perf_counter() - begin
    assert module.steps == STEPS
    assert len(module.curve) == 2
    return {"steps": solver.span, "with start-up": whole}


if __name__ == "__main__":
    one_thread()
    print(table(measure()))
    print(machine())

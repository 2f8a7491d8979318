"""One epoch of GCIVR against the matrix products it cannot avoid.

KL-robust logistic regression, m = 1e5 rows, d = 100 parameters, float64. GCIVR with both its schedules (refresh on all
rows, monotone safeguard) but a given step size, so that none has to be found. The epoch
is the second one: its refresh also has an earlier value to compare with.

The base, with row numbers drawn beforehand and no elementwise function:
    refresh      (1 x d) (d x m)  and  (1 x m) (m x d)
    tau - 1 x    gather S rows;  (2 x d) (d x S)  and  (2 x S) (S x d)

Seconds are those of the processor: both sides compute all the time, on one thread.
"""

import math
import time
from collections.abc import Callable

import torch

from benchmarks.speed.instances import SEED, composite_oracle
from benchmarks.speed.side_by_side import Comparison, least, print_comparisons, repeats, timed
from drobench.objective.oracles.composite import CompositeOracle
from drobench.solver import SingleProcess
from drobench_plugins.solvers.gcivr import Gcivr, GcivrState
from drobench_plugins.solvers.pieces.gcivr_config import GcivrConfig

ROWS, FEATURES = 100_000, 100
SMALL_ROWS, SMALL_FEATURES = 1_000, 5
STEP_SIZE = 0.5
GOAL = 2.5
# About the ratio, so that both sides last equally long.
BARE_TIMES = 4


def measure(small: bool = False) -> list[Comparison]:
    """Return the ratio with the schedule of the paper, and with the default: twice as many steps, half as big."""
    root = math.isqrt(SMALL_ROWS if small else ROWS)
    return [
        _measure("GCIVR epoch / its products, tau = S = sqrt(m)", GOAL, small, epoch_length=root, batch=root),
        _measure("GCIVR epoch / its products, tau = 2 sqrt(m), S = sqrt(m) / 2", None, small),
    ]


def _measure(what: str, goal: float | None, small: bool, **schedule: int) -> Comparison:
    rows, features = (SMALL_ROWS, SMALL_FEATURES) if small else (ROWS, FEATURES)
    start, oracle = composite_oracle(rows, features)
    solver = Gcivr(GcivrConfig(step_size=STEP_SIZE, **schedule))
    with torch.no_grad():
        state = solver.init(start, oracle, SingleProcess())
        state = solver.step(state, oracle, SingleProcess())
        while state.position:
            state = solver.step(state, oracle, SingleProcess())
        epoch = _epoch(solver, state, oracle)
        bare = _bare_epoch(rows, features, state.sizes.length, state.sizes.batch)
        seconds = least(
            [
                timed("epoch", epoch, clock=time.process_time),
                timed("bare", bare, times=BARE_TIMES, clock=time.process_time),
            ],
            repeats(small),
        )
    return Comparison(what, seconds["epoch"], seconds["bare"], goal)


def _epoch(solver: Gcivr, begin: GcivrState, oracle: CompositeOracle) -> Callable[[], None]:
    """Return the work of one epoch from `begin`, the same draws every time."""
    communicator = SingleProcess()
    drawn = oracle.state_dict()
    calls = oracle.samples + 2 * begin.sizes.batch * (begin.sizes.length - 1)

    def run() -> None:
        oracle.load_state_dict(drawn)
        before = oracle.counters.sample_calls
        state = begin
        for _ in range(begin.sizes.length):
            state = solver.step(state, oracle, communicator)
        # An epoch that ended early, or was undone, would be another amount of work.
        assert oracle.counters.sample_calls - before == calls
        assert state.position == 0

    return run


def _bare_epoch(rows: int, features: int, epoch_length: int, batch: int) -> Callable[[], None]:
    """Return the row gathers and matrix products of an epoch, and nothing else."""
    generator = torch.Generator().manual_seed(SEED)
    matrix = torch.randn(rows, features, generator=generator, dtype=torch.float64)
    points = torch.randn(2, features, generator=generator, dtype=torch.float64)
    weights = torch.randn(2, rows, generator=generator, dtype=torch.float64)
    few_weights = weights[:, :batch].contiguous()
    draws = [torch.randperm(rows, generator=generator)[:batch].clone() for _ in range(epoch_length - 1)]

    def run() -> None:
        _ = points[:1] @ matrix.T
        _ = weights[:1] @ matrix
        for draw in draws:
            drawn = matrix.index_select(0, draw)
            _ = points @ drawn.T
            _ = few_weights @ drawn

    return run


def main() -> None:
    """Measure and print."""
    print_comparisons(__doc__, measure)


if __name__ == "__main__":
    main()

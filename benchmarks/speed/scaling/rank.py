"""What one process of the measurement does: epochs of DistGCIVR, and bare exchanges.

    torchrun --standalone --nproc-per-node P -m benchmarks.speed.scaling.rank OUTPUT.json REPEATS CASE ...

where a case is `rows,features,batch`. Rank 0 writes what was measured; times are the longest over the ranks.
"""

import json
import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import torch
import torch.distributed
from torch import Tensor

from benchmarks.speed.instances import composite_oracle
from drobench.objective.oracles.composite import CompositeOracle
from drobench.objective.sampling import Shard
from drobench.solver import Communicator, ProcessGroup, SingleProcess
from drobench.solver.leaving import leave
from drobench_plugins.solvers.dist_gcivr import DistGcivr, DistGcivrConfig

MOST_STEPS = 60
# How many numbers an exchange has: from a step of d = 10 to one of d = 100 000.
EXCHANGES = (12, 102, 1002, 10_002, 100_002)
EXCHANGE_TIMES = 50


def be_a_rank(output: str, repeats: str, *cases: str) -> None:
    """Measure every case so many times; cases of the same data stand together, so that they are made once."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    found = {"epochs": measure_epochs(cases, int(repeats)), "exchanges": measure_exchanges(int(repeats))}
    if torch.distributed.get_rank() == 0:
        Path(output).write_text(json.dumps(found))
    leave()


def measure_epochs(cases: Sequence[str], repeats: int) -> list[dict[str, float]]:
    """Return for each case the least seconds of a refresh and of a step."""
    found = []
    made: tuple[int, int] | None = None
    for case in cases:
        rows, features, batch = map(int, case.split(","))
        if made != (rows, features):
            start, oracle = composite_oracle(rows, features, Shard(*_place()))
            made = rows, features
        with torch.no_grad():
            found.append(
                {"rows": rows, "features": features, "batch": batch, **_measure(start, oracle, batch, repeats)}
            )
    return found


def _place() -> tuple[int, int]:
    return torch.distributed.get_rank(), torch.distributed.get_world_size()


def _measure(start: Tensor, oracle: CompositeOracle, batch: int, repeats: int) -> dict[str, float]:
    steps = min(MOST_STEPS, max(1, oracle.samples // batch))
    config = DistGcivrConfig(step_size=0.1, batch=batch, epoch_length=steps + 1, monotone=False)
    solver = DistGcivr(config)
    communicator: Communicator = ProcessGroup() if _place()[1] > 1 else SingleProcess()
    state = solver.init(start, oracle, communicator)
    refreshes, advances = [], []
    for _ in range(repeats + 1):
        begin = _together()
        state = solver.step(state, oracle, communicator)
        refreshes.append(_longest(time.perf_counter() - begin))
        begin = _together()
        for _ in range(steps):
            state = solver.step(state, oracle, communicator)
        advances.append(_longest(time.perf_counter() - begin) / steps)
        # An epoch that ended early would have had a second refresh among its steps.
        assert state.position == 0
    return {"refresh": min(refreshes[1:]), "step": min(advances[1:]), "numbers": _numbers(oracle)}


def _numbers(oracle: CompositeOracle) -> int:
    """Return how many numbers a step sends: value, floor and Jacobian of one positive inner term."""
    return oracle.outputs * (2 + oracle.dimension)


def measure_exchanges(repeats: int) -> list[dict[str, float]]:
    """Return the seconds of an all-reduce for several sizes; nothing alone."""
    if _place()[1] == 1:
        return []
    found = []
    for numbers in EXCHANGES:
        buffer = torch.zeros(numbers, dtype=torch.float64)
        seconds = math.inf
        for _ in range(repeats + 1):
            begin = _together()
            for _ in range(EXCHANGE_TIMES):
                torch.distributed.all_reduce(buffer)
            seconds = min(seconds, _longest(time.perf_counter() - begin) / EXCHANGE_TIMES)
        found.append({"numbers": numbers, "seconds": seconds})
    return found


def _together() -> float:
    torch.distributed.barrier()
    return time.perf_counter()


def _longest(seconds: float) -> float:
    longest = torch.tensor([seconds], dtype=torch.float64)
    torch.distributed.all_reduce(longest, op=torch.distributed.ReduceOp.MAX)
    return float(longest)


if __name__ == "__main__":
    be_a_rank(*sys.argv[1:])

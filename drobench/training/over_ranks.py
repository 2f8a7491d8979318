"""What the harness exchanges between ranks.

It goes around the solver's communicator: it is not the solver's exchange and is not counted as such.
"""

from collections.abc import Sequence

import torch
import torch.distributed

from drobench.errors import DrobenchError
from drobench.objective.oracle import Counters, Oracle


def longest(seconds: float, device: torch.device) -> float:
    """Return the longest time of all ranks."""
    found = torch.tensor([seconds], dtype=torch.float64, device=device)
    torch.distributed.all_reduce(found, op=torch.distributed.ReduceOp.MAX)
    return float(found)


def summed(numbers: Sequence[int], device: torch.device) -> list[int]:
    """Return the sum of each number over all ranks."""
    found = torch.tensor(numbers, dtype=torch.int64, device=device)
    torch.distributed.all_reduce(found)
    return [int(number) for number in found.tolist()]


def settle(oracle: Oracle) -> None:
    """Find out together what all ranks have counted, where rows have not said how many all of them had."""
    counted = oracle.counters.as_dict()
    oracle.settle(Counters(**dict(zip(counted, summed(list(counted.values()), oracle.device), strict=True))))


def check_totals(sums: dict[str, int], oracle: Oracle) -> None:
    """Raise where the counters of all ranks do not add up to what each of them took for the calls of the run.

    Ends of runs, evaluations and stages are decided by the latter, so that a record with others would be wrong.
    """
    taken = oracle.totals.as_dict()
    different = [f"{name} {sums[name]}, but {taken[name]} were expected" for name in taken if sums[name] != taken[name]]
    if different:
        raise DrobenchError(
            f"The counters of {oracle.shard.parts} processes do not add up to the calls of the whole run: "
            f"{'; '.join(different)}. All processes must ask the oracle for the same in each step, each on its part. "
            "Rows of a solver's own choice say in `drawn_samples` and `drawn_constraints` how many all processes have "
            "together, or leave that out."
        )

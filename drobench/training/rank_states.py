"""Continuing a run with another number of processes than the one that saved it.

All ranks of a run hold the same solver state and the same generator, since they draw the same rows and share the work.
What each has for itself is what it counted and timed. So the state can be handed on to any number of ranks, unless a
solver keeps something on each rank that the others do not have.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from drobench.errors import DrobenchError

RankState = Mapping[str, Any]


def redistribute(ranks: Sequence[RankState], world_size: int) -> list[RankState]:
    """Return the saved parts of a run for another number of ranks.

    The first gets all that was counted and the others start at zero, since counts are summed; each gets the longest
    time and the rounds of exchange, which are common to all.

    Raises:
        DrobenchError: If the ranks differ in their states or in what they will draw.
    """
    if len(ranks) == world_size:
        return list(ranks)
    first = ranks[0]
    for rank in ranks[1:]:
        if not _same(_common(rank), _common(first)):
            raise DrobenchError(
                f"The checkpoint was written by {len(ranks)} processes, each with a state of its own, and cannot be "
                f"continued by {world_size}. Use trainer.devices={len(ranks)}, or delete the checkpoint."
            )
    counted = {name: sum(rank["oracle"]["counters"][name] for rank in ranks) for name in first["oracle"]["counters"]}
    rounds, sent = first["communication"][0], sum(rank["communication"][1] for rank in ranks)
    seconds = {name: max(rank["seconds"][name] for rank in ranks) for name in first["seconds"]}
    return [
        {
            "state": first["state"],
            "oracle": {**first["oracle"], "counters": counted if new == 0 else dict.fromkeys(counted, 0)},
            "communication": (rounds, sent if new == 0 else 0),
            "seconds": seconds,
        }
        for new in range(world_size)
    ]


def _common(rank: RankState) -> RankState:
    """Return what all ranks have to agree on."""
    oracle = {name: value for name, value in rank["oracle"].items() if name != "counters"}
    return {"state": rank["state"], "oracle": oracle}


def _same(left: Any, right: Any) -> bool:
    """Return whether two nested states agree to the last bit; a number that is none agrees with itself."""
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(_same(left[name], right[name]) for name in left)
    if isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor):
        alike = left.shape == right.shape and left.dtype == right.dtype
        return alike and bool(torch.allclose(left, right, rtol=0, atol=0, equal_nan=True))
    return bool(left == right) or (left != left and right != right)  # noqa: PLR0124  # true of NaN alone

"""How ranks that were started by hand agree before they compute: rank 0 decides, the others wait for its word.

It goes through the key-value store that torch's launcher keeps for its ranks, so it needs no process group, works on
CPUs and GPUs alike, and waits as long as rank 0 needs for the optimum.
"""

import json
import os
from datetime import timedelta
from typing import Any

from torch.distributed import PrefixStore
from torch.distributed.rendezvous import rendezvous

from drobench.errors import DrobenchError
from drobench.results.record import short_id

# A rank that waits for one that has died is ended by the launcher, so this is no way out of anything.
_PATIENCE = timedelta(days=7)


class Meeting:
    """The ranks of one start, each of which makes one of these."""

    def __init__(self) -> None:
        store, self.rank, self.size = next(rendezvous("env://", timeout=_PATIENCE))
        # Ranks that the launcher starts once more must not hear what was said before.
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        self._store = PrefixStore(f"drobench/{attempt}", store)
        self.over = False

    def answer(self, run_id: str) -> dict[str, Any]:
        """Say which run this rank would compute, and wait for the word of rank 0."""
        self._store.set(f"rank{self.rank}", run_id)
        return dict(json.loads(self._store.get("word")))

    def check(self, run_id: str) -> None:
        """Wait until all others are there, and raise if one of them would compute another run; for rank 0."""
        for rank in range(1, self.size):
            found = self._store.get(f"rank{rank}").decode()
            if found != run_id:
                raise DrobenchError(
                    f"Rank {rank} would compute run {short_id(found)}, and rank 0 run {short_id(run_id)}. All machines "
                    "need the same configuration, the same data and the same versions of the plugins."
                )

    def tell(self, word: dict[str, Any]) -> None:
        """Tell all others; only rank 0 does, and only once."""
        self._store.set("word", json.dumps(word))
        self.over = True

"""Who owns which rows when the data are spread over clients, as in federated learning.

Client `k` owns a block of the rows, in the order of the data, and counts with the weight `a_k = m_k / m`. The number of
clients is a property of the method, not of the machine: several may live on one process, and what they draw does not
depend on which.
"""

import itertools
import math
from dataclasses import dataclass
from functools import lru_cache

from drobench.errors import SettingError


@dataclass(frozen=True)
class Clients:
    """The owners of the rows and the way they draw.

    Attributes:
        sizes: What each client owns, relative to the others.
        local: Each draws from its own rows with a stream of its own; else all draw from one stream over all rows, of
            which each takes its part.
        whole_batch: Each draws as many rows as are asked for; else its share of them, and at least one.
        by_rows: Constraints on sums over the rows are evaluated by everybody on their own rows, and the sums pooled;
            else each client evaluates a part of the constraints on all rows.
    """

    sizes: tuple[float, ...]
    local: bool
    whole_batch: bool
    by_rows: bool

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.sizes)

    def bounds(self, rows: int) -> tuple[int, ...]:
        """Return where each client's block of `rows` begins, and at last where the blocks end."""
        return _bounds(self.sizes, rows)

    def owned(self, rows: int) -> tuple[int, ...]:
        """Return the bounds of the clients' blocks, none of which may be empty."""
        bounds = self.bounds(rows)
        for client, (first, last) in enumerate(itertools.pairwise(bounds)):
            if first == last:
                raise SettingError(
                    f"Every client needs at least one row; client {client} of {self.count} would have none of the "
                    f"{rows}. Use fewer clients (`solver.clients=`) or less uneven ones (`solver.shards=`)."
                )
        return bounds

    def batches(self, batch: int, rows: int) -> list[int]:
        """Return how many rows each client draws of its own when `batch` are asked for: never more than it has."""
        owned, asked = self.owned(rows), self.bounds(batch)
        shares = [batch if self.whole_batch else asked[k + 1] - asked[k] for k in range(self.count)]
        return [min(max(share, 1), owned[k + 1] - owned[k]) for k, share in enumerate(shares)]


# A run asks for the same few bounds in every step.
@lru_cache(maxsize=32)
def _bounds(sizes: tuple[float, ...], rows: int) -> tuple[int, ...]:
    total = math.fsum(sizes)
    # The margin keeps a boundary such as 0.3 / 0.1 from falling below the whole number it stands for.
    inner = [math.floor(rows * before / total + 1e-9) for before in itertools.accumulate(sizes[:-1], initial=0.0)]
    return (*inner, rows)

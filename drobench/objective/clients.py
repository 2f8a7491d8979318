"""Who owns which rows when the data are spread over clients, as in federated learning.

Client `k` owns a block of the rows, in the order of the data, and counts with the weight `a_k = m_k / m`. The number of
clients is a property of the method, not of the machine: several may live on one process, and what they draw does not
depend on which.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from drobench.errors import SettingError
from drobench.objective.sampling import Index, sample_indices


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


@dataclass(frozen=True)
class ClientDraw:
    """How rows are drawn by clients, of which those from `first` to `last` live on this process."""

    clients: Clients
    generator: np.random.Generator
    device: torch.device
    first: int
    last: int
    replacement: bool

    def samples(self, rows: int, size: int | None) -> tuple[list[tuple[Index, float]], float, int]:
        """Return the drawn rows of this process with their shares, how much all clients covered, and drew together."""
        if rows == 0:
            return [], 0.0, 0
        clients, owned = self.clients, self.clients.owned(rows)
        if size is not None and not clients.local:
            size = size * clients.count if clients.whole_batch else size
            if size < rows:
                return *self._part(rows, size), size
        elif size is not None:
            sizes = clients.batches(size, rows)
            if any(owned[client + 1] - owned[client] > sizes[client] for client in range(clients.count)):
                return *self._locally(owned, sizes), sum(sizes)
        first, last = owned[self.first], owned[self.last]
        return [(slice(first, last), (last - first) / rows)], 1.0, rows

    def constraints(
        self, count: int, size: int | None, constraint_rows: int
    ) -> tuple[Index, float, float, slice | None]:
        """Return constraints, their share, how much was covered, and the rows to evaluate them on."""
        whole = size is None or size >= count
        if self.clients.by_rows:
            owned = self.clients.owned(constraint_rows)
            data = slice(owned[self.first], owned[self.last])
            share = (data.stop - data.start) / constraint_rows
            if whole:
                return slice(None), share, 1.0, data
            assert size is not None
            indices = sample_indices(self.generator, count, size, self.replacement)
            return indices.to(self.device), share, (1 if self.replacement else size) / count, data
        if whole:
            cuts = self.clients.bounds(count)
            first, last = cuts[self.first], cuts[self.last]
            return slice(first, last), (last - first) / count, 1.0, None
        assert size is not None
        (part,), covered = self._part(count, size)
        return *part, covered, None

    def _part(self, population: int, size: int) -> tuple[list[tuple[Index, float]], float]:
        """Draw from the stream that all share, and take the part of this process."""
        indices = sample_indices(self.generator, population, size, self.replacement)
        cuts = self.clients.bounds(size)
        part = indices[cuts[self.first] : cuts[self.last]].to(self.device)
        return [(part, part.numel() / size)], (1 if self.replacement else size) / population

    def _locally(self, owned: Sequence[int], sizes: Sequence[int]) -> tuple[list[tuple[Index, float]], float]:
        """Draw from each client's own rows, with a stream that depends on the draw and the client alone."""
        word = int(self.generator.integers(2**63))
        together: dict[float, tuple[list[Tensor], int]] = {}
        for client in range(self.first, self.last):
            mine, size = owned[client + 1] - owned[client], sizes[client]
            stream = np.random.Generator(np.random.Philox(key=np.array([word, client], dtype=np.uint64)))
            indices = owned[client] + sample_indices(stream, mine, size, self.replacement and size < mine)
            # Rows that count alike are evaluated together.
            drawn, rows = together.get(mine / size, ([], 0))
            together[mine / size] = ([*drawn, indices], rows + mine)
        total = owned[-1]
        parts: list[tuple[Index, float]] = [
            (torch.cat(drawn).to(self.device), rows / total) for drawn, rows in together.values()
        ]
        covered = min(
            (1 if self.replacement else size) / (owned[client + 1] - owned[client]) for client, size in enumerate(sizes)
        )
        return parts, covered

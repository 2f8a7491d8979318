"""Draws of rows, and how they are drawn.

Uniform draws with or without replacement from `{0, ..., population - 1}`. Without replacement is the default of every
solver: it is unbiased too, with a variance smaller by the factor `(population - size) / (population - 1)`. Draws by
chances `q_i` count each row with `1 / (population q_i)`, which keeps them unbiased.
"""

from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

Index = slice | Tensor
"""Rows of one index set: a slice (no copy is made) or a vector of integers."""


class _Rows(NamedTuple):
    """The fields of `Rows`."""

    samples: Index | None
    constraints: Index | None = None
    sample_share: float = 1.0
    constraint_share: float = 1.0
    covered: float = 0.0
    """Size of the whole draw over the size of the index set that `g` averages over; 1 is the exact full set."""
    data: slice | None = None
    """With several processes, the rows over which this one evaluates *all* drawn constraints, for sums over all rows to
    be pooled before anything else is made of them; `None`: it evaluates its part of the constraints on all rows. The
    share of the constraints is then that of these rows."""
    by_group: Tensor | None = None
    """For a draw by groups, how many rows of each group the whole draw has, `(G,)`; `None`: the draw is uniform."""
    drawn_samples: int | None = None
    """How many samples the draw has on all processes together, from which every process counts the calls of the run
    without asking the others; `None`: nobody says, and they will ask. Where a process holds several parts of one draw,
    the first stands for all of them and the others have 0."""
    drawn_constraints: int | None = None
    """The same of the constraints."""
    sample_weights: Tensor | None = None
    """What each of these samples counts for where not all are drawn alike: means over the draw are then weighted with
    these, whose mean over the draw is about one; `None`: all count alike."""


class Rows(_Rows):
    """A draw from the two index sets; `None` where an index set is absent.

    With several processes each holds its part of the draw. A share is the fraction of the whole draw that this part
    is: the share-weighted sum of the parts' means is the mean of the draw.
    """

    __slots__ = ()

    def _replace(self, **changes: Any) -> Self:
        """Return these rows with some fields changed; what was drawn of an index set is not known of another one."""
        if "samples" in changes:
            changes = {"drawn_samples": None, "sample_weights": None, **changes}
        if "constraints" in changes:
            changes = {"drawn_constraints": None, **changes}
        return super()._replace(**changes)


class Shard(NamedTuple):
    """Which of `parts` equal parts of every draw this process evaluates."""

    rank: int = 0
    parts: int = 1

    def bounds(self, size: int) -> tuple[int, int]:
        """Return the first and one past the last position of this part among `size`."""
        return self.rank * size // self.parts, (self.rank + 1) * size // self.parts


def sample_indices(generator: np.random.Generator, population: int, size: int, replacement: bool) -> Tensor:
    """Draw `size` indices; numpy's unshuffled choice costs O(size), a permutation would cost O(population)."""
    if replacement:
        return torch.from_numpy(generator.integers(0, population, size))
    return torch.from_numpy(generator.choice(population, size, replace=False, shuffle=False))


def sample_within(
    generator: np.random.Generator, sizes: np.ndarray, counts: np.ndarray, replacement: bool
) -> np.ndarray:
    """Draw `counts[g]` positions of `0..sizes[g]-1` for all groups at once, one group after the other.

    Without replacement repeated positions are drawn again until there is none. No position is treated unlike another,
    so that all sets of that size are equally likely.
    """
    limits = np.repeat(sizes, counts)
    drawn = generator.integers(0, limits)
    if replacement:
        return drawn
    starts = np.cumsum(counts) - counts
    # A group of which everything is wanted needs no luck.
    drawn = np.where(limits == np.repeat(counts, counts), np.arange(limits.size) - np.repeat(starts, counts), drawn)
    offsets = np.repeat(np.cumsum(sizes) - sizes, counts)
    while True:
        _, first = np.unique(drawn + offsets, return_index=True)
        if first.size == drawn.size:
            return drawn
        again = np.ones(drawn.size, dtype=bool)
        again[first] = False
        drawn[again] = generator.integers(0, limits[again])


class ChanceDraw(NamedTuple):
    """Rows drawn by chances, each of them once."""

    rows: Tensor
    """In ascending order."""
    weights: Tensor
    """What each counts for in the mean over these rows."""
    covered: float
    """A factor that makes the weighted mean of positive numbers over these rows a lower bound of that over all."""


def sample_by_chances(generator: np.random.Generator, cumulative: Tensor, size: int) -> ChanceDraw:
    """Draw `size` times by chances whose cumulative sums are given, one draw from each of `size` equal parts of them.

    A row that comes `r` times is there once, with `r` times the weight: it need be looked at only once. In `size` draws
    a row of chance `q` is expected `size q` times, and its `r` is never further from that than two.
    """
    population, total = cumulative.numel(), cumulative[-1]
    uniform = torch.from_numpy(generator.random(size)).to(cumulative)
    parts = torch.arange(size, dtype=cumulative.dtype, device=cumulative.device)
    drawn = torch.searchsorted(cumulative, (parts + uniform).mul_(total / size), right=True)
    rows, times = torch.unique_consecutive(drawn.clamp_(max=population - 1), return_counts=True)
    before = torch.where(rows > 0, cumulative[rows - 1], torch.zeros_like(total))
    expected = (cumulative[rows] - before).mul_(size / total)
    share = times / expected
    # What is drawn by chances is never the exact full set, even where it has every row.
    covered = min(float(1.0 / share.max()), 1.0 - 0.5 / population)
    return ChanceDraw(rows, share.mul_(rows.numel() / population), covered)


def index_length(index: Index, population: int) -> int:
    """Return how many rows `index` selects out of `population`."""
    if isinstance(index, slice):
        return len(range(*index.indices(population)))
    return index.numel()

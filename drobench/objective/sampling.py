"""Drawing row indices.

Uniform draws with or without replacement from `{0, ..., population - 1}`. Without replacement is the default of every
solver: it is unbiased too, with a variance smaller by the factor `(population - size) / (population - 1)`.
"""

import numpy as np
import torch
from torch import Tensor

Index = slice | Tensor
"""Rows of one index set: a slice (no copy is made) or a vector of integers."""


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


def index_length(index: Index, population: int) -> int:
    """Return how many rows `index` selects out of `population`."""
    if isinstance(index, slice):
        return len(range(*index.indices(population)))
    return index.numel()

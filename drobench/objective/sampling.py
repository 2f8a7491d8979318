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


def index_length(index: Index, population: int) -> int:
    """Return how many rows `index` selects out of `population`."""
    if isinstance(index, slice):
        return len(range(*index.indices(population)))
    return index.numel()

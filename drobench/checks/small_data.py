"""Datasets cut down to a size at which a check takes no time, and the same rows in another order."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from drobench.data.dataset import Dataset, Split

MOST_ROWS = 240
_MOST_QUERIES = 12


def shortened(dataset: Dataset, most: int = MOST_ROWS) -> Dataset:
    """Return a dataset of at most `most` rows in each split, spread over all of them; whole queries stay whole."""
    return _each_split(dataset, lambda split: _first_queries(split) if _has_queries(split) else _spread(split, most))


def reordered(dataset: Dataset, seed: int) -> Dataset:
    """Return the same rows in another order; queries stay in theirs, which is part of what a dataset promises."""
    generator = np.random.default_rng(seed)

    def shuffled(split: Split) -> Tensor:
        return torch.from_numpy(np.concatenate([generator.permutation(block) for block in _blocks(split)]))

    return _each_split(dataset, shuffled)


def _each_split(dataset: Dataset, choose: Callable[[Split], Tensor]) -> Dataset:
    def chosen(split: Split | None) -> Split | None:
        return None if split is None else split.take(choose(split))

    train = chosen(dataset.train)
    assert train is not None
    return replace(dataset, train=train, validation=chosen(dataset.validation), test=chosen(dataset.test))


def _spread(split: Split, most: int) -> Tensor:
    return torch.linspace(0, split.rows - 1, min(most, split.rows)).round().to(torch.int64)


def _first_queries(split: Split) -> Tensor:
    return torch.from_numpy(np.concatenate(_blocks(split)[:_MOST_QUERIES]))


def _blocks(split: Split) -> list[np.ndarray]:
    """Return the row numbers of each query, or all rows as one block."""
    if split.queries is None:
        return [np.arange(split.rows)]
    cuts = np.flatnonzero(np.diff(split.queries.numpy())) + 1
    return list(np.split(np.arange(split.rows), cuts))


def _has_queries(split: Split) -> bool:
    return split.queries is not None

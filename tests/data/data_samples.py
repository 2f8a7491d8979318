"""A small table whose rows can be recognised wherever they go."""

import numpy as np
import torch
from numpy.typing import NDArray

from drobench.data.dataset import Dataset, DatasetConfig, Split


def raw(rows: int = 100, seed: int = 1) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Column 0 is the row number, so that rows can be recognised after a split without standardizing."""
    generator = np.random.default_rng(seed)
    features = np.column_stack([np.arange(rows), generator.normal(3.0, 2.0, size=(rows, 2))])
    labels = (generator.random(rows) < 0.3).astype(np.int64)
    labels[:2] = [0, 1]
    return features, labels


def plain(**settings) -> DatasetConfig:
    return DatasetConfig(standardize=False, **settings)


def row_numbers(split: Split | None) -> list[int]:
    return [] if split is None else split.features[:, 0].to(torch.int64).tolist()


def all_row_numbers(dataset: Dataset) -> list[int]:
    return [row for split in (dataset.train, dataset.validation, dataset.test) for row in row_numbers(split)]

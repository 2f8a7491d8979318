"""Standardizing learns from the training rows, and from nothing else."""

import numpy as np
import pytest
import torch
from data_samples import plain, raw, row_numbers

from drobench.data.build import build_dataset
from drobench.data.dataset import DataError, DatasetConfig


def test_standardizing_uses_the_training_rows_alone():
    features, labels = raw()
    bare = build_dataset("toy", features, labels, plain(seed=3))
    standardized = build_dataset("toy", features, labels, DatasetConfig(seed=3))
    assert bare.test is not None
    assert standardized.test is not None
    train = bare.train.features
    mean, deviation = train.mean(dim=0), train.std(dim=0, unbiased=False)
    torch.testing.assert_close(standardized.train.features, (train - mean) / deviation)
    torch.testing.assert_close(standardized.test.features, (bare.test.features - mean) / deviation)
    # The test rows have other means, which shows that theirs were not used.
    assert standardized.test.features.mean(dim=0).abs().max() > 1e-3


def test_a_changed_test_row_leaves_the_training_rows_alone():
    features, labels = raw()
    before = build_dataset("toy", features, labels, DatasetConfig())
    position = build_dataset("toy", features, labels, plain()).test
    changed = features.copy()
    changed[row_numbers(position)[0]] = 1e6
    after = build_dataset("toy", changed, labels, DatasetConfig())
    assert torch.equal(before.train.features, after.train.features)
    assert before.sha256 != after.sha256


def test_a_constant_column_becomes_zero():
    features, labels = raw()
    # The computed deviation of 0.1 repeated is a rounding error; dividing by it would blow the column up.
    features[:, 1] = 0.1
    dataset = build_dataset("toy", features, labels, DatasetConfig())
    assert torch.equal(dataset.train.features[:, 1], torch.zeros(dataset.train.rows, dtype=torch.float64))


@pytest.mark.parametrize("size", [1.7e308, 1e-250])
def test_a_column_whose_deviation_cannot_be_computed_is_named(size):
    features, labels = raw()
    features[:, 1] = np.where(np.arange(100) % 2 == 0, size, -size)
    with pytest.raises(DataError, match=r"'toy'.*column 1 \('x2'\)"):
        build_dataset("toy", features, labels, DatasetConfig())

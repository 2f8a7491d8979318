"""Rows whose targets are numbers, and rows with a shape."""

import numpy as np
import pytest
import torch

from drobench.data.build import build_dataset
from drobench.data.dataset import DataError, DatasetConfig

FEATURES = np.random.default_rng(0).standard_normal((40, 6))
TARGETS = FEATURES @ np.arange(6.0) + 0.5


def built(targets=TARGETS, features=FEATURES, shape=(), **settings):
    columns = {} if targets is None else {"targets": targets}
    return build_dataset("sample", features, None, DatasetConfig(**settings), columns=columns, shape=shape)


def test_targets_stay_with_their_rows():
    dataset = built(standardize=False)
    assert dataset.classes == 0
    assert dataset.provides == {"targets"}
    for split in (dataset.train, dataset.validation, dataset.test):
        assert split.targets.dtype == torch.float64
        torch.testing.assert_close(split.targets, split.features @ torch.arange(6.0, dtype=torch.float64) + 0.5)
        assert not bool(split.labels.any())
    assert (dataset.train.rows, dataset.validation.rows, dataset.test.rows) == (24, 8, 8)
    assert dataset.to("cpu", torch.float32).train.targets.dtype == torch.float32


def test_targets_are_part_of_the_checksum():
    assert built().sha256 == built().sha256
    assert built().sha256 != built(TARGETS + 1.0).sha256


@pytest.mark.parametrize(
    ("targets", "settings", "message"),
    [
        (None, {}, "without labels, one target for each of the 40 rows is needed; found none"),
        (TARGETS[:, None], {}, r"found an array of shape \(40, 1\)"),
        (TARGETS[:-1], {}, "targets must be numbers, one entry for each of the 40 rows"),
        (np.where(np.arange(40) == 3, np.inf, TARGETS), {}, "targets must be finite; found 1 values"),
        (np.full(40, 2.0), {}, "targets must not all be the same; found 2.0"),
        (np.array(["a"] * 40), {}, "targets must be numbers"),
        (TARGETS, {"order": "label"}, "its targets are numbers, and there are no classes to sort"),
    ],
)
def test_unusable_targets_are_named(targets, settings, message):
    with pytest.raises(DataError, match=f"Dataset 'sample': .*{message}"):
        built(targets, **settings)


def test_whole_numbers_are_targets_too():
    assert built(np.arange(40)).train.targets.dtype == torch.float64


def test_rows_have_the_shape_that_is_said():
    dataset = built(shape=(1, 2, 3))
    assert dataset.input_shape == (1, 2, 3)
    assert dataset.provides == {"targets", "images"}
    assert built().input_shape == (6,)
    assert "images" not in built(shape=(2, 3)).provides
    with pytest.raises(DataError, match=r"rows of shape \(2, 2\) have 4 numbers; found 6 columns"):
        built(shape=(2, 2))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"targets"}, r"'numbers': columns must be a mapping from names to arrays; found \{'targets'\}"),
        (
            {"target": np.arange(10.0)},
            "can be groups, attributes, queries, relevance, targets; found 'target'",
        ),
        ({"features": np.arange(10.0)}, "found 'features'"),
    ],
)
def test_columns_that_no_split_has_are_named(columns, message):
    features = np.random.default_rng(0).standard_normal((10, 2))
    with pytest.raises(DataError, match=message):
        build_dataset("numbers", features, None, DatasetConfig(), columns=columns)

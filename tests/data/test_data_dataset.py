"""Splits and datasets as values, and the settings every dataset has."""

import dataclasses
from dataclasses import dataclass

import pytest
import torch
from data_samples import plain, raw
from omegaconf import OmegaConf

from drobench.data.build import build_dataset
from drobench.data.dataset import DatasetConfig, Split
from drobench.errors import SettingError


def test_a_cast_keeps_checksum_values_and_integer_labels():
    features, labels = raw()
    original = build_dataset("toy", features, labels, DatasetConfig())
    cast = original.to("cpu", torch.float32)
    assert cast.sha256 == original.sha256
    for before, after in zip(
        (original.train, original.validation, original.test), (cast.train, cast.validation, cast.test), strict=True
    ):
        assert before is not None
        assert after is not None
        assert before.features.dtype == torch.float64
        assert after.features.dtype == torch.float32
        assert after.labels.dtype == torch.int64
        torch.testing.assert_close(after.features, before.features, check_dtype=False, rtol=1e-6, atol=1e-6)
        assert torch.equal(after.labels, before.labels)


def test_a_cast_leaves_absent_splits_absent():
    features, labels = raw()
    cast = build_dataset("toy", features, labels, DatasetConfig(split=[1, 0, 0])).to("cpu", torch.float32)
    assert cast.validation is None
    assert cast.test is None
    assert cast.rows == 100


def test_a_further_tensor_of_a_split_moves_along():
    @dataclass(frozen=True, eq=False)
    class WithGroups(Split):
        groups: torch.Tensor | None = None

    bare = WithGroups(features=torch.ones(2, 1, dtype=torch.float64), labels=torch.tensor([0, 1]))
    full = dataclasses.replace(bare, groups=torch.ones(2, dtype=torch.float64))
    assert list(bare.tensors()) == ["features", "labels"]
    assert list(full.tensors()) == ["features", "labels", "groups"]
    moved = full.to("cpu", torch.float32)
    assert isinstance(moved, WithGroups)
    assert moved.groups is not None
    assert moved.groups.dtype == torch.float32


@pytest.mark.parametrize(
    ("split", "part"),
    [
        ([0.6, 0.4], "2 entries"),
        ([0.25, 0.25, 0.25, 0.25], "4 entries"),
        ([0.0, 0.5, 0.5], "nothing is left for training"),
        ([0.9, -0.1, 0.2], "validation fraction is -0.1"),
        ([0.5, 0.2, float("nan")], "test fraction is nan"),
        ([float("inf"), 0.0, 0.0], "train fraction is inf"),
        ([0.6, 0.3, 0.2], "sum is 1.1"),
    ],
)
def test_an_impossible_split_is_refused(split, part):
    with pytest.raises(SettingError) as caught:
        DatasetConfig(split=split)
    assert "DatasetConfig.split" in str(caught.value)
    assert part in str(caught.value)


@pytest.mark.parametrize("seed", [-1, 2**63, 0.5])
def test_an_impossible_seed_is_refused(seed):
    with pytest.raises(SettingError, match=r"DatasetConfig\.seed") as caught:
        DatasetConfig(seed=seed)
    assert repr(seed) in str(caught.value)


def test_the_largest_seed_works():
    assert build_dataset("toy", *raw(), DatasetConfig(seed=2**63 - 1)).rows == 100


def test_a_sum_that_is_one_up_to_floating_point_is_accepted():
    assert 0.7 + 0.2 + 0.1 < 1.0 < 0.34 + 0.55 + 0.11
    assert build_dataset("toy", *raw(), plain(split=[0.7, 0.2, 0.1])).rows == 100
    assert build_dataset("toy", *raw(), plain(split=[0.34, 0.55, 0.11])).rows == 100


def test_the_settings_can_be_a_structured_config():
    composed = OmegaConf.merge(OmegaConf.structured(DatasetConfig), {"seed": 4, "split": [1, 0, 0]})
    config = OmegaConf.to_object(composed)
    assert config == DatasetConfig(seed=4, split=[1.0, 0.0, 0.0])

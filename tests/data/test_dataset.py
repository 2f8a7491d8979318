import dataclasses
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from omegaconf import OmegaConf

from drobench.data.build import build_dataset
from drobench.data.dataset import DataError, Dataset, DatasetConfig, Split
from drobench.errors import DrobenchError, SettingError


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


# Content and form


def test_a_dataset_has_the_promised_form():
    features, labels = raw()
    dataset = build_dataset("toy", features, labels, DatasetConfig())
    assert dataset.name == "toy"
    assert dataset.classes == 2
    assert dataset.rows == 100
    assert dataset.feature_names == ("x1", "x2", "x3")
    assert dataset.twin is False
    for split in (dataset.train, dataset.validation, dataset.test):
        assert split is not None
        assert split.features.dtype == torch.float64
        assert split.labels.dtype == torch.int64
        assert split.features.shape == (split.rows, 3)
        assert split.labels.shape == (split.rows,)


def test_features_and_labels_of_a_row_stay_together():
    features, labels = raw()
    dataset = build_dataset("toy", features, labels, plain())
    for split in (dataset.train, dataset.validation, dataset.test):
        assert split is not None
        rows = row_numbers(split)
        np.testing.assert_array_equal(split.features.numpy(), features[rows])
        np.testing.assert_array_equal(split.labels.numpy(), labels[rows])


def test_two_classes_provide_binary_labels_and_three_do_not():
    features, labels = raw()
    two = build_dataset("toy", features, labels, DatasetConfig(), provides=frozenset({"groups"}))
    three = build_dataset("toy", features, np.arange(100) % 3, DatasetConfig())
    assert two.provides == {"labels", "binary_labels", "groups"}
    assert three.provides == {"labels"}
    assert three.classes == 3


@pytest.mark.parametrize(
    "labels",
    [
        np.tile([-1, 1], 10),
        np.tile([-1.0, 1.0], 10),
        np.tile([False, True], 10),
        np.tile([5, 700], 10),
        np.tile([1e30, 2e30], 10),
    ],
)
def test_labels_become_codes_in_sorted_order(labels):
    dataset = build_dataset("toy", raw(20)[0], labels, plain(split=[1, 0, 0]))
    assert dataset.train.labels.tolist() == [0, 1] * 10


def test_given_names_and_twin_are_kept():
    features, labels = raw()
    dataset = build_dataset("toy", features, labels, plain(), feature_names=["row", "a", "b"], twin=True)
    assert dataset.feature_names == ("row", "a", "b")
    assert dataset.twin is True


def test_the_dataset_does_not_share_memory_with_its_source():
    features, labels = raw()
    dataset = build_dataset("toy", features, labels, plain(split=[1, 0, 0]))
    features[:] = -1.0
    labels[:] = 7
    assert row_numbers(dataset.train) == list(range(100))
    assert set(dataset.train.labels.tolist()) == {0, 1}


# Determinism and checksum


def test_the_same_seed_gives_the_same_checksum_and_another_seed_another():
    features, labels = raw()
    checksums = [build_dataset("toy", features, labels, DatasetConfig(seed=seed)).sha256 for seed in (0, 0, 1)]
    assert checksums[0] == checksums[1]
    assert checksums[0] != checksums[2]
    assert len(checksums[0]) == 64


def test_one_changed_value_changes_the_checksum():
    features, labels = raw()
    changed = features.copy()
    changed[99, 2] = np.nextafter(changed[99, 2], np.inf)
    config = plain(split=[1, 0, 0])
    assert build_dataset("toy", features, labels, config).sha256 != build_dataset("toy", changed, labels, config).sha256


def test_one_changed_label_changes_the_checksum():
    features, labels = raw()
    changed = labels.copy()
    changed[99] = 1 - changed[99]
    config = plain(split=[1, 0, 0])
    assert (
        build_dataset("toy", features, labels, config).sha256 != build_dataset("toy", features, changed, config).sha256
    )


def test_the_checksum_knows_which_split_a_row_is_in():
    features, labels = raw()
    validation = build_dataset("toy", features, labels, plain(split=[0.5, 0.5, 0]))
    test = build_dataset("toy", features, labels, plain(split=[0.5, 0, 0.5]))
    assert row_numbers(validation.validation) == row_numbers(test.test)
    assert validation.sha256 != test.sha256


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


# Splits


@pytest.mark.parametrize("split", [[0.6, 0.2, 0.2], [0.7, 0.3, 0.0], [1 / 3, 1 / 3, 1 / 3], [0.5, 0.25, 0.25]])
@pytest.mark.parametrize("rows", [17, 100, 101])
def test_splits_are_disjoint_and_exhaustive(split, rows):
    dataset = build_dataset("toy", *raw(rows), plain(split=split))
    assert sorted(all_row_numbers(dataset)) == list(range(rows))
    assert dataset.rows == rows


def test_a_sum_below_one_leaves_rows_unused():
    labels = np.repeat([0, 1], 50)
    dataset = build_dataset("toy", raw()[0], labels, plain(split=[0.5, 0.1, 0.2]))
    assert dataset.validation is not None
    assert dataset.test is not None
    assert (dataset.train.rows, dataset.validation.rows, dataset.test.rows) == (50, 10, 20)
    assert len(set(all_row_numbers(dataset))) == 80


def test_each_class_is_split_in_the_same_proportions():
    labels = np.repeat([0, 1, 2], [50, 30, 20])
    dataset = build_dataset("toy", raw()[0], labels, plain())
    counts = [
        split.labels.bincount(minlength=3).tolist() if split is not None else None
        for split in (dataset.train, dataset.validation, dataset.test)
    ]
    assert counts == [[30, 18, 12], [10, 6, 4], [10, 6, 4]]


def test_rounding_errors_do_not_add_up_over_the_classes():
    # Seven rows of each of ten classes: 60 percent is 4.2, so that rounding each class by itself could lose rows.
    labels = np.repeat(np.arange(10), 7)
    dataset = build_dataset("toy", raw(70)[0], labels, plain())
    assert dataset.validation is not None
    assert dataset.test is not None
    assert (dataset.train.rows, dataset.validation.rows, dataset.test.rows) == (42, 14, 14)
    assert all(4 <= count <= 5 for count in dataset.train.labels.bincount().tolist())


def test_shares_that_are_whole_up_to_floating_point_are_exact():
    # In floating point 0.58 * 100 is below 58; what the first two classes leave over must not move a row of the third.
    labels = np.repeat([0, 1, 2], [8, 27, 100])
    dataset = build_dataset("toy", raw(135)[0], labels, plain(split=[0.35, 0.07, 0.58]))
    assert dataset.validation is not None
    assert dataset.test is not None
    splits = (dataset.train, dataset.validation, dataset.test)
    assert [split.labels.bincount(minlength=3)[2].item() for split in splits] == [35, 7, 58]


def test_the_seed_decides_the_rows_of_a_split():
    features, labels = raw()
    first, second = (build_dataset("toy", features, labels, plain(seed=seed)) for seed in (0, 1))
    assert row_numbers(first.train) != row_numbers(second.train)


def test_a_split_is_random_rather_than_the_first_rows():
    labels = np.zeros(100, dtype=np.int64)
    labels[::2] = 1
    dataset = build_dataset("toy", raw()[0], labels, plain())
    assert row_numbers(dataset.train) != list(range(60))


@pytest.mark.parametrize("seed", [0, 5])
def test_training_on_everything_keeps_the_order(seed):
    features, labels = raw()
    dataset = build_dataset("toy", features, labels, plain(seed=seed, split=[1, 0, 0]))
    np.testing.assert_array_equal(dataset.train.features.numpy(), features)
    np.testing.assert_array_equal(dataset.train.labels.numpy(), labels)
    assert dataset.validation is None
    assert dataset.test is None


# Standardizing


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


# Data that are refused


def refusal(features, labels, config: DatasetConfig | None = None, **options) -> str:
    with pytest.raises(DataError) as caught:
        build_dataset("toy", features, labels, config or DatasetConfig(), **options)
    assert isinstance(caught.value, DrobenchError)
    assert "'toy'" in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(("value", "shown"), [(np.nan, "nan"), (np.inf, "inf"), (-np.inf, "-inf")])
def test_values_that_are_not_finite_are_located(value, shown):
    features, labels = raw()
    features[41, 2] = value
    features[60, 0] = value
    message = refusal(features, labels, feature_names=["row", "age", "income"])
    assert "row 41, column 2 ('income')" in message
    assert "2 of 300 values" in message
    assert f": {shown}." in message


def test_zero_rows_are_refused():
    assert "zero rows" in refusal(np.empty((0, 3)), np.empty(0, dtype=np.int64))


@pytest.mark.parametrize("shape", [(5,), (5, 2, 2), (5, 0)])
def test_features_that_are_no_matrix_are_refused(shape):
    assert f"shape {shape}" in refusal(np.zeros(shape), np.array([0, 1, 0, 1, 0]))


def test_features_that_are_no_numbers_are_refused():
    assert "real numbers" in refusal(np.array([["a"], ["b"]]), np.array([0, 1]))


@pytest.mark.parametrize("shape", [(99,), (101,), (100, 1)])
def test_labels_of_another_shape_are_refused(shape):
    message = refusal(raw()[0], np.zeros(shape, dtype=np.int64))
    assert "100 rows" in message
    assert f"shape {shape}" in message


@pytest.mark.parametrize("value", [0.5, np.nan, np.inf])
def test_labels_that_are_not_whole_are_located(value):
    features, labels = raw()
    damaged = labels.astype(np.float64)
    damaged[[8, 30, 31]] = value
    message = refusal(features, damaged)
    assert "whole numbers" in message
    assert "3 of 100" in message
    assert f"row 8, counted from 0: {value}" in message


def test_labels_that_are_text_are_refused():
    assert "whole numbers" in refusal(raw()[0], np.array(["yes", "no"] * 50))


def test_a_single_class_is_refused_by_its_value():
    message = refusal(raw()[0], np.full(100, 4))
    assert "two classes" in message
    assert "single class 4" in message


def test_names_that_do_not_fit_the_columns_are_refused():
    message = refusal(*raw(), feature_names=["a", "b"])
    assert "3 columns" in message
    assert "2 names" in message


def test_a_split_that_comes_out_empty_is_named():
    labels = np.array([0, 0, 0, 1, 1, 1])
    message = refusal(raw(6)[0], labels, plain(split=[0.9, 0.05, 0.05]))
    assert "validation split" in message
    assert "0.05" in message
    assert "dataset.split" in message


def test_a_training_split_of_one_class_is_refused():
    labels = np.array([0] * 9 + [1])
    message = refusal(raw(10)[0], labels, plain(split=[0.4, 0.0, 0.6]))
    assert "train split" in message
    assert "only class 0" in message


@pytest.mark.parametrize("size", [1.7e308, 1e-250])
def test_a_column_whose_deviation_cannot_be_computed_is_named(size):
    features, labels = raw()
    features[:, 1] = np.where(np.arange(100) % 2 == 0, size, -size)
    assert "column 1 ('x2')" in refusal(features, labels)


# Settings that are refused


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


class TestOrder:
    def test_rows_sorted_by_class_are_the_same_rows(self):
        generator = np.random.default_rng(0)
        features, labels = generator.normal(size=(40, 3)), generator.integers(0, 3, 40)
        settings = {"split": [0.5, 0.25, 0.25], "seed": 2}
        given = build_dataset("rows", features, labels, DatasetConfig(**settings))
        by_class = build_dataset("rows", features, labels, DatasetConfig(**settings, order="label"))
        for name in ("train", "validation", "test"):
            before, after = getattr(given, name), getattr(by_class, name)
            order = torch.argsort(before.labels, stable=True)
            assert torch.equal(after.labels, before.labels[order])
            torch.testing.assert_close(after.features, before.features[order], rtol=0, atol=1e-14)
        assert given.sha256 != by_class.sha256

    def test_the_rows_of_a_query_are_not_torn_apart(self):
        features, labels = np.arange(12.0).reshape(6, 2), np.array([0, 1, 0, 1, 0, 1])
        config = DatasetConfig(split=[1, 0, 0], order="label")
        with pytest.raises(DataError, match=r"rows of a query stand together.*dataset\.order=label"):
            build_dataset("ranked", features, labels, config, columns={"queries": np.array([0, 0, 1, 1, 2, 2])})

    def test_another_order_is_refused(self):
        with pytest.raises(SettingError, match="order"):
            DatasetConfig(order="random")

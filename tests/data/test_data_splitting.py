"""Which rows go where: all of them once, the classes in the same proportions, fixed by the seed."""

import numpy as np
import pytest
import torch
from data_samples import all_row_numbers, plain, raw, row_numbers
from hypothesis import given, settings
from hypothesis import strategies as st

from drobench.data.build import build_dataset
from drobench.data.dataset import DataError, DatasetConfig
from drobench.errors import SettingError


def refusal(features, labels, config: DatasetConfig) -> str:
    with pytest.raises(DataError) as caught:
        build_dataset("toy", features, labels, config)
    assert "'toy'" in str(caught.value)
    return str(caught.value)


@settings(derandomize=True, deadline=None, max_examples=40)
@given(rows=st.integers(60, 130), weights=st.lists(st.integers(1, 5), min_size=3, max_size=3), seed=st.integers(0, 9))
def test_splits_are_disjoint_and_exhaustive(rows, weights, seed):
    fractions = [weight / sum(weights) for weight in weights]
    dataset = build_dataset("toy", *raw(rows), plain(split=fractions, seed=seed))
    assert sorted(all_row_numbers(dataset)) == list(range(rows))
    assert dataset.rows == rows
    for split, fraction in zip((dataset.train, dataset.validation, dataset.test), fractions, strict=True):
        assert abs(split.rows - fraction * rows) < 2


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

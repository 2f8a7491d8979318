"""From arrays to a dataset: its form, and the checksum of what it holds."""

import numpy as np
import pytest
import torch
from data_samples import plain, raw, row_numbers

from drobench.data.build import build_dataset
from drobench.data.dataset import DataError, DatasetConfig
from drobench.data.encoder import number_encoder


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


def test_by_default_the_features_are_the_raw_rows_and_classes_are_called_by_their_labels():
    features, labels = raw()
    dataset = build_dataset("toy", features, labels + 5, DatasetConfig())
    assert dataset.encoder == number_encoder(["x1", "x2", "x3"], classes=(5, 6))
    assert {type(label) for label in dataset.encoder.classes} == {int}


@pytest.mark.parametrize(
    ("names", "classes", "words"),
    [
        (["x1", "x2"], (0, 1), "found 2 features, x1, x2, and 2 classes"),
        (["x1", "x2", "x4"], (0, 1), "found 3 features, x1, x2, x4, and 2 classes"),
        (["x1", "x2", "x3"], (0, 1, 2), "and 3 classes"),
    ],
)
def test_an_encoder_of_something_else_is_refused(names, classes, words):
    features, labels = raw()
    with pytest.raises(DataError, match=words):
        build_dataset("toy", features, labels, DatasetConfig(), encoder=number_encoder(names, classes=classes))


def test_what_is_said_of_the_data_stays_with_them():
    features, labels = raw()
    dataset = build_dataset("toy", features, labels, DatasetConfig(), notes=["three rows left out"])
    assert dataset.to("cpu", torch.float32).notes == ("three rows left out",)
    assert dataset.to("cpu", torch.float32).encoder == dataset.encoder

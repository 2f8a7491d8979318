"""Datasets on mapped tables: the same rows, splits and scaling as in memory, without the rows in memory."""

import numpy as np
import pytest
import torch

from drobench.data import mapped
from drobench.data.build import build_dataset
from drobench.data.dataset import DataError, DatasetConfig
from drobench.data.mapped import map_dataset
from drobench.data.stored_table import open_table, store_table

ROWS, WIDTH = 101, 4


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """Seven rows at once."""
    monkeypatch.setattr(mapped, "_NUMBERS_AT_ONCE", 7 * WIDTH + 1)


@pytest.fixture
def make(tmp_path):
    def build(features=None, labels=None, dtype="float32", classes=(0, 1), **settings):
        generator = np.random.default_rng(3)
        if features is None:
            # A mean far from zero, where single precision would lose digits; and a constant that is no binary number.
            features = generator.normal([0.0, 1000.0, -3.0, 0.0], [1.0, 0.01, 2.0, 0.0], (ROWS, WIDTH))
            features[:, 3] = 0.1
        features = features.astype(dtype)
        labels = (np.arange(len(features)) % 2 if labels is None else labels).astype(np.uint8)
        folder = tmp_path / f"table{len(list(tmp_path.iterdir()))}"
        names = [f"x{i}" for i in range(features.shape[1])]
        store_table(folder, [(features, labels)], rows=len(features), columns=names, classes=classes, dtype=dtype)
        config = DatasetConfig(**{"split": [1, 0, 0], "standardize": False, **settings})
        return map_dataset("mapped", open_table(folder), config), features, labels

    return build


@pytest.mark.parametrize(
    "index",
    [slice(None), slice(0, 0), slice(5, 50), slice(90, 200), slice(3, 80, 9), torch.tensor([7, 0, 100, 7])],
    ids=str,
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_taken_rows_are_those_of_the_file_in_the_precision_asked_for(make, index, dtype):
    dataset, features, labels = make()
    taken = dataset.to("cpu", dtype).train.take(index)
    where = index.numpy() if isinstance(index, torch.Tensor) else index
    assert taken.features.dtype == dtype
    assert taken.labels.dtype == torch.int64
    np.testing.assert_array_equal(taken.features, features[where])
    np.testing.assert_array_equal(taken.labels, labels[where])


def test_what_is_taken_is_a_copy(make):
    dataset, features, _ = make()
    dataset.train.take(slice(None)).features.zero_()
    np.testing.assert_array_equal(dataset.train.take(slice(None)).features, features)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_scaling_agrees_with_that_of_data_in_memory(make, dtype):
    dataset, features, labels = make(standardize=True, dtype=dtype)
    same = build_dataset("same", features, labels, DatasetConfig(split=[1, 0, 0]))
    torch.testing.assert_close(dataset.feature_mean, same.feature_mean, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(dataset.feature_scale, same.feature_scale, rtol=1e-9, atol=0)
    taken = dataset.to("cpu", torch.float64).train.take(slice(None)).features
    torch.testing.assert_close(taken, same.train.features, rtol=1e-9, atol=1e-9)
    narrow = dataset.to("cpu", torch.float32).train.take(slice(None)).features
    torch.testing.assert_close(narrow, same.train.features.float(), rtol=1e-6, atol=1e-6)


def test_scaling_is_learnt_from_the_training_rows_alone(make):
    dataset, features, _ = make(standardize=True, split=[0.5, 0.25, 0.25])
    seen = features[: dataset.train.rows].astype(np.float64)
    np.testing.assert_allclose(dataset.feature_mean, seen.mean(axis=0), rtol=1e-12)
    test = (features[-1].astype(np.float64) - dataset.feature_mean.numpy()) / dataset.feature_scale.numpy()
    np.testing.assert_allclose(dataset.test.take(slice(dataset.test.rows - 1, None)).features[0], test, rtol=1e-6)


def test_splits_are_stretches_in_the_order_of_the_file(make):
    dataset, features, labels = make(split=[0.6, 0.2, 0.1])
    parts = [dataset.train, dataset.validation, dataset.test]
    assert [part.rows for part in parts] == [61, 20, 10]
    assert dataset.rows == 91
    np.testing.assert_array_equal(np.concatenate([p.take(slice(None)).features for p in parts]), features[:91])
    np.testing.assert_array_equal(np.concatenate([p.take(slice(None)).labels for p in parts]), labels[:91])
    np.testing.assert_array_equal(dataset.test.take(torch.tensor([0, 9])).features, features[[81, 90]])


def test_pieces_cover_every_row_once(make):
    dataset, _, _ = make(split=[0.8, 0.2, 0])
    for part in (dataset.train, dataset.validation):
        pieces = list(part.pieces())
        assert np.concatenate([np.arange(part.rows)[piece] for piece in pieces]).tolist() == list(range(part.rows))
        assert max(piece.stop - piece.start for piece in pieces) == part.at_once == 7
    assert dataset.test is None


def test_a_split_in_memory_is_one_piece_and_taking_it_copies_nothing():
    split = build_dataset("small", np.eye(6), np.arange(6) % 2, DatasetConfig(split=[1, 0, 0])).train
    (piece,) = split.pieces()
    assert split.take(piece).features.data_ptr() == split.features.data_ptr()
    assert torch.equal(split.take(torch.tensor([4, 1])).labels, split.labels[[4, 1]])
    assert (split.streamed, split.columns, split.dtype) == (False, 6, torch.float64)


def test_the_precision_is_that_of_the_file_unless_another_is_asked_for(make):
    for dtype in ("float32", "float64"):
        dataset, _, _ = make(dtype=dtype)
        assert dataset.train.dtype == getattr(torch, dtype)
        assert dataset.streamed
        assert dataset.train.columns == WIDTH


@pytest.mark.parametrize("what", ["features", "labels"])
def test_asking_for_all_rows_at_once_is_refused(make, what):
    dataset, _, _ = make()
    with pytest.raises(DataError, match=f"the {what} of all 101 rows at once were asked for"):
        getattr(dataset.train, what)


def test_the_checksum_follows_content_split_and_scaling_and_nothing_else(make):
    features = np.random.default_rng(0).normal(size=(ROWS, WIDTH))
    first = make(features)[0]
    assert make(features)[0].sha256 == first.sha256 == first.to("cpu", torch.float64).sha256
    others = [
        make(features + 1e-3)[0],
        make(features, labels=np.arange(ROWS) % 3 == 0)[0],
        make(features, split=[0.8, 0.2, 0])[0],
        make(features, standardize=True)[0],
    ]
    assert len({first.sha256, *(other.sha256 for other in others)}) == 5


def test_rows_sorted_by_class_do_not_train_and_the_message_says_why(make):
    with pytest.raises(DataError, match=r"only class 0 in its 40 rows.*shuffle them"):
        make(np.ones((100, WIDTH)), labels=np.arange(100) >= 50, split=[0.4, 0.3, 0.3])


def test_a_class_number_without_class_is_refused(make):
    with pytest.raises(DataError, match="has 2 classes; found class number 2"):
        make(labels=np.arange(ROWS) % 3)


def test_another_order_of_the_rows_is_refused(make):
    with pytest.raises(DataError, match=r"found `dataset\.order=label`"):
        make(order="label")


def test_a_split_without_rows_is_refused(make):
    with pytest.raises(DataError, match="the test split must have at least one row"):
        make(split=[0.9, 0.099, 0.001])


def test_a_column_whose_deviation_cannot_be_computed_is_named(make):
    features = np.random.default_rng(0).normal(size=(ROWS, WIDTH))
    features[:, 2] *= 1e200
    with pytest.raises(DataError, match=r"column 2 \('x2'\)"):
        make(features, dtype="float64", standardize=True)


def test_two_classes_provide_binary_labels_and_three_do_not(make):
    assert make()[0].provides == {"labels", "binary_labels"}
    assert make(labels=np.arange(ROWS) % 3, classes=("a", "b", "c"))[0].provides == {"labels"}

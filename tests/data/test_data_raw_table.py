"""What a loader brings is taken whole, or refused with the place of the fault."""

import numpy as np
import pytest
from data_samples import raw

from drobench.data.dataset import DataError
from drobench.data.raw_table import check_table
from drobench.errors import DrobenchError


def refusal(features, labels, **options) -> str:
    with pytest.raises(DataError) as caught:
        check_table("toy", features, labels, **options)
    assert isinstance(caught.value, DrobenchError)
    assert "'toy'" in str(caught.value)
    return str(caught.value)


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
    assert check_table("toy", raw(20)[0], labels).codes.tolist() == [0, 1] * 10


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

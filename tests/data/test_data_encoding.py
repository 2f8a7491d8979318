"""From raw rows, in frames of any kind, to features; against scikit-learn and by hand."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from drobench.data.dataset import DataError
from drobench.data.encoder import TableEncoder
from drobench.data.encoding import coded_columns, encode, is_frame
from drobench.data.fitting import fit_columns

RAW = {
    "age": [20.0, None, 50.0, 31.0],
    "city": ["Rome", "Oslo", None, "Rome"],
    "member": [True, False, None, True],
}
FRAMES = {
    "polars": pl.DataFrame(RAW),
    "categorical": pl.DataFrame(RAW).with_columns(pl.col("city").cast(pl.Categorical)),
    "pandas": pd.DataFrame(RAW),
    "pandas of pandas": pd.DataFrame(RAW).convert_dtypes(),
    "mapping": RAW,
    "arrays": {name: np.array(values, dtype=object) for name, values in RAW.items()},
    "text": pl.DataFrame(
        {"age": [" 20", "?", "5e1", "31"], "city": ["Rome ", "Oslo", "NA", "Rome"], "member": ["TRUE", "0", "", "true"]}
    ),
}


def fitted(missing: str = "indicator", **settings) -> TableEncoder:
    words = ("", "?", "na")
    return TableEncoder(fit_columns("mine", pl.DataFrame(RAW), missing), missing_words=words, **settings)


@pytest.mark.parametrize("kind", FRAMES)
def test_frames_of_every_kind_have_the_same_features(kind):
    frame = FRAMES[kind]
    assert is_frame(frame)
    encoder = fitted()
    assert encoder.feature_names == (
        "age",
        "age_missing",
        "city_Oslo",
        "city_Rome",
        "city_missing",
        "member",
        "member_missing",
    )
    expected = [[20, 0, 0, 1, 0, 1, 0], [31, 1, 1, 0, 0, 0, 0], [50, 0, 0, 0, 1, 1, 1], [31, 0, 0, 1, 0, 1, 0]]
    np.testing.assert_array_equal(encode(encoder, frame), expected)


def test_columns_in_another_order_and_further_ones_do_not_matter():
    frame = pl.DataFrame(RAW).with_columns(pl.lit("x").alias("further")).select("further", "member", "city", "age")
    np.testing.assert_array_equal(encode(fitted(), frame), encode(fitted(), pl.DataFrame(RAW)))


def test_gaps_are_refused_where_training_rows_had_none_and_were_to_have_none():
    encoder = TableEncoder(fit_columns("x", pl.DataFrame({"a": [1.0, 2.0], "t": ["u", "v"]}), "refuse"))
    with pytest.raises(DataError, match=r"'t': no value may be missing.*found 1 of 3 missing, the first in row 2"):
        encode(encoder, {"a": [1, 2, 3], "t": ["u", "v", None]})


def test_categories_that_are_not_known_have_no_indicator_or_are_refused():
    frame = {**RAW, "city": ["Paris", "Oslo", None, "Rome"]}
    features = encode(fitted(), frame)
    assert features[0].tolist() == [20, 0, 0, 0, 0, 1, 0]
    assert coded_columns(fitted(), frame)[0, 1] == -1
    with pytest.raises(DataError, match=r"'city'.*found 'Paris' in row 0.*dataset\.unseen=zeros"):
        encode(fitted(unseen="refuse"), frame)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"age": ["20", "x", "3", "4"]}, "'age': numbers are needed, as in training; found 'x' in row 1"),
        ({"age": [1.0, 2.0, float("inf"), 4.0]}, "'age': every number must be finite; found inf in row 2"),
        ({"member": [0, 1, 2, 0]}, "'member': truth values are needed, as in training; found 2 in row 2"),
        ({"member": ["true", "no", "true", "true"]}, "'member': truth values are needed.*found 'no' in row 1"),
        ({"age": [[1], [2], [3], [4]]}, "'age': numbers are needed, as in training; found values of type List"),
        ({"age": [1.0]}, "of one length"),
    ],
)
def test_values_of_another_kind_are_refused_with_their_place(change, words):
    with pytest.raises(DataError, match=words):
        encode(fitted(), {**RAW, **change})


def test_missing_columns_are_named():
    with pytest.raises(DataError, match=r"none called 'city', 'member'\. Its columns: age, town"):
        encode(fitted(), {"age": [1], "town": ["Rome"]})


def test_a_matrix_is_no_frame():
    assert not is_frame(np.zeros((2, 2)))
    assert not is_frame([[0.0, 1.0]])

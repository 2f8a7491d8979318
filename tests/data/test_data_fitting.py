"""What is learned of training rows to encode all: against scikit-learn and by hand."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from drobench.data.dataset import DataError
from drobench.data.encoder import TableEncoder
from drobench.data.encoding import encode, series_of
from drobench.data.fitting import fit_columns


def test_imputation_and_indicators_are_those_of_scikit_learn():
    from sklearn.compose import make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    generator = np.random.default_rng(3)
    rows = 200
    frame = pd.DataFrame(
        {
            "a": np.where(generator.random(rows) < 0.2, np.nan, generator.normal(size=rows)),
            "b": generator.integers(0, 9, rows).astype(float),
            "t": np.where(
                generator.random(rows) < 0.1, None, generator.choice(["u", "v", "w"], rows, p=[0.2, 0.5, 0.3])
            ),
        }
    )
    theirs = make_column_transformer(
        (SimpleImputer(strategy="median"), ["a", "b"]),
        (
            make_pipeline(
                SimpleImputer(strategy="most_frequent"),
                OneHotEncoder(handle_unknown="ignore", sparse_output=False),
            ),
            ["t"],
        ),
    )
    expected = theirs.fit(frame[:120]).transform(frame)
    train = pl.DataFrame({name: series_of(frame[:120], name) for name in frame})
    np.testing.assert_allclose(encode(TableEncoder(fit_columns("x", train, "impute")), frame), expected, rtol=1e-14)


def test_of_equally_frequent_values_the_first_is_taken():
    train = pl.DataFrame({"t": ["b", "a", "a", "b", None], "y": [True, False, None, True, False]})
    text, truth = fit_columns("x", train, "impute")
    assert (text.categories, text.fill, truth.fill) == (("a", "b"), 0.0, 0.0)


def test_gaps_are_known_where_training_rows_had_them():
    complete = pl.DataFrame({"a": [1.0, 2.0, 4.0], "t": ["u", "v", "v"]})
    encoder = TableEncoder(fit_columns("x", complete, "indicator"))
    # Nothing was seen of rows with gaps, so they are taken for usual ones.
    np.testing.assert_array_equal(encode(encoder, {"a": [None], "t": [None]}), [[2.0, 0.0, 1.0]])


def test_a_column_of_gaps_cannot_be_learned():
    with pytest.raises(DataError, match=r"'t' must have a value in some training row.*dataset\.drop=\[t\]"):
        fit_columns("x", pl.DataFrame({"t": pl.Series([None, None], dtype=pl.String)}), "impute")


@pytest.mark.parametrize("missing", ["refuse", "drop_rows"])
def test_nothing_stands_for_gaps_unless_asked_for(missing):
    train = pl.DataFrame({"a": [1.0, 2.0], "t": ["u", "v"], "y": [True, False]})
    assert [column.takes_gaps for column in fit_columns("x", train, missing)] == [False] * 3


def test_kinds_follow_the_types_of_the_columns():
    train = pl.DataFrame({"a": [1, 2], "b": [0.5, 1.0], "t": ["u", "v"], "y": [True, False]})
    kinds = [column.kind for column in fit_columns("x", train, "impute")]
    assert kinds == ["number", "number", "category", "boolean"]

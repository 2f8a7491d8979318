"""Communities and Crime: from the publisher's file to 145 features, labels and attributes."""

import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from drobench.data.cache import DownloadError
from drobench.data.dataset import DataError
from drobench.data.download import fetch
from drobench_plugins.datasets.communities_columns import COLUMNS, IDENTIFIERS, INCOMPLETE, PREDICTORS, TARGET
from drobench_plugins.datasets.communities_crime import (
    ATTRIBUTES,
    FILES,
    NAME,
    CommunitiesCrimeConfig,
    communities_dataset,
    encode,
    entry,
    load_communities_crime,
    read_table,
)

REAL = Path(os.environ.get("DROBENCH_REAL_DATA") or Path(__file__).parents[4] / "shared" / "data")
real_data = pytest.mark.skipif(
    not any(REAL.rglob("communities.data")),
    reason=f"the real data are not in {REAL}; DROBENCH_REAL_DATA=DIR says where",
)


@pytest.fixture(autouse=True)
def _cache(monkeypatch, tmp_path):
    monkeypatch.setenv("DROBENCH_DATA", str(tmp_path / "cache"))


def raw(rows: int = 100, seed: int = 0) -> pl.DataFrame:
    """A random table as the file has it: text, with question marks for gaps."""
    generator = np.random.default_rng(seed)
    columns = {name: generator.integers(1, 60, rows).astype(str).tolist() for name in IDENTIFIERS}
    columns["communityname"] = [f"Town{number}city" for number in range(rows)]
    for name in (*PREDICTORS, TARGET):
        values = [f"{value:g}" for value in generator.integers(0, 101, rows) / 100]
        if name in INCOMPLETE:
            values = [value if keep else "?" for value, keep in zip(values, generator.random(rows) < 0.2, strict=True)]
        columns[name] = values
    return pl.DataFrame(columns).select(COLUMNS)


def write(folder: Path, table: pl.DataFrame, separator: str = ",") -> Path:
    """Write the file as the publisher does, with CRLF at the ends of lines."""
    path = folder / "communities.data"
    path.write_bytes("".join(separator.join(row) + "\r\n" for row in table.iter_rows()).encode())
    return path


def changed(table: pl.DataFrame, row: int, name: str, value: str | None) -> pl.DataFrame:
    number = pl.int_range(pl.len())
    return table.with_columns(pl.when(number == row).then(pl.lit(value)).otherwise(pl.col(name)).alias(name))


def test_the_columns_are_those_of_the_publisher():
    assert len(COLUMNS) == len(set(COLUMNS)) == 128
    assert len(PREDICTORS) == 122
    assert len(INCOMPLETE) == 23
    assert set(INCOMPLETE) <= set(PREDICTORS)


def test_the_file_is_read_as_it_was_written(tmp_path):
    table = raw()
    assert read_table(write(tmp_path, table)).equals(table)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda table: table.drop(TARGET), "found 127 in line 1"),
        (lambda table: table.with_columns(extra=pl.lit("1")), "found 129 in line 1"),
    ],
)
def test_another_number_of_columns_is_refused(change, found, tmp_path):
    with pytest.raises(DataError) as caught:
        read_table(write(tmp_path, change(raw())))
    assert found in str(caught.value)
    assert "128 fields" in str(caught.value)


def test_another_separator_is_refused(tmp_path):
    with pytest.raises(DataError, match="Check the file and its separator"):
        read_table(write(tmp_path, raw(), separator=";"))


def test_features_are_predictors_with_zeros_for_gaps_and_flags_of_gaps():
    table = raw()
    features, names, _, attributes = encode(table)
    assert features.shape == (100, 145)
    assert names == (*PREDICTORS, *(f"{name}_missing" for name in INCOMPLETE))
    for position, name in enumerate(PREDICTORS):
        expected = [0.0 if value == "?" else float(value) for value in table[name]]
        np.testing.assert_array_equal(features[:, position], expected)
    for position, name in enumerate(INCOMPLETE, start=len(PREDICTORS)):
        np.testing.assert_array_equal(features[:, position], (table[name] == "?").to_numpy())
    for position, name in enumerate(ATTRIBUTES):
        np.testing.assert_array_equal(attributes[:, position], table[name].cast(pl.Float64).to_numpy())


def test_the_number_of_features_does_not_depend_on_the_gaps():
    full = raw().with_columns(pl.col(INCOMPLETE).replace("?", "0.5"))
    assert encode(full)[0].shape == (100, 145)


def test_labels_are_at_or_above_the_seventieth_percentile():
    table = raw(11).with_columns(pl.Series(TARGET, [f"{number / 10}" for number in range(11)]))
    np.testing.assert_array_equal(encode(table)[2], [0] * 7 + [1] * 4)


def test_numbers_with_null_are_the_same_table():
    table = raw()
    typed = table.with_columns(pl.col(*PREDICTORS, TARGET).replace("?", None).cast(pl.Float64))
    for left, right in zip(encode(table), encode(typed.drop(IDENTIFIERS)), strict=True):
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("name", ["population", "racePctHisp", TARGET])
def test_a_gap_where_none_is_known_is_refused(name):
    with pytest.raises(DataError, match=f"column '{name}' must have no gap; found 1 missing"):
        encode(changed(raw(), 5, name, "?"))


def test_text_where_a_number_belongs_is_refused():
    with pytest.raises(DataError, match="column 'PopDens' must hold numbers; found 'dense' in row 5"):
        encode(changed(raw(), 5, "PopDens", "dense"))


@pytest.mark.parametrize("value", ["nan", "inf"])
def test_values_that_are_not_finite_are_refused(value):
    with pytest.raises(DataError, match="finite"):
        communities_dataset(NAME, changed(raw(), 5, "PopDens", value), CommunitiesCrimeConfig())


def test_a_missing_column_is_named():
    with pytest.raises(DataError, match=r"not found: racePctAsian\."):
        encode(raw().drop("racePctAsian"))


def test_a_constant_target_has_one_class_and_is_refused():
    with pytest.raises(DataError, match="two classes"):
        communities_dataset(NAME, raw().with_columns(pl.lit("0.3").alias(TARGET)), CommunitiesCrimeConfig())


def test_the_dataset_has_attributes_and_the_split_of_the_experiment():
    dataset = communities_dataset(NAME, raw(400), CommunitiesCrimeConfig())
    assert [split.rows for split in (dataset.train, dataset.validation, dataset.test)] == [200, 100, 100]
    assert dataset.provides == entry().provides == {"labels", "binary_labels", "attributes"}
    assert dataset.train.attributes.shape == (200, 3)


def test_data_that_are_not_there_are_explained():
    with pytest.raises(DownloadError, match=r"drobench data fetch communities_crime.*dataset=communities_twin"):
        load_communities_crime(CommunitiesCrimeConfig())


def test_a_file_of_another_content_is_refused(tmp_path):
    (tmp_path / "in").mkdir()
    write(tmp_path / "in", raw())
    with pytest.raises(DownloadError, match=FILES[0].sha256):
        fetch(NAME, FILES, tmp_path / "in")


@real_data
def test_the_real_data_are_what_they_are_known_to_be():
    (path,) = fetch(NAME, FILES, REAL)
    table = read_table(path)
    target = table[TARGET].cast(pl.Float64)
    assert target.mean() == pytest.approx(0.237979, abs=5e-7)
    features, _, labels, attributes = encode(table)
    assert features.shape == (1994, 145)
    assert labels.sum() == 608
    assert attributes.min() >= 0
    assert attributes.max() <= 1
    # Every flag is needed, and 22 of them belong to the same 1,675 communities.
    flags = features[:, len(PREDICTORS) :].sum(axis=0)
    assert sorted(flags) == [1] + [1675] * 22
    dataset = load_communities_crime(CommunitiesCrimeConfig())
    assert dataset.rows == 1994

"""Adult: from the publisher's two files to 120 indicators, labels and groups."""

import hashlib
import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from drobench.data.dataset import DataError
from drobench.data.download import DownloadError, RemoteFile, fetch
from drobench_plugins.datasets import adult
from drobench_plugins.datasets.adult import (
    BUCKETS,
    CATEGORIES,
    COLUMNS,
    FILES,
    AdultConfig,
    adult_dataset,
    encode,
    entry,
    load_adult,
    read_table,
)

REAL = Path(os.environ.get("DROBENCH_REAL_DATA") or Path(__file__).parents[4] / "shared" / "data")
real_data = pytest.mark.skipif(
    not any(REAL.rglob("adult.data")), reason=f"the real data are not in {REAL}; DROBENCH_REAL_DATA=DIR says where"
)
ROW = "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, 2174, 0, 40, "
ROW += "United-States, <=50K"


@pytest.fixture(autouse=True)
def _cache(monkeypatch, tmp_path):
    monkeypatch.setenv("DROBENCH_DATA", str(tmp_path / "cache"))


def raw(rows: int = 200, seed: int = 0) -> pl.DataFrame:
    """A random table with the columns, categories and ranges of the real one."""
    generator = np.random.default_rng(seed)
    columns = {}
    for name in COLUMNS:
        if name in CATEGORIES:
            columns[name] = generator.choice(CATEGORIES[name], rows).tolist()
        elif name in BUCKETS:
            # As in the real table, only ages reach the lowest edge.
            low, high = BUCKETS[name][0] + (name != "age"), BUCKETS[name][-1]
            columns[name] = generator.integers(low, high + 1, rows).tolist()
        elif name == "fnlwgt":
            columns[name] = generator.integers(10_000, 1_000_000, rows).tolist()
        else:
            columns[name] = generator.choice(["<=50K", ">50K"], rows, p=[0.75, 0.25]).tolist()
    return pl.DataFrame(columns)


def text(table: pl.DataFrame, end: str = "") -> str:
    return "".join(", ".join(map(str, row)) + end + "\n" for row in table.iter_rows()) + "\n"


def write(folder: Path, training: pl.DataFrame, test: pl.DataFrame) -> list[Path]:
    """Write both files as the publisher does, down to the remark and the full stops of the second."""
    folder.mkdir(exist_ok=True)
    (folder / "adult.data").write_text(text(training))
    (folder / "adult.test").write_text("|1x3 Cross validator\n" + text(test, "."))
    return [folder / "adult.data", folder / "adult.test"]


def changed(table: pl.DataFrame, row: int, **values) -> pl.DataFrame:
    number = pl.int_range(pl.len())
    return table.with_columns(
        [
            pl.when(number == row).then(pl.lit(value)).otherwise(pl.col(name)).alias(name)
            for name, value in values.items()
        ]
    )


# The files


def test_both_files_make_one_table_in_order(tmp_path):
    first, second = raw(30, seed=1), raw(20, seed=2)
    table = read_table(write(tmp_path, first, second))
    expected = pl.concat([first, second]).cast(pl.String)
    assert table.equals(expected)
    assert set(table["income"]) == {"<=50K", ">50K"}


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (ROW + "\n" + ROW.removesuffix(", <=50K") + "\n", "found 14 in line 2"),
        (ROW + "\n\n" + ROW + ", extra\n", "found 16 in line 3"),
        (ROW.replace(", ", ";") + "\n", "found 1 in line 1, and 1 such rows"),
        (ROW.replace(", ", ",") + "\n", "found 1 in line 1"),
        (ROW + "\n" + ROW[:40], "in line 2"),
        ("", "must have at least one row"),
        ("|1x3 Cross validator\n\n", "must have at least one row"),
    ],
)
def test_a_file_in_another_format_is_refused_with_the_line(content, found, tmp_path):
    path = tmp_path / "adult.data"
    path.write_text(content)
    with pytest.raises(DataError) as caught:
        read_table([path])
    assert found in str(caught.value)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", "39, Café".encode()])
def test_a_file_that_is_no_plain_text_is_refused(content, tmp_path):
    (tmp_path / "adult.data").write_bytes(content)
    with pytest.raises(DataError, match="readable text file"):
        read_table([tmp_path / "adult.data"])


# The arrays


def test_every_table_has_the_same_120_indicators():
    features, names, labels, groups = encode(raw())
    assert features.shape == (200, 120)
    assert len(set(names)) == 120
    assert set(np.unique(features)) == {0.0, 1.0}
    assert encode(raw(5))[1] == names
    assert labels.dtype == groups.dtype == np.int64


def test_indicators_labels_and_groups_mean_what_their_names_say():
    table = raw(500)
    features, names, labels, groups = encode(table)
    for position, name in enumerate(names):
        column = max((column for column in (*CATEGORIES, *BUCKETS) if name.startswith(column + "_")), key=len)
        rest = name.removeprefix(column + "_")
        if column in CATEGORIES:
            expected = table[column].to_numpy() == rest
        else:
            low, high = map(int, rest.split("_"))
            values = table[column].to_numpy()
            expected = (values > low) & (values <= high) | ((values == low) & (low == BUCKETS[column][0]))
        np.testing.assert_array_equal(features[:, position], expected, err_msg=name)
    np.testing.assert_array_equal(labels, table["income"].to_numpy() == ">50K")
    race = table["race"].to_numpy()
    np.testing.assert_array_equal(groups == 0, race == "White")
    np.testing.assert_array_equal(groups == 1, race == "Black")
    assert set(groups) == {0, 1, 2}


def test_races_that_are_groups_are_no_features_and_the_others_are():
    names = [name for name in encode(raw())[1] if name.startswith("race_")]
    assert names == ["race_Amer-Indian-Eskimo", "race_Asian-Pac-Islander", "race_Other"]


def test_every_row_has_one_bucket_of_each_kind_unless_buckets_are_open():
    table = changed(raw(), 3, age=17)
    features, names, *_ = encode(table)
    ages = [position for position, name in enumerate(names) if name.startswith("age_")]
    buckets = [position for position, name in enumerate(names) if name.startswith(tuple(BUCKETS))]
    np.testing.assert_array_equal(features[:, ages].sum(axis=1), 1)
    np.testing.assert_array_equal(features[:, buckets].sum(axis=1), len(BUCKETS))
    open_features = encode(table, open_buckets=True)[0]
    seventeen = table["age"].to_numpy() == 17
    assert seventeen[3]
    np.testing.assert_array_equal(open_features[:, ages].sum(axis=1), ~seventeen)
    others = [position for position in range(120) if position not in ages]
    np.testing.assert_array_equal(open_features[:, others], features[:, others])


def test_text_and_numbers_are_the_same_table():
    table = raw()
    for left, right in zip(encode(table), encode(table.cast(pl.String)), strict=True):
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ({"income": ">100K"}, "income must be one of <=50K, >50K; found '>100K' in row 4"),
        ({"race": "Blue"}, "race must be one of"),
        ({"workclass": ""}, "workclass must be one of"),
        ({"native_country": None}, "native_country must be one of"),
        ({"age": 16}, "age must be from 17 to 90; found 16 in row 4"),
        ({"hours_per_week": 101}, "hours_per_week must be from 0 to 100"),
        ({"capital_gain": -2}, "capital_gain must be from -1"),
        ({"education_num": None}, "education_num must be from 0 to 16; found nan in row 4"),
    ],
)
def test_values_that_cannot_be_are_refused(values, found):
    with pytest.raises(DataError) as caught:
        encode(changed(raw(), 4, **values))
    assert found in str(caught.value)


def test_text_where_a_number_belongs_is_refused():
    table = changed(raw().with_columns(pl.col("age").cast(pl.String)), 2, age="old")
    with pytest.raises(DataError, match="column 'age' must hold numbers; found 'old' in row 2"):
        encode(table)


def test_a_missing_column_is_named():
    for name in COLUMNS:
        with pytest.raises(DataError, match=rf"not found: {name}\."):
            encode(raw().drop(name))


# The dataset


def test_the_dataset_has_groups_and_the_split_of_the_experiment():
    dataset = adult_dataset("adult", raw(1000), AdultConfig())
    assert [split.rows for split in (dataset.train, dataset.validation, dataset.test)] == [200, 200, 600]
    assert dataset.provides == entry().provides == {"labels", "binary_labels", "groups"}
    assert dataset.twin is False
    assert dataset.train.groups.shape == (200,)


def test_a_group_that_is_only_in_the_training_rows_is_no_error():
    table = raw(60).with_columns(race=pl.lit("White"))
    trained = adult_dataset("adult", table, AdultConfig())
    # A row that is in the training split is found by its features, since the split depends on labels and seed alone.
    features = encode(table)[0]
    row = int(np.flatnonzero((features == trained.train.features[0].numpy()).all(axis=1))[0])
    dataset = adult_dataset("adult", changed(table, row, race="Black"), AdultConfig())
    assert set(dataset.train.groups.tolist()) == {0, 1}
    assert set(dataset.test.groups.tolist()) == {0}


def test_a_single_class_is_refused():
    with pytest.raises(DataError, match="two classes"):
        adult_dataset("adult", raw().with_columns(income=pl.lit(">50K")), AdultConfig())


def test_data_that_are_not_there_are_explained():
    with pytest.raises(DownloadError, match=r"drobench data fetch adult.*dataset=adult_twin"):
        load_adult(AdultConfig())


def test_files_of_another_content_are_refused(tmp_path):
    write(tmp_path / "in", raw(), raw())
    with pytest.raises(DownloadError, match=FILES[0].sha256):
        fetch("adult", FILES, tmp_path / "in")
    write(tmp_path / "cache", raw(), raw())
    (tmp_path / "cache").rename(tmp_path / "adult")
    (tmp_path / "cache").mkdir()
    (tmp_path / "adult").rename(tmp_path / "cache" / "adult")
    with pytest.raises(DownloadError, match="must have the SHA-256"):
        load_adult(AdultConfig())


def test_fetched_files_are_loaded(tmp_path, monkeypatch):
    paths = write(tmp_path / "in", raw(80, 1), raw(80, 2))
    files = tuple(
        RemoteFile(path.name, hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_size) for path in paths
    )
    monkeypatch.setattr(adult, "FILES", files)
    fetch("adult", files, tmp_path / "in")
    expected = adult_dataset("adult", pl.concat([raw(80, 1), raw(80, 2)]), AdultConfig())
    assert load_adult(AdultConfig()).sha256 == expected.sha256


# The real data


@real_data
def test_the_real_data_are_what_they_are_known_to_be():
    paths = fetch("adult", FILES, REAL)
    table = read_table(paths)
    features, _, labels, groups = encode(table)
    assert features.shape == (48_842, 120)
    assert labels[:32_561].sum() == 7_841
    assert labels[32_561:].sum() == 3_846
    np.testing.assert_allclose(np.bincount(groups) / len(groups), [0.855, 0.096, 0.049], atol=5e-4)
    changed_rows = (features != encode(table, open_buckets=True)[0]).any(axis=1)
    assert changed_rows.sum() == 595
    # Every indicator is used, so none of the categories was misspelt.
    assert (features.sum(axis=0) > 0).all()
    dataset = load_adult(AdultConfig())
    assert dataset.rows == 48_842
    assert sum(int(split.labels.sum()) for split in (dataset.train, dataset.validation, dataset.test)) == 11_687

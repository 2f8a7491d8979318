"""Parquet files become a table: the same numbers in the same order, or a message that says where it failed."""

import numpy as np
import polars as pl
import pytest

from drobench.data import parquet
from drobench.data.dataset import DataError
from drobench.data.parquet import convert_parquet
from drobench.data.stored_table import verify_table

ROWS = 50


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """Eight rows at once, of four columns and a label."""
    monkeypatch.setattr(parquet, "_NUMBERS_AT_ONCE", 40)


def frame(rows: int = ROWS, seed: int = 1) -> pl.DataFrame:
    generator = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "id": [f"row {row}" for row in range(rows)],
            "size": generator.normal(size=rows),
            "target": np.where(generator.random(rows) < 0.5, "yes", "no"),
            "count": generator.integers(-9, 9, rows).astype(np.int16),
            "member": generator.random(rows) < 0.5,
            "ratio": generator.random(rows).astype(np.float32),
        }
    )


@pytest.fixture
def shards(tmp_path):
    """Three files in a folder; the columns of the second stand in another order."""
    folder = tmp_path / "shards"
    folder.mkdir()
    frames = [frame(ROWS, 1), frame(3, 2), frame(ROWS, 3)]
    frames[0].write_parquet(folder / "part-1.parquet", row_group_size=13)
    frames[1].select(sorted(frames[1].columns)).write_parquet(folder / "part-2.parquet")
    frames[2].write_parquet(folder / "part-3.parquet", row_group_size=11)
    return folder, pl.concat(frames)


def convert(*sources, output, label="target", drop=("id",), **settings):
    return convert_parquet([str(source) for source in sources], output, label=label, drop=list(drop), **settings)


def refused(tmp_path, *sources, **settings) -> str:
    output = tmp_path / "table"
    with pytest.raises(DataError) as caught:
        convert(*sources, output=output, **settings)
    assert not output.exists()
    assert not list(tmp_path.glob(".building-*"))
    return str(caught.value)


def changed(tmp_path, rows: int = ROWS, **columns) -> str:
    """A file with some columns replaced."""
    path = tmp_path / "changed.parquet"
    frame(rows).with_columns(**columns).write_parquet(path)
    return str(path)


def at(row: int, value, kind=pl.Float64) -> pl.Series:
    values = [1.0] * ROWS
    values[row] = value
    return pl.Series(values, dtype=kind, strict=False)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_shards_become_one_table_in_their_order(shards, tmp_path, dtype):
    folder, whole = shards
    seen = []
    table = convert(folder, output=tmp_path / "table", dtype=dtype, progress=lambda *news: seen.append(news))
    expected = whole.select("size", "count", "member", "ratio").cast(pl.Float64).to_numpy().astype(dtype)
    np.testing.assert_array_equal(table.features, expected)
    assert table.columns == ("size", "count", "member", "ratio")
    assert table.classes == ("no", "yes")
    np.testing.assert_array_equal(table.labels, (whole["target"] == "yes").to_numpy())
    assert verify_table(tmp_path / "table").rows == whole.height
    assert [news for news in seen if news[1] == news[2]] == [
        (f"part-{n}.parquet", k, k) for n, k in enumerate((50, 3, 50), 1)
    ]


def test_files_and_patterns_are_sources_too(shards, tmp_path):
    folder, whole = shards
    files = [folder / "part-1.parquet", folder / "part-2.parquet", folder / "part-3.parquet"]
    first = convert(*files, output=tmp_path / "first")
    second = convert(folder / "part-*.parquet", output=tmp_path / "second")
    assert first.checksums == second.checksums
    assert first.rows == whole.height


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (pl.Series([3, -1] * 25), (-1, 3)),
        (pl.Series([0.0, 1.5] * 25), (0.0, 1.5)),
        (pl.Series([True, False] * 25), (False, True)),
        (pl.Series(["b", "a"] * 25, dtype=pl.Categorical), ("a", "b")),
    ],
)
def test_labels_of_every_kind_become_sorted_classes(tmp_path, labels, classes):
    table = convert(changed(tmp_path, target=labels), output=tmp_path / "table")
    assert table.classes == classes
    assert [table.classes[code] for code in table.labels] == labels.to_list()


@pytest.mark.parametrize("value", [None, float("nan"), float("inf")])
def test_a_value_that_is_no_number_is_refused_with_file_column_and_row(tmp_path, value):
    source = changed(tmp_path, ratio=at(37, value))
    assert f"{source}: every feature must be a finite number; found {value} in row 37, column 'ratio'" in refused(
        tmp_path, source
    )


def test_a_number_too_large_for_single_precision_is_refused_and_fits_in_double(tmp_path):
    source = changed(tmp_path, ratio=at(20, 1e60))
    assert "too large for float32: use --dtype float64" in refused(tmp_path, source)
    assert convert(source, output=tmp_path / "table", dtype="float64").features[20, 3] == 1e60


@pytest.mark.parametrize(("value", "kind"), [(None, pl.Float64), (float("nan"), pl.Float64), (None, pl.String)])
def test_a_missing_label_is_refused_with_file_column_and_row(tmp_path, value, kind):
    source = changed(tmp_path, target=at(41, value, kind))
    assert f"{source}: no label may be missing; found none in row 41 of column 'target'" in refused(tmp_path, source)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"target": pl.Series(range(ROWS))}, "these are no classes"),
        ({"target": pl.lit(1)}, "found the single class 1"),
        ({"target": pl.lit(None, pl.Date)}, "the label must be numbers, booleans or text"),
        ({"ratio": pl.lit("text")}, "found column 'ratio' of type String"),
    ],
)
def test_columns_of_the_wrong_kind_are_refused(tmp_path, monkeypatch, columns, said):
    monkeypatch.setattr(parquet, "_MOST_CLASSES", 40)
    assert said in refused(tmp_path, changed(tmp_path, **columns))


def test_files_that_do_not_fit_together_are_refused_by_name(shards, tmp_path):
    folder, _ = shards
    other = folder / "part-4.parquet"
    frame().with_columns(further=pl.lit(1.0)).write_parquet(other)
    assert f"{other} has a column 'further'" in refused(tmp_path, folder)
    frame().drop("ratio").write_parquet(other)
    assert f"{other} has no column 'ratio'" in refused(tmp_path, folder)
    frame().with_columns(target=pl.lit(1)).write_parquet(other)
    assert "text in one file and numbers in another" in refused(tmp_path, folder)


def test_wrong_names_are_refused(shards, tmp_path):
    folder, _ = shards
    assert "has no column 'tarket'; its columns: id, size, target" in refused(tmp_path, folder, label="tarket")
    assert "has no column 'it'" in refused(tmp_path, folder, drop=["it"])
    assert "cannot be dropped" in refused(tmp_path, folder, drop=["target"])
    assert "found column 'id' of type String" in refused(tmp_path, folder, drop=[])
    everything = ["id", "size", "count", "member", "ratio"]
    assert "no column besides the label" in refused(tmp_path, folder, drop=everything)


@pytest.mark.parametrize("source", ["none.parquet", "none-*.parquet", "."])
def test_sources_without_files_are_refused(tmp_path, monkeypatch, source):
    monkeypatch.chdir(tmp_path)
    assert f"There is no Parquet file {source}" in refused(tmp_path, source)


def test_a_file_that_is_no_parquet_is_named(tmp_path):
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"PAR1 but nothing else")
    assert f"{broken} cannot be read as Parquet" in refused(tmp_path, broken)


def test_an_existing_folder_is_refused_before_anything_is_read(tmp_path):
    (tmp_path / "table").mkdir()
    with pytest.raises(DataError, match="must not exist yet"):
        convert("nowhere.parquet", output=tmp_path / "table")

import datetime
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch

from drobench.data.dataset import DataError, Dataset
from drobench.errors import SettingError
from drobench_plugins.datasets.tabular import TabularConfig, entry, load_tabular_dataset

ROWS = 120
FORMATS = ("csv", "parquet")


def table(rows: int = ROWS) -> pl.DataFrame:
    """Numbers of three kinds, booleans, two text columns and a text label."""
    generator = np.random.default_rng(5)
    return pl.DataFrame(
        {
            "id": [f"row {row}" for row in range(rows)],
            "count": generator.integers(-4, 5, rows),
            "size": generator.normal(1.0, 3.0, rows),
            "member": generator.random(rows) < 0.4,
            "colour": np.array(["red", "green", "dark blue"])[np.arange(rows) % 3],
            "grade": np.array(["b", "a"])[np.arange(rows) % 2],
            "outcome": np.where(generator.random(rows) < 0.3, "yes", "no"),
        }
    )


def write(frame: pl.DataFrame, folder: Path, kind: str = "csv", name: str = "table") -> str:
    path = folder / f"{name}.{kind}"
    getattr(frame, f"write_{kind}")(path)
    return str(path)


def load(path: str, label: str | None = "outcome", **settings) -> Dataset:
    """All rows as they came, unless the settings say otherwise."""
    defaults = {"split": [1, 0, 0], "standardize": False, "drop": ["id"]}
    return load_tabular_dataset(TabularConfig(path=path, label=label, **{**defaults, **settings}))


def refused(frame: pl.DataFrame, folder: Path, kind: str = "csv", label: str = "outcome", **settings) -> str:
    """Load a table that cannot be used; gives the message."""
    with pytest.raises(DataError) as caught:
        load(write(frame, folder, kind), label, **settings)
    return str(caught.value)


# Content


@pytest.mark.parametrize("kind", FORMATS)
def test_numbers_and_booleans_stay_one_column_and_text_becomes_indicators(kind, tmp_path):
    frame = table()
    dataset = load(write(frame, tmp_path, kind))
    assert dataset.feature_names == (
        "count",
        "size",
        "member",
        "colour_dark blue",
        "colour_green",
        "colour_red",
        "grade_a",
        "grade_b",
    )
    features = dataset.train.features.numpy()
    assert features.dtype == np.float64
    for position, name in enumerate(("count", "size", "member")):
        np.testing.assert_array_equal(features[:, position], frame[name].to_numpy().astype(np.float64))
    for position, name in enumerate(dataset.feature_names[3:], start=3):
        column, value = name.split("_")
        np.testing.assert_array_equal(features[:, position], frame[column].to_numpy() == value)


@pytest.mark.parametrize("kind", FORMATS)
def test_text_labels_become_classes_in_alphabetical_order(kind, tmp_path):
    frame = table()
    dataset = load(write(frame, tmp_path, kind))
    assert dataset.classes == 2
    assert dataset.provides == {"labels", "binary_labels"}
    np.testing.assert_array_equal(dataset.train.labels.numpy() == 1, frame["outcome"].to_numpy() == "yes")


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize(
    ("values", "codes"),
    [
        ([7, -2, 7], [1, 0, 1]),
        ([False, True, True], [0, 1, 1]),
        ([0.5, 0.25, 3.0], [1, 0, 2]),
        (["10", "9", "x"], [0, 1, 2]),
    ],
)
def test_labels_of_every_kind_become_the_positions_of_their_sorted_values(values, codes, kind, tmp_path):
    frame = pl.DataFrame({"a": np.arange(60.0), "label": values * 20})
    dataset = load(write(frame, tmp_path, kind), "label", drop=[])
    assert dataset.train.labels.tolist() == codes * 20
    assert dataset.classes == max(codes) + 1
    assert ("binary_labels" in dataset.provides) == (max(codes) == 1)


def test_categorical_columns_are_text(tmp_path):
    frame = table()
    text = load(write(frame, tmp_path, "parquet", "text"))
    columns = ["colour", "grade", "outcome"]
    categorical = frame.with_columns(pl.col(columns).cast(pl.Categorical))
    assert load(write(categorical, tmp_path, "parquet", "categorical")).sha256 == text.sha256


@pytest.mark.parametrize("standardize", [True, False])
def test_csv_and_parquet_of_the_same_content_have_the_same_checksum(standardize, tmp_path):
    frame = table()
    settings = {"split": [0.6, 0.2, 0.2], "standardize": standardize, "seed": 3}
    first, second = (load(write(frame, tmp_path, kind), **settings) for kind in FORMATS)
    assert first.sha256 == second.sha256
    assert first.feature_names == second.feature_names
    assert torch.equal(first.train.features, second.train.features)


def test_the_checksum_follows_content_and_seed_but_not_the_place(tmp_path):
    frame = table()
    settings = {"split": [0.6, 0.2, 0.2]}
    here = load(write(frame, tmp_path, name="here"), **settings)
    there = load(write(frame, tmp_path, name="there"), **settings)
    other_seed = load(write(frame, tmp_path), seed=1, **settings)
    changed = load(write(frame.with_columns(pl.col("size") + 1e-9), tmp_path), standardize=False, **settings)
    assert here.sha256 == there.sha256
    assert len({here.sha256, other_seed.sha256, changed.sha256}) == 3


def test_a_table_of_numbers_alone_needs_no_indicators(tmp_path):
    frame = pl.DataFrame({"a": np.arange(10.0), "b": np.arange(10) ** 2, "label": [0, 1] * 5})
    dataset = load(write(frame, tmp_path), "label", drop=[])
    assert dataset.feature_names == ("a", "b")
    np.testing.assert_array_equal(dataset.train.features.numpy(), frame.select("a", "b").to_numpy())


def test_columns_can_be_left_out(tmp_path):
    assert load(write(table(), tmp_path), drop=["id", "colour", "grade", "size"]).feature_names == ("count", "member")


def test_a_column_may_turn_into_decimals_or_text_late_in_a_csv_file(tmp_path):
    rows = range(400)
    frame = pl.DataFrame(
        {
            "amount": [str(row) if row < 300 else f"{row}.5" for row in rows],
            "code": ["7" if row < 300 else "none" for row in rows],
            "label": [row % 2 for row in rows],
        }
    )
    dataset = load(write(frame, tmp_path), "label", drop=[])
    assert dataset.feature_names == ("amount", "code_7", "code_none")
    assert dataset.train.features[-1].tolist() == [399.5, 0.0, 1.0]


def test_an_indicator_named_like_another_column_is_kept_apart_or_refused(tmp_path):
    frame = pl.DataFrame({"a": ["x", "y"] * 5, "a_x": np.arange(10.0), "label": [0, 1, 1, 0, 1] * 2})

    def names_or_message() -> tuple[str, ...] | str:
        try:
            return load(write(frame, tmp_path), "label", drop=[]).feature_names
        except DataError as error:
            return str(error)

    found = names_or_message()
    assert "a_x" in found
    assert isinstance(found, str) or len(set(found)) == 3


# What is refused, and in which words


@pytest.mark.parametrize("settings", [{}, {"path": "x.csv"}, {"label": "y"}])
def test_file_and_label_must_be_given(settings):
    with pytest.raises(DataError, match=r"Set `dataset\.path=FILE dataset\.label=COLUMN`"):
        load_tabular_dataset(TabularConfig(**settings))


@pytest.mark.parametrize("kind", FORMATS)
def test_a_missing_file_is_named_in_full(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError) as caught:
        load(f"nowhere.{kind}")
    assert str(tmp_path.resolve() / f"nowhere.{kind}") in str(caught.value)
    assert "dataset.path=" in str(caught.value)


def test_a_folder_is_no_file(tmp_path):
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(DataError, match="there is no file"):
        load(str(tmp_path / "folder.csv"))


@pytest.mark.parametrize("name", ["table.xlsx", "table.txt", "table", "table.csv.gz"])
def test_other_suffixes_are_refused(name, tmp_path):
    (tmp_path / name).write_text("a,outcome\n1,2\n")
    with pytest.raises(DataError, match=r"a \.csv, \.tsv or \.parquet file is needed") as caught:
        load(str(tmp_path / name))
    assert name in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("empty.csv", b""),
        ("latin.csv", b"a,outcome\ncaf\xe9,1\nthe,2\n"),
        ("ragged.csv", b"a,outcome\n1,2\n1,2,3\n"),
        ("no.parquet", b"a,outcome\n1,2\n"),
    ],
)
def test_a_damaged_file_is_refused(name, content, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match="cannot be read as"):
        load(str(tmp_path / name), drop=[])


@pytest.mark.parametrize(("settings", "wrong"), [({"label": "outcom"}, "outcom"), ({"drop": ["outcomes"]}, "outcomes")])
def test_a_missing_column_comes_with_a_hint_and_the_list_of_columns(settings, wrong, tmp_path):
    message = refused(table(), tmp_path, **settings)
    assert f"no column {wrong!r}. Did you mean 'outcome'?" in message
    assert "Its columns: id, count, size, member, colour, grade, outcome." in message


def test_a_long_list_of_columns_is_cut(tmp_path):
    frame = pl.DataFrame({f"c{number}": [0, 1] for number in range(50)})
    message = refused(frame, tmp_path, label="zzz", drop=[])
    assert "c19, ..." in message
    assert "c20" not in message
    assert "Did you mean" not in message


def test_the_wrong_separator_shows_in_the_message(tmp_path):
    path = tmp_path / "table.csv"
    table().write_csv(path, separator=";")
    with pytest.raises(DataError) as caught:
        load(str(path), separator=",")
    assert "Its columns: id;count;size;member;colour;grade;outcome." in str(caught.value)
    assert "separator" in str(caught.value)


def test_the_label_cannot_be_left_out(tmp_path):
    message = refused(table(), tmp_path, drop=["id", "outcome"])
    assert "outcome" in message


def with_gaps(frame: pl.DataFrame) -> pl.DataFrame:
    """Leave two gaps in `size` and one in `colour`."""
    row = pl.int_range(pl.len())
    return frame.with_columns(
        pl.when(row.is_in([4, 9])).then(None).otherwise(pl.col("size")).alias("size"),
        pl.when(row == 17).then(None).otherwise(pl.col("colour")).alias("colour"),
    )


@pytest.mark.parametrize("kind", FORMATS)
def test_missing_values_are_refused_by_the_name_of_the_worst_column(kind, tmp_path):
    message = refused(with_gaps(table()), tmp_path, kind)
    assert "2 missing in column 'size' and gaps in 2 columns" in message
    assert "`dataset.missing=` to `impute`, `indicator` or `drop_rows`" in message


@pytest.mark.parametrize("kind", FORMATS)
def test_missing_labels_are_missing_values(kind, tmp_path):
    frame = table().with_columns(pl.when(pl.int_range(pl.len()) == 3).then(None).otherwise("outcome").alias("outcome"))
    assert "column 'outcome'" in refused(frame, tmp_path, kind)


@pytest.mark.parametrize("kind", FORMATS)
def test_rows_with_missing_values_can_be_dropped(kind, tmp_path):
    frame = table()
    complete = frame.filter(~pl.int_range(pl.len()).is_in([4, 9, 17]))
    dropped = load(write(with_gaps(frame), tmp_path, kind), missing="drop_rows")
    assert dropped.rows == ROWS - 3
    assert dropped.sha256 == load(write(complete, tmp_path, kind, "complete")).sha256


def test_gaps_in_a_dropped_column_do_not_count(tmp_path):
    path = write(with_gaps(table()), tmp_path)
    assert load(path, drop=["id", "size", "colour"]).rows == ROWS
    assert load(path, drop=["id", "size", "colour"], missing="drop_rows").rows == ROWS


def test_an_unknown_treatment_of_missing_values_is_refused():
    with pytest.raises(SettingError, match="one of refuse, drop_rows, impute, indicator; found 'fill'"):
        TabularConfig(missing="fill")


def test_text_with_too_many_values_is_no_category(tmp_path):
    message = refused(table(), tmp_path, drop=[])
    assert f"column 'id' of {tmp_path / 'table.csv'} is text with {ROWS} different values" in message
    assert "dataset.drop=[id]" in message


@pytest.mark.parametrize(("values", "fits"), [(100, True), (101, False)])
def test_a_hundred_values_are_the_most(values, fits, tmp_path):
    frame = pl.DataFrame({"t": [f"v{row % values}" for row in range(300)], "label": [0, 1, 1] * 100})
    if fits:
        assert len(load(write(frame, tmp_path), "label", drop=[]).feature_names) == values
    else:
        assert f"{values} different values" in refused(frame, tmp_path, label="label", drop=[])


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (datetime.date(2024, 2, 29), "Date"),
        (datetime.datetime(2024, 2, 29, 12), "Datetime"),
        (datetime.timedelta(hours=1), "Duration"),
        ([1, 2], "List"),
    ],
)
def test_dates_and_lists_are_no_features(value, kind, tmp_path):
    frame = table().with_columns(pl.Series("since", [value] * ROWS))
    message = refused(frame, tmp_path, "parquet")
    assert f"found 'since' of type {kind}" in message
    assert "dataset.drop=" in message


@pytest.mark.parametrize(("kind", "value"), [("csv", 1), ("parquet", "yes")])
def test_a_single_class_is_refused(value, kind, tmp_path):
    frame = table().with_columns(pl.lit(value).alias("outcome"))
    message = refused(frame, tmp_path, kind)
    assert "must have at least two classes" in message
    assert f"the single class {value}" in message


@pytest.mark.parametrize("kind", FORMATS)
def test_numbers_that_are_not_finite_are_refused_with_their_place(kind, tmp_path):
    value = float("inf")
    frame = table().with_columns(pl.when(pl.int_range(pl.len()) == 7).then(value).otherwise("size").alias("size"))
    assert "Column 'size': every number must be finite; found inf in row 7" in refused(frame, tmp_path, kind)


@pytest.mark.parametrize("kind", FORMATS)
def test_a_number_that_is_none_is_a_missing_value(kind, tmp_path):
    value = float("nan")
    frame = table().with_columns(pl.when(pl.int_range(pl.len()) == 7).then(value).otherwise("size").alias("size"))
    assert "1 missing in column 'size'" in refused(frame, tmp_path, kind)


@pytest.mark.parametrize("kind", FORMATS)
def test_a_label_that_is_not_a_number_is_no_class_of_its_own(kind, tmp_path):
    labels = [float(row % 2) for row in range(ROWS)]
    labels[7] = float("nan")
    frame = table().with_columns(pl.Series("outcome", labels))
    assert "outcome" in refused(frame, tmp_path, kind)


@pytest.mark.parametrize("frame", [table().select("outcome"), table().clear()])
def test_a_table_without_features_or_rows_is_refused(frame, tmp_path):
    assert "Dataset 'tabular'" in refused(frame, tmp_path, drop=[])


# In use


def test_the_entry_promises_at_least_what_the_dataset_provides(tmp_path):
    described = entry()
    path = write(table(), tmp_path)
    dataset = described.factory(described.config(path=path, label="outcome", drop=["id"]))
    assert dataset.name == described.name == "tabular"
    assert dataset.provides <= described.provides
    assert dataset.twin is False


@pytest.mark.parametrize(("kind", "label"), [("csv", "outcome"), ("parquet", "colour")])
def test_a_run_goes_from_file_to_record(kind, label, run, tmp_path):
    from drobench import load_solution

    results = tmp_path / "results"
    path = write(table().drop("id"), tmp_path, kind)
    record = run("dataset=tabular", f"dataset.path={path}", f"dataset.label={label}", "budget=smoke", results=results)
    assert record.status == "budget_spent"
    model = load_solution(record.run_id, results=results)
    features = load(path, label, drop=[]).train.features.numpy()
    assert model.classes == table()[label].n_unique()
    assert set(model.predict(features)) <= set(table()[label])


def test_a_run_with_the_defaults_says_what_to_set(run, tmp_path):
    from drobench.errors import DrobenchError

    with pytest.raises(DrobenchError, match=r"dataset\.path=FILE dataset\.label=COLUMN"):
        run("dataset=tabular", "budget=smoke", results=tmp_path / "results")


def test_a_run_can_leave_columns_out_by_list(run, tmp_path):
    path = write(table(), tmp_path)
    words = ("dataset=tabular", f"dataset.path={path}", "dataset.label=outcome", "dataset.drop=[id,grade]")
    assert run(*words, "budget=smoke", results=tmp_path / "results").status == "budget_spent"

"""A table as practitioners have them: gaps, an index, categories that come up late; what is said of it."""

import numpy as np
import polars as pl
import pytest

from drobench.data.dataset import DataError
from drobench.errors import SettingError
from drobench_plugins.datasets.tabular import TabularConfig, load_tabular_dataset

ROWS = 200


def raw_table(seed: int = 0) -> pl.DataFrame:
    generator = np.random.default_rng(seed)
    income = [f"{value:.2f}" if value > -1.5 else "?" for value in generator.normal(size=ROWS)]
    job = [["cook", "nurse", "NA"][kind] for kind in generator.choice(3, ROWS, p=[0.6, 0.3, 0.1])]
    frame = pl.DataFrame(
        {"": range(ROWS), "income": income, "job": job, "age": generator.integers(18, 60, ROWS), "unit": ["m"] * ROWS}
    )
    return frame.with_columns(pl.Series("paid", np.where(generator.random(ROWS) < 0.5, "yes", "no")))


@pytest.fixture
def path(tmp_path):
    raw_table().write_csv(tmp_path / "table.csv")
    return tmp_path / "table.csv"


def load(path, **settings):
    return load_tabular_dataset(TabularConfig(path=str(path), label="paid", **settings))


def training_rows(dataset, path):
    """The raw rows of the training split, found by their age and by what the index says, which is kept for that."""
    kept = load(path, index="keep", missing="indicator", standardize=False)
    numbers = kept.train.features[:, list(kept.feature_names).index("")].numpy().astype(int)
    assert len(numbers) == dataset.train.rows
    return pl.read_csv(path, null_values=["?", "NA"])[numbers]


def test_gaps_are_refused_unless_asked_for(path):
    with pytest.raises(DataError, match="gaps in 2 columns in all"):
        load(path)


def test_gaps_become_median_and_most_frequent_value_of_the_training_rows(path):
    dataset = load(path, missing="impute", standardize=False)
    assert dataset.feature_names == ("income", "job_cook", "job_nurse", "age", "unit_m")
    raw = training_rows(dataset, path)
    gaps = raw["income"].is_null().to_numpy()
    assert gaps.any()
    income = dataset.train.features[:, 0].numpy()
    assert set(income[gaps]) == {float(np.median(raw["income"].drop_nulls().to_numpy()))}
    np.testing.assert_array_equal(income[~gaps], raw["income"].drop_nulls().to_numpy())
    cooks = raw["job"].is_null() | (raw["job"] == "cook").fill_null(False)
    np.testing.assert_array_equal(dataset.train.features[:, 1].numpy(), cooks.to_numpy())


def test_with_indicators_gaps_are_features_of_their_own(path):
    dataset = load(path, missing="indicator", standardize=False)
    names = ("income", "income_missing", "job_cook", "job_nurse", "job_missing", "age", "unit_m")
    assert dataset.feature_names == names
    raw = training_rows(dataset, path)
    features = dataset.train.features.numpy()
    np.testing.assert_array_equal(features[:, 1], raw["income"].is_null().to_numpy())
    np.testing.assert_array_equal(features[:, 4], raw["job"].is_null().to_numpy())
    np.testing.assert_array_equal(features[:, 2:5].sum(axis=1), 1.0)
    assert dataset.rows == ROWS


def test_what_other_rows_hold_changes_no_training_row(path, tmp_path):
    """Imputation, categories and scaling look at the training rows alone."""
    before = load(path, missing="indicator")
    kept = load(path, missing="indicator", index="keep", standardize=False)
    held_out = kept.test.features[:, 0].numpy().astype(int)
    frame = raw_table()
    strange = pl.int_range(ROWS).is_in(held_out.tolist())
    changed = frame.with_columns(
        pl.when(strange).then(pl.lit("1e6")).otherwise("income").alias("income"),
        pl.when(strange).then(pl.lit("astronaut")).otherwise("job").alias("job"),
    )
    changed.write_csv(tmp_path / "changed.csv")
    after = load(tmp_path / "changed.csv", missing="indicator")
    assert before.encoder == after.encoder
    assert before.train.features.equal(after.train.features)
    jobs = [after.feature_names.index(f"job_{name}") for name in ("cook", "nurse", "missing")]
    raw = after.test.features[:, jobs] * after.feature_scale[jobs] + after.feature_mean[jobs]
    np.testing.assert_allclose(raw.numpy(), 0.0, atol=1e-12)
    assert any("no training row has" in note and "'job' (40 rows)" in note for note in after.notes)
    with pytest.raises(DataError, match="'astronaut'"):
        load(tmp_path / "changed.csv", missing="indicator", unseen="refuse")


@pytest.mark.parametrize("missing", ["impute", "indicator"])
def test_rows_without_a_label_are_left_out_and_counted(missing, tmp_path):
    frame = raw_table().with_columns(pl.when(pl.int_range(ROWS) < 7).then(pl.lit("?")).otherwise("paid").alias("paid"))
    frame.write_csv(tmp_path / "t.csv")
    dataset = load(tmp_path / "t.csv", missing=missing)
    assert dataset.rows == ROWS - 7
    assert f"Left out: 7 of {ROWS} rows without label, group or attribute." in dataset.notes
    assert dataset.encoder.classes == ("no", "yes")


def test_index_and_constant_columns_are_told(path):
    notes = "\n".join(load(path, missing="impute").notes)
    assert "only number the rows: ''" in notes
    assert "nothing can be learned of them: 'unit'" in notes
    assert "number the rows" not in "\n".join(load(path, missing="impute", index="keep").notes)


def test_many_different_numbers_are_told_or_refused(tmp_path):
    def written(values):
        frame = pl.DataFrame({"a": np.arange(300.0), "paid": np.arange(300) % values + 5})
        frame.write_parquet(tmp_path / "t.parquet")
        return tmp_path / "t.parquet"

    assert not load(written(20)).notes
    (note,) = load(written(21)).notes
    assert "21 different numbers of 'paid' are taken as classes" in note
    with pytest.raises(DataError, match=r"150 different values.*set `dataset\.task=regression`"):
        load(written(150))


def test_numbers_to_predict_stay_numbers(tmp_path):
    values = np.random.default_rng(2).normal(5e4, 2e4, 300)
    pl.DataFrame({"a": np.arange(300.0), "paid": values}).write_csv(tmp_path / "t.csv")
    dataset = load(tmp_path / "t.csv", task="regression", split=[1, 0, 0])
    assert (dataset.classes, dataset.provides, dataset.encoder.classes) == (0, {"targets"}, ())
    np.testing.assert_array_equal(dataset.train.targets.numpy(), values)
    scaled = load(tmp_path / "t.csv", task="regression", split=[1, 0, 0], target_scale=1e4)
    np.testing.assert_allclose(scaled.train.targets.numpy() * 1e4, values, rtol=1e-15)
    assert scaled.encoder.target_scale == 1e4


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_infinite_targets_are_refused_with_their_place(task, tmp_path):
    values = np.r_[np.arange(9.0), np.inf, -np.inf]
    pl.DataFrame({"a": np.arange(11.0) ** 2, "paid": values}).write_csv(tmp_path / "t.csv")
    with pytest.raises(DataError, match=r"'paid' .* must be finite; found 2 infinite values, the first in row 9"):
        load(tmp_path / "t.csv", task=task)


def test_a_text_is_no_number_to_predict(path):
    with pytest.raises(DataError, match=r"needs a label of numbers; found 'paid' of type String"):
        load(path, task="regression", missing="impute")


@pytest.mark.parametrize(
    "settings",
    [{"task": "ranking"}, {"index": "guess"}, {"unseen": "guess"}, {"target_scale": 0.0}, {"separator": "a"}],
)
def test_impossible_settings_are_refused(settings):
    with pytest.raises(SettingError, match=next(iter(settings))):
        TabularConfig(**settings)


def test_the_words_for_gaps_are_compared_without_case_and_spaces(tmp_path):
    (tmp_path / "t.csv").write_text("a,paid\n1,x\n nOnE ,y\n3,x\n4,y\n5,x\n6,y\n")
    dataset = load(tmp_path / "t.csv", missing="impute", missing_words=["None"], split=[1, 0, 0], standardize=False)
    assert dataset.train.features[:, 0].tolist() == [1, 4, 3, 4, 5, 6]

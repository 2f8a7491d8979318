"""Groups and attributes of a user's table, and the problems that they open."""

import re

import numpy as np
import polars as pl
import pytest

from drobench.data.dataset import DataError
from drobench.errors import DrobenchError
from drobench_plugins.datasets.tabular import TabularConfig, load_tabular_dataset

ROWS = 300


def raw_table() -> pl.DataFrame:
    generator = np.random.default_rng(4)
    sex = generator.choice(["male", "female", "other"], ROWS, p=[0.5, 0.4, 0.1])
    age, income = generator.integers(18, 70, ROWS), generator.normal(size=ROWS)
    margin = income + 0.02 * (age - 40) + 0.8 * (sex == "male") + generator.normal(size=ROWS)
    return pl.DataFrame({"sex": sex, "age": age, "income": income, "paid": np.where(margin > 0, "yes", "no")})


@pytest.fixture
def path(tmp_path):
    raw_table().write_csv(tmp_path / "table.csv")
    return str(tmp_path / "table.csv")


def load(path, **settings):
    return load_tabular_dataset(TabularConfig(path=path, label="paid", split=[1, 0, 0], standardize=False, **settings))


def test_the_values_of_a_column_become_groups_with_names(path):
    dataset = load(path, group="sex")
    assert dataset.encoder.groups == ("female", "male", "other")
    assert dataset.encoder.group == "sex"
    named = np.array(dataset.encoder.groups)[dataset.train.groups.numpy()]
    np.testing.assert_array_equal(named, raw_table()["sex"].to_numpy())
    assert dataset.provides == {"labels", "binary_labels", "groups"}
    (note,) = dataset.notes
    sizes = raw_table()["sex"].value_counts().sort("sex")["count"].to_list()
    assert note == f"Groups by 'sex': 0 female ({sizes[0]} rows), 1 male ({sizes[1]} rows), 2 other ({sizes[2]} rows)."


def test_numbers_as_groups_are_in_the_order_of_the_numbers(tmp_path):
    frame = raw_table().with_columns(pl.Series("sex", [2, 10, 1] * 100))
    frame.write_csv(tmp_path / "t.csv")
    dataset = load(str(tmp_path / "t.csv"), group="sex")
    assert dataset.encoder.groups == ("1", "2", "10")
    assert dataset.train.groups[:3].tolist() == [1, 2, 0]


def test_columns_of_groups_are_features_only_where_that_is_asked_for(path):
    settings = {"group": "sex", "attributes": ["age"]}
    assert load(path, **settings).feature_names == ("income",)
    kept = load(path, **settings, group_features=True)
    assert kept.feature_names == ("sex_female", "sex_male", "sex_other", "age", "income")


def test_attributes_are_the_raw_numbers(path):
    dataset = load(path, attributes=["income", "age"])
    np.testing.assert_array_equal(dataset.train.attributes.numpy(), raw_table().select("income", "age").to_numpy())
    assert dataset.provides == {"labels", "binary_labels", "attributes"}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"attributes": ["sex"]}, r"must be numbers; found 'sex'.*dataset\.group=sex"),
        ({"group": "income"}, r"'income'.*from 2 to 100 different values; found 300.*dataset\.attributes=\[income\]"),
        ({"group": "paid"}, r"which is the label.*problem\.groups=label"),
        ({"group": "sex", "drop": ["sex"]}, "which is to be dropped"),
        ({"group": "gender"}, "no column 'gender'"),
        ({"attributes": ["ages"]}, "no column 'ages'. Did you mean 'age'"),
    ],
)
def test_columns_that_cannot_be_groups_are_refused(settings, words, path):
    with pytest.raises(DataError, match=words):
        load(path, **settings)


def test_ten_thousand_groups_are_refused(tmp_path):
    rows = np.arange(10_000)
    frame = pl.DataFrame({"user": [f"u{row}" for row in rows], "a": rows * 0.5, "paid": rows % 2})
    frame.write_parquet(tmp_path / "t.parquet")
    with pytest.raises(DataError, match=r"'user'.*from 2 to 100 different values; found 10000"):
        load(str(tmp_path / "t.parquet"), group="user")


def test_rows_of_no_known_group_are_left_out_whatever_is_filled_in(tmp_path):
    frame = raw_table().with_columns(pl.when(pl.int_range(ROWS) < 5).then(None).otherwise("sex").alias("sex"))
    frame.write_csv(tmp_path / "t.csv")
    dataset = load(str(tmp_path / "t.csv"), group="sex", missing="indicator", group_features=True)
    assert dataset.rows == ROWS - 5
    assert dataset.feature_names[:3] == ("sex_female", "sex_male", "sex_other")


@pytest.mark.parametrize(
    "words",
    [
        ("problem=group_classification", "problem.groups=attribute", "dataset.group=sex", "solver=group_dro"),
        ("problem=group_classification", "problem.groups=attribute_and_label", "dataset.group=sex", "solver=group_dro"),
        ("problem=noisy_group_fairness", "problem.resamples=5", "dataset.group=sex", "solver=gcivr"),
        ("problem=intersectional_fairness", "problem.grid=3", "dataset.attributes=[age,income]", "solver=gcivr"),
        ("problem=kl_regression", "dataset.task=regression", "dataset.label=income", "solver=gcivr"),
    ],
)
def test_problems_run_on_a_table(words, path, run, tmp_path):
    named = ("dataset=tabular", f"dataset.path={path}", "dataset.label=paid", "budget=smoke")
    record = run(*named, *words, results=tmp_path / "results")
    assert record.status == "budget_spent"
    assert record.iterates.last.objective < float("inf")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("problem=noisy_group_fairness",), "Set `dataset.group=COLUMN`"),
        (("problem=intersectional_fairness",), "Set `dataset.attributes=[COLUMN,...]`"),
        (("problem=kl_regression",), "Set `dataset.task=regression`"),
        (("dataset.task=regression", "dataset.label=age"), "Set `dataset.task=classification`"),
    ],
)
def test_what_a_problem_needs_is_asked_for_by_a_setting_that_is_named(words, told, path, run, tmp_path):
    named = ("dataset=tabular", f"dataset.path={path}", "dataset.label=paid", "budget=smoke")
    with pytest.raises(DrobenchError, match=re.escape(told)):
        run(*named, *words, results=tmp_path / "results")


def test_groups_that_only_a_setting_of_the_problem_asks_for_are_a_recorded_failure(path, run, tmp_path):
    named = ("dataset=tabular", f"dataset.path={path}", "dataset.label=paid", "problem.groups=attribute")
    record = run(*named, "problem=group_classification", "budget=smoke", results=tmp_path / "results")
    assert record.status == "failed"
    assert "dataset=tabular has them with `dataset.group=COLUMN`" in record.reason

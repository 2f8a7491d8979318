"""How a file of a user's becomes columns."""

import numpy as np
import polars as pl
import pytest

from drobench.data.dataset import DataError
from drobench_plugins.datasets.table_file import found_separator, index_columns, read_table

WORDS = ("", "?", "na", "nan")


def written(folder, text, name="table.csv"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_the_separator_is_found(separator, tmp_path):
    frame = pl.DataFrame({"a": [1, 2, 3], "b": ["x, y", "p;q", "m|n"], "c": [0.5, 1.5, 2.5]})
    path = tmp_path / "table.csv"
    frame.write_csv(path, separator=separator)
    assert found_separator(path) == separator
    assert read_table(path, WORDS, None).equals(frame)


def test_a_separator_is_one_that_cuts_all_lines_alike(tmp_path):
    # Every line has more semicolons than commas, but not as many as the others.
    assert found_separator(written(tmp_path, "a;,b\nx;y;z,1\nx;;;z,2\n")) == ","


def test_a_line_break_inside_of_quotes_is_no_end_of_a_line(tmp_path):
    text = 'a;b\n"one, two\nthree";1\n' * 15
    assert found_separator(written(tmp_path, text)) == ";"


def test_a_single_column_and_an_empty_file_have_no_separator(tmp_path):
    assert found_separator(written(tmp_path, "a\n1\n2\n")) == ","
    assert found_separator(written(tmp_path, "")) == ","


def test_tab_separated_files_are_read(tmp_path):
    path = written(tmp_path, "a\tb\n1\tx\n2\ty\n", "table.tsv")
    assert read_table(path, WORDS, None).to_dict(as_series=False) == {"a": [1, 2], "b": ["x", "y"]}


def test_a_separator_may_be_given(tmp_path):
    path = written(tmp_path, "a,b\n1,x\n2,y\n")
    assert read_table(path, WORDS, ";").columns == ["a,b"]


@pytest.mark.parametrize("word", ["?", "NA", "na", "NaN", "nan", "", " ? ", '""'])
def test_a_number_column_with_gaps_stays_one_of_numbers(word, tmp_path):
    table = read_table(written(tmp_path, f"a,b\n1,x\n{word},y\n3.5,z\n"), WORDS, None)
    assert table["a"].dtype == pl.Float64
    assert table["a"].to_list() == [1.0, None, 3.5]


def test_which_words_are_gaps_is_a_setting(tmp_path):
    path = written(tmp_path, "a,b\n1,NA\n-9,x\n")
    table = read_table(path, ("-9",), None)
    assert table.to_dict(as_series=False) == {"a": [1, None], "b": ["NA", "x"]}


def test_texts_lose_the_spaces_around_them(tmp_path):
    table = read_table(written(tmp_path, "a,b\n 1, Private\n2,Private \n"), WORDS, None)
    assert table.to_dict(as_series=False) == {"a": [1, 2], "b": ["Private", "Private"]}


def test_kinds_of_columns(tmp_path):
    text = "whole,number,truth,text,gaps\n1,1e3,true,1x,?\n007,-0.5,False,2,\n"
    table = read_table(written(tmp_path, text), WORDS, None)
    assert table.dtypes == [pl.Int64, pl.Float64, pl.Boolean, pl.String, pl.String]
    assert table.row(1) == (7, -0.5, False, "2", None)


def test_parquet_columns_stay_what_they_say_they_are(tmp_path):
    frame = pl.DataFrame({"code": ["01", "?", "02"], "number": [1.0, float("nan"), 2.0]})
    frame.write_parquet(tmp_path / "t.parquet")
    table = read_table(tmp_path / "t.parquet", WORDS, None)
    assert table.to_dict(as_series=False) == {"code": ["01", None, "02"], "number": [1.0, None, 2.0]}


def test_a_byte_order_mark_is_no_part_of_a_name(tmp_path):
    assert read_table(written(tmp_path, "\ufeffa,b\n1,2\n"), WORDS, None).columns == ["a", "b"]


def test_a_file_with_a_pattern_for_a_name_is_that_file(tmp_path):
    written(tmp_path, "a,b\n1,2\n", "t1.csv")
    with pytest.raises(DataError, match="no file"):
        read_table(tmp_path / "t*.csv", WORDS, None)
    written(tmp_path, "c,d\n1,2\n", "t*.csv")
    assert read_table(tmp_path / "t*.csv", WORDS, None).columns == ["c", "d"]


@pytest.mark.parametrize("first", [0, 1])
def test_whole_numbers_that_number_the_rows_are_an_index(first):
    numbers = np.random.default_rng(1).permutation(20) + first
    table = pl.DataFrame({"value": np.arange(20.0), "row": numbers, "twice": np.arange(20) // 2})
    assert index_columns(table) == ["row"]


@pytest.mark.parametrize(
    "numbers", [np.arange(20) + 2, np.arange(20) * 2, np.r_[np.arange(19), 5], np.arange(20.0), np.arange(20) - 1]
)
def test_other_numbers_are_no_index(numbers):
    assert index_columns(pl.DataFrame({"value": numbers, "other": [1, 2] * 10})) == []


def test_few_rows_may_have_such_a_feature_by_chance():
    assert index_columns(pl.DataFrame({"rank": range(9)})) == []
    assert index_columns(pl.DataFrame({"rank": range(10)})) == ["rank"]


@pytest.mark.parametrize("name", ["", "Unnamed: 0", "__index_level_0__"])
def test_a_first_column_without_a_name_is_an_index(name):
    assert index_columns(pl.DataFrame({name: ["u", "v"], "x": [1, 5]})) == [name]
    assert index_columns(pl.DataFrame({"x": [1, 5], name: ["u", "v"]})) == []

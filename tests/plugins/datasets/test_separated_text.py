"""Plain tables of text: every field comes back, or the line that is wrong is named."""

import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from drobench.data.dataset import DataError
from drobench_plugins.datasets.separated_text import check_columns, numbers, read_fields

NAMES = ("a", "b", "c")
FIELDS = st.text("xyz09.-?<=>|\"' ", max_size=5)
CHECKED = settings(derandomize=True, deadline=None, max_examples=80)


def read(path, content: str, separator: str = ",", comment: str | None = None) -> pl.DataFrame:
    path.write_bytes(content.encode())
    return read_fields("toy", path, NAMES, separator, comment)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("text") / "table.data"


@CHECKED
@given(
    rows=st.lists(st.tuples(FIELDS, FIELDS, FIELDS), min_size=1, max_size=6),
    separator=st.sampled_from([",", ";", "\t"]),
    end=st.sampled_from(["\n", "\r\n", "\n\n", "\n  \n"]),
)
def test_what_was_written_is_read(path, rows, separator, end):
    lines = [separator.join(row) for row in rows]
    assume(all(line.strip() for line in lines))  # blank lines are passed over
    text = end.join(lines)
    assert read(path, text, separator).rows() == rows


@CHECKED
@given(
    counts=st.lists(st.integers(1, 5), min_size=1, max_size=8).filter(lambda counts: set(counts) != {len(NAMES)}),
)
def test_the_first_row_with_another_number_of_fields_is_named(path, counts):
    lines = [",".join("x" * count) for count in counts]
    wrong = [number for number, count in enumerate(counts, 1) if count != len(NAMES)]
    found = f"found {counts[wrong[0] - 1]} in line {wrong[0]}, and {len(wrong)} such rows in all"
    with pytest.raises(DataError) as caught:
        read(path, "\n".join(lines))
    assert found in str(caught.value)
    assert "must have 3 fields with ',' in between" in str(caught.value)


def test_remarks_are_passed_over_and_counted_as_lines(path):
    assert read(path, "|remark\n1,2,3\n", comment="|").rows() == [("1", "2", "3")]
    with pytest.raises(DataError, match="found 2 in line 3"):
        read(path, "|remark\n1,2,3\n1,2\n", comment="|")


@pytest.mark.parametrize("content", ["", "\n \n", "|only a remark\n"])
def test_a_file_without_rows_is_refused(path, content):
    with pytest.raises(DataError, match="must have at least one row"):
        read(path, content, comment="|")


def test_what_is_no_plain_text_or_not_there_is_refused(path, tmp_path):
    with pytest.raises(DataError, match="readable text file"):
        read(path, "1,2,\u00e9\n")
    with pytest.raises(DataError, match="readable text file"):
        read_fields("toy", tmp_path / "nothing", NAMES, ",")


@CHECKED
@given(st.lists(st.one_of(st.none(), st.floats(allow_nan=False), st.integers(-(2**53), 2**53)), min_size=1))
def test_numbers_come_back_and_gaps_are_null(values):
    text = ["?" if value is None else repr(value) for value in values]
    found = numbers("toy", pl.DataFrame({"a": text}), ["a"], missing="?")["a"].to_list()
    assert found == [None if value is None else float(value) for value in values]


def test_text_where_a_number_belongs_is_named():
    with pytest.raises(DataError, match=r"column 'a' must hold numbers; found 'x' in row 1, counted from 0"):
        numbers("toy", pl.DataFrame({"a": ["1", "x", "y"]}), ["a"])


def test_missing_columns_are_named():
    with pytest.raises(DataError, match=r"must have the columns a, b, c; not found: b, c\."):
        check_columns("toy", pl.DataFrame({"a": [1]}), NAMES)

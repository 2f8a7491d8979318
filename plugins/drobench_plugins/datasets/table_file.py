"""Reading a table of the user's: CSV, TSV or Parquet, with its separator found and its gaps known.

In text files every column is read as text first. Texts lose the spaces around them, those that stand for a gap become
gaps, and a column of which all others are numbers, or all truth values, is one of those. So a number column with a `?`
stays one of numbers. In Parquet files columns are what they say they are; gaps are found in texts there too.
"""

import csv
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from drobench.data.dataset import DataError
from drobench.data.encoding import cleaned_text

if TYPE_CHECKING:
    import polars as pl

SUFFIXES = (".csv", ".tsv", ".parquet")
SEPARATORS = (",", ";", "\t", "|")
_LOOKED_AT = 20
_UNNAMED = ("", "Unnamed: 0", "__index_level_0__")
# With fewer rows a feature may have such values by chance.
_FEWEST_NUMBERED = 10


def read_table(path: Path, missing_words: Sequence[str], separator: str | None) -> "pl.DataFrame":
    """Return the columns of a file as texts, numbers, truth values or what else a Parquet file has; gaps are null.

    Args:
        path: The file.
        missing_words: Texts that stand for a gap, in small letters.
        separator: What stands between the fields of a text file; `None`: it is found.

    Raises:
        DataError: There is no such file, or it cannot be read.
    """
    import polars as pl  # noqa: PLC0415
    from polars.exceptions import PolarsError  # noqa: PLC0415

    if path.suffix not in SUFFIXES:
        raise DataError(
            f"Dataset 'tabular': a .csv, .tsv or .parquet file is needed; found {path}. Convert it, or rename it."
        )
    if not path.is_file():
        raise DataError(f"Dataset 'tabular': there is no file {path.resolve()}. Check `dataset.path=`.")
    try:
        if path.suffix == ".parquet":
            table = pl.read_parquet(path, glob=False)
        else:
            between = separator or found_separator(path)
            table = pl.read_csv(path, separator=between, infer_schema=False, glob=False)
    except PolarsError as error:
        raise DataError(
            f"Dataset 'tabular': {path} cannot be read as {path.suffix}: {error}. Check the file."
        ) from error
    typed = path.suffix != ".parquet"
    return table.select(_read_column(column, missing_words, typed) for column in table.iter_columns())


def found_separator(path: Path) -> str:
    """Return the separator that cuts the first lines into most fields, as many in each; a comma if none does."""
    # What is no UTF-8 is refused by the reader, in words of its own.
    with path.open(encoding="utf-8", errors="replace", newline="") as stream:
        lines = list(itertools.islice(stream, _LOOKED_AT))

    def fields(separator: str) -> tuple[bool, int]:
        counts = [len(row) for row in csv.reader(lines, delimiter=separator) if row]
        # Text with line breaks in it may have been cut short, so the last row does not count against a separator.
        return len(set(counts[:-1])) <= 1 < max(counts, default=0), max(counts[:1], default=0)

    try:
        return max(SEPARATORS, key=fields)
    except csv.Error:
        return ","


def _read_column(column: "pl.Series", missing_words: Sequence[str], typed: bool) -> "pl.Series":
    import polars as pl  # noqa: PLC0415

    if column.dtype.is_float():
        return column.fill_nan(None)
    if column.dtype in (pl.Categorical, pl.Enum):
        column = column.cast(pl.String)
    if column.dtype != pl.String:
        return column
    texts = cleaned_text(column, missing_words)
    return _typed(texts) if typed else texts


def _typed(texts: "pl.Series") -> "pl.Series":
    """Return the texts as whole numbers, numbers or truth values, if all of them are."""
    import polars as pl  # noqa: PLC0415

    if texts.null_count() == len(texts):
        return texts
    for kind in (pl.Int64, pl.Float64):
        read = texts.cast(kind, strict=False)
        if read.null_count() == texts.null_count():
            return read.fill_nan(None) if kind == pl.Float64 else read
    truth = texts.str.to_lowercase().replace_strict({"true": True, "false": False}, default=None)
    return truth.cast(pl.Boolean) if truth.null_count() == texts.null_count() else texts


def index_columns(table: "pl.DataFrame") -> list[str]:
    """Return the columns that only number the rows.

    They are a first column without a name, or with the one that pandas gives it, and columns of whole numbers that are
    0 to n - 1 or 1 to n, each once, in a table of at least ten rows.
    """
    names = [name for name in table.columns[:1] if name in _UNNAMED]
    rows = table.height
    for column in table.iter_columns():
        if column.name in names or not column.dtype.is_integer() or rows < _FEWEST_NUMBERED or column.has_nulls():
            continue
        if column.n_unique() == rows and column.min() in (0, 1) and column.max() == column.min() + rows - 1:  # type: ignore[operator]
            names.append(column.name)
    return names

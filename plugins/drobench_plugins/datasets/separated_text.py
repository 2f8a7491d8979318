"""Reading the plain text tables of the UCI repository: no header, one row a line, a fixed number of fields.

Every line is checked to have the right number of fields before any of them is looked at, so that a wrong separator, a
missing or an extra column and a file cut short are each reported with the line they show on.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from drobench.data.dataset import DataError

if TYPE_CHECKING:
    import polars as pl


def read_fields(
    dataset: str, path: Path, names: Sequence[str], separator: str, comment: str | None = None
) -> "pl.DataFrame":
    """Return the table as text, one column for each of `names`.

    Args:
        dataset: Named in messages.
        path: The file.
        names: What the columns are called; the file itself does not say.
        separator: What stands between two fields.
        comment: Lines that begin with this are left out, as are blank lines.

    Raises:
        DataError: The file cannot be read, or a line has another number of fields.
    """
    import polars as pl  # noqa: PLC0415

    try:
        text = path.read_bytes().decode("ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"Dataset {dataset!r}: {path} must be a readable text file; found {error}.") from error
    lines = pl.DataFrame({"line": text.splitlines()}, schema={"line": pl.String}).with_row_index("number", offset=1)
    lines = lines.filter(pl.col("line").str.strip_chars() != "")
    if comment is not None:
        lines = lines.filter(~pl.col("line").str.starts_with(comment))
    if lines.is_empty():
        raise DataError(f"Dataset {dataset!r}: {path} must have at least one row; found none. Fetch the file again.")
    counts = lines["line"].str.count_matches(separator, literal=True) + 1
    bad = lines.filter(counts != len(names))
    if not bad.is_empty():
        raise DataError(
            f"Dataset {dataset!r}: every row of {path} must have {len(names)} fields with {separator!r} in between; "
            f"found {counts.filter(counts != len(names))[0]} in line {bad['number'][0]}, and {bad.height} such rows in "
            "all. Check the file and its separator."
        )
    split = lines["line"].str.split_exact(separator, len(names) - 1).struct.rename_fields(list(names))
    return split.struct.unnest()


def numbers(dataset: str, table: "pl.DataFrame", names: Sequence[str], missing: str | None = None) -> "pl.DataFrame":
    """Return the named columns as numbers; `missing` becomes null.

    Columns that hold numbers already are taken as they are.

    Raises:
        DataError: A column is not there, or a value is no number.
    """
    import polars as pl  # noqa: PLC0415

    check_columns(dataset, table, names)
    text = table.select(names)
    if missing is not None:
        text = text.with_columns(pl.col(pl.String).replace(missing, None))
    result = text.cast(pl.Float64, strict=False)
    for name in names:
        bad = result[name].is_null() & text[name].is_not_null()
        if bad.any():
            row = int(bad.arg_true()[0])
            raise DataError(
                f"Dataset {dataset!r}: column {name!r} must hold numbers; found {text[name][row]!r} in row {row}, "
                "counted from 0. Check the file."
            )
    return result


def check_columns(dataset: str, table: "pl.DataFrame", names: Sequence[str]) -> None:
    """Raise unless the table has all of the named columns.

    Raises:
        DataError: A column is missing.
    """
    absent = [name for name in names if name not in table.columns]
    if absent:
        raise DataError(
            f"Dataset {dataset!r}: the table must have the columns {', '.join(names)}; not found: {', '.join(absent)}."
        )

"""From Parquet files to a stored table, without ever holding more than a piece of it.

Rows are drawn at random by the solvers, and Parquet cannot give single rows without decoding whole pages: so the files
are read once, in order, and written as plain arrays. The label column is read twice: first to know the classes.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from drobench.data.dataset import DataError
from drobench.data.progress import OnProgress
from drobench.data.stored_table import Label, StoredTable, open_table, refuse_existing, store_table

if TYPE_CHECKING:
    import polars as pl

# Numbers in a piece: 64 MB in double precision, several row groups of a usual file.
_NUMBERS_AT_ONCE = 2**23
# More than this is a number to be predicted, or an identifier, but no class.
_MOST_CLASSES = 100


def convert_parquet(
    sources: Sequence[str],
    output: Path,
    *,
    label: str,
    drop: Sequence[str] = (),
    dtype: str = "float32",
    progress: OnProgress | None = None,
) -> StoredTable:
    """Write the rows of all files, one after the other, as one table.

    Args:
        sources: Files, folders (all their .parquet files, by name) and patterns such as `day-*.parquet`.
        output: The folder to write; must not exist.
        label: The column to predict: numbers, booleans or text. Its sorted values become the classes 0, 1, ...
        drop: Columns that are neither label nor feature.
        dtype: Precision of the features in the table, `float32` or `float64`.
        progress: Told how far it is, in rows.

    Returns:
        The table, open.

    Raises:
        DataError: There is no file, the columns do not fit, or a value cannot be used; the message says where.
    """
    refuse_existing(output)
    files = _files(sources)
    if label in drop:
        raise DataError(f"The label {label!r} cannot be dropped. Change --drop.")
    features = _feature_names(files[0], label, drop)
    for file in files:
        _check_columns(file, features, label, drop)
    at_once = max(1, _NUMBERS_AT_ONCE // (len(features) + 1))
    classes = _classes(files, label, at_once)
    lengths = {file: _length(file) for file in files}
    rows = sum(lengths.values())
    pieces = _pieces(lengths, features, label, classes, np.dtype(dtype), at_once, progress)
    store_table(output, pieces, rows=rows, columns=features, classes=classes, dtype=dtype)
    return open_table(output)


def _files(sources: Sequence[str]) -> list[Path]:
    files: list[Path] = []
    for source in sources:
        path = Path(source)
        if path.is_dir():
            found = sorted(path.glob("*.parquet"))
        elif path.is_file():
            found = [path]
        else:
            found = sorted(path.parent.glob(path.name)) if path.name else []
        if not found:
            raise DataError(
                f"There is no Parquet file {source}: neither a file, nor a folder or a pattern that has any."
            )
        files.extend(found)
    return files


def _feature_names(file: Path, label: str, drop: Sequence[str]) -> list[str]:
    names = [name for name in _schema(file) if name != label and name not in drop]
    if not names:
        raise DataError(f"{file} has no column besides the label and what is dropped. Change --drop.")
    return names


def _schema(file: Path) -> dict[str, Any]:
    import polars as pl  # noqa: PLC0415

    return dict(_read(file, lambda: pl.read_parquet_schema(file)))


def _read(file: Path, reading: Callable[[], Any]) -> Any:
    from polars.exceptions import PolarsError  # noqa: PLC0415

    try:
        return reading()
    except (PolarsError, OSError) as error:
        raise DataError(f"{file} cannot be read as Parquet: {error}. Check the file.") from error


def _check_columns(file: Path, features: list[str], label: str, drop: Sequence[str]) -> None:
    import polars as pl  # noqa: PLC0415

    schema = _schema(file)
    known = {label, *drop}
    for name in (label, *drop, *features):
        if name not in schema:
            found = ", ".join(list(schema)[:20]) + (", ..." if len(schema) > 20 else "")
            raise DataError(
                f"{file} has no column {name!r}; its columns: {found}. Check --label, --drop and the files."
            )
    further = [name for name in schema if name not in known and name not in features]
    if further:
        raise DataError(
            f"{file} has a column {further[0]!r} that the first file has not. Drop it with --drop {further[0]}."
        )
    for name in features:
        if not (schema[name].is_numeric() or schema[name] == pl.Boolean):
            raise DataError(
                f"{file}: features must be numbers or booleans; found column {name!r} of type {schema[name]}. Encode "
                f"it as numbers, or drop it with --drop {name}."
            )
    kind = schema[label]
    if not (kind.is_integer() or kind.is_float() or kind in (pl.Boolean, pl.String, pl.Categorical, pl.Enum)):
        raise DataError(f"{file}: the label must be numbers, booleans or text; found {label!r} of type {kind}.")


def _length(file: Path) -> int:
    import polars as pl  # noqa: PLC0415

    return int(_read(file, lambda: pl.scan_parquet(file).select(pl.len()).collect().item()))


def _slices(file: Path, columns: list[str], rows: int, at_once: int) -> Iterator[tuple[int, "pl.DataFrame"]]:
    """Read a file in order: the number of the first row, and some rows of the columns."""
    import polars as pl  # noqa: PLC0415

    lazy = pl.scan_parquet(file).select(columns)
    for first in range(0, rows, at_once):
        yield first, _read(file, lazy.slice(first, at_once).collect)


def _labels(frame: "pl.DataFrame", label: str, file: Path, first: int) -> "pl.Series":
    """Return the labels; a missing one is refused, and so is one that is not a number."""
    import polars as pl  # noqa: PLC0415

    labels = frame[label]
    if labels.dtype in (pl.Categorical, pl.Enum):
        labels = labels.cast(pl.String)
    if labels.dtype.is_float():
        labels = labels.fill_nan(None)
    if labels.null_count():
        row = first + int(labels.is_null().arg_max() or 0)
        raise DataError(
            f"{file}: no label may be missing; found none in row {row} of column {label!r}, counted from 0."
        )
    return labels


def _classes(files: list[Path], label: str, at_once: int) -> list[Label]:
    values: set[Label] = set()
    for file in files:
        for first, frame in _slices(file, [label], _length(file), at_once):
            values |= set(_labels(frame, label, file, first).unique().to_list())
            if len(values) > _MOST_CLASSES:
                raise DataError(
                    f"{file}: column {label!r} has more than {_MOST_CLASSES} different values: these are no classes. "
                    "Make classes of them, or check --label."
                )
    if len({isinstance(value, str) for value in values}) > 1:
        raise DataError(f"Column {label!r} is text in one file and numbers in another. Make it one kind.")
    if len(values) < 2:
        found = f"the single class {next(iter(values))!r}" if values else "no row"
        raise DataError(f"Column {label!r} must have at least two classes; found {found}. Check --label and the files.")
    return sorted(values)


def _pieces(
    lengths: dict[Path, int],
    features: list[str],
    label: str,
    classes: list[Label],
    dtype: np.dtype[Any],
    at_once: int,
    progress: OnProgress | None,
) -> Iterator[tuple[NDArray[Any], NDArray[np.uint8]]]:
    import polars as pl  # noqa: PLC0415

    for file, rows in lengths.items():
        for first, frame in _slices(file, [*features, label], rows, at_once):
            labels = _labels(frame, label, file, first)
            codes = labels.replace_strict(classes, list(range(len(classes))), return_dtype=pl.UInt8)
            yield _numbers(frame.select(features), dtype, file, first), codes.to_numpy()
            if progress is not None:
                progress(file.name, first + frame.height, rows)


def _numbers(frame: "pl.DataFrame", dtype: np.dtype[Any], file: Path, first: int) -> NDArray[Any]:
    import polars as pl  # noqa: PLC0415

    # Missing values become NaN and are found below with the others.
    numbers = frame.select(pl.all().cast(pl.Float64)).to_numpy()
    with np.errstate(over="ignore"):
        rows = np.ascontiguousarray(numbers, dtype=dtype)
    bad = ~np.isfinite(rows)
    if bad.any():
        row, column = (int(place) for place in np.argwhere(bad)[0])
        value = frame[row, column]
        large = value is not None and math.isfinite(float(value))
        raise DataError(
            f"{file}: every feature must be a finite number; found {value} in row {first + row}, column "
            f"{frame.columns[column]!r}, counted from 0. "
            + (f"It is too large for {dtype}: use --dtype float64." if large else "Drop or fill in such values.")
        )
    return rows

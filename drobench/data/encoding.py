"""Frames of raw columns, of polars, of pandas or a mapping, and the numbers that an encoder makes of them."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from drobench.data.dataset import DataError
from drobench.data.encoder import UNKNOWN_CODE, Column, TableEncoder

if TYPE_CHECKING:
    import polars as pl

_TRUTH = {"true": 1.0, "false": 0.0, "1": 1.0, "0": 0.0}
_SHOWN = 20


def is_frame(rows: Any) -> bool:
    """Whether rows come as columns with names, and not as a matrix."""
    return isinstance(rows, Mapping) or hasattr(rows, "columns")


def encode(encoder: TableEncoder, frame: Any) -> NDArray[np.float64]:
    """Return the features of raw rows, `(rows, features)`, before they are scaled.

    Columns that the encoder does not know are not looked at; their order does not matter.

    Raises:
        DataError: A column is missing or of another kind, a gap or a category is refused, a number is not finite.
    """
    coded = coded_columns(encoder, frame)
    gaps = np.isnan(coded)
    for number, column in enumerate(encoder.columns):
        if not column.takes_gaps and gaps[:, number].any():
            raise DataError(
                f"Column {column.name!r}: no value may be missing, since none was in training; found "
                f"{int(gaps[:, number].sum())} of {len(coded)} missing, the first in row "
                f"{int(np.argmax(gaps[:, number]))}, counted from 0. Fill them in, or train with "
                "`dataset.missing=impute` or `indicator`."
            )
    return encoder.expansion().apply(coded)


def coded_columns(encoder: TableEncoder, frame: Any) -> NDArray[np.float64]:
    """Return raw rows as numbers, `(rows, raw columns)`: categories by position, gaps as NaN.

    Raises:
        DataError: A column is missing or of another kind, a category is refused, a number is not finite.
    """
    names = list(frame) if isinstance(frame, Mapping) else [str(name) for name in frame.columns]
    absent = [column.name for column in encoder.columns if column.name not in names]
    if absent:
        found = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
        raise DataError(
            f"The frame needs the columns of training; found none called {', '.join(map(repr, absent[:_SHOWN]))}. Its "
            f"columns: {found}. Add them, or correct their names."
        )
    coded = [_coded(encoder, column, series_of(frame, column.name)) for column in encoder.columns]
    lengths = {len(column) for column in coded}
    if len(lengths) > 1:
        raise DataError(f"The columns of a frame must be of one length; found {sorted(lengths)}.")
    return np.column_stack(coded)


def series_of(frame: Any, name: str) -> "pl.Series":
    """Return a column of a frame; what pandas takes for missing is null."""
    import polars as pl  # noqa: PLC0415  # slow to load, and matrices do not need it

    column = frame[name]
    if isinstance(column, pl.Series):
        return column
    if hasattr(column, "notna"):
        column = column.astype(object).where(column.notna(), None).tolist()
    values = [value.item() if isinstance(value, np.generic) else value for value in column]
    if any(isinstance(value, str) for value in values):
        # Of mixed values all are texts: to decide by the first would lose the others.
        values = [None if _is_gap(value) else str(value) for value in values]
    return pl.Series(name, values, strict=False)


def _is_gap(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def cleaned_text(texts: "pl.Series", missing_words: Sequence[str]) -> "pl.Series":
    """Return texts without spaces around them, and null where one stands for a gap."""
    stripped = texts.str.strip_chars()
    gap = stripped.str.to_lowercase().is_in(list(missing_words))
    # `set` wants a mask without nulls.
    return stripped.set(gap.fill_null(False), None)


def _coded(encoder: TableEncoder, column: Column, values: "pl.Series") -> NDArray[np.float64]:
    import polars as pl  # noqa: PLC0415

    if values.dtype in (pl.Categorical, pl.Enum):
        values = values.cast(pl.String)
    if values.dtype == pl.String:
        values = cleaned_text(values, encoder.missing_words)
    elif not (values.dtype.is_numeric() or values.dtype in (pl.Boolean, pl.Null)):
        raise _wrong(column, f"values of type {values.dtype}")
    coders = {"number": _numbers, "boolean": _truth_values, "category": _positions}
    found = coders[column.kind](column, values, encoder.unseen == "refuse")
    if np.isinf(found).any():
        row = int(np.argmax(np.isinf(found)))
        raise DataError(
            f"Column {column.name!r}: every number must be finite; found {found[row]} in row {row}, counted from 0. "
            "Drop or fill in such values."
        )
    return found


def _numbers(column: Column, values: "pl.Series", _: bool) -> NDArray[np.float64]:
    import polars as pl  # noqa: PLC0415

    numbers = values.cast(pl.Float64, strict=False)
    _refuse_lost(column, values, numbers.is_null())
    return _array(numbers)


def _truth_values(column: Column, values: "pl.Series", _: bool) -> NDArray[np.float64]:
    import polars as pl  # noqa: PLC0415

    if values.dtype == pl.String:
        known = values.str.to_lowercase().replace_strict(_TRUTH, default=None, return_dtype=pl.Float64)
    else:
        known = values.cast(pl.Float64)
    _refuse_lost(column, values, known.is_null() | ~(known.is_in([0.0, 1.0]) | known.is_nan()))
    return _array(known)


def _positions(column: Column, values: "pl.Series", refuse: bool) -> NDArray[np.float64]:
    import polars as pl  # noqa: PLC0415

    gap = values.is_null() | (values.is_nan() if values.dtype.is_float() else False)
    places = {value: float(place) for place, value in enumerate(column.categories)}
    codes = values.cast(pl.String).replace_strict(places, default=UNKNOWN_CODE, return_dtype=pl.Float64)
    unseen = (codes == UNKNOWN_CODE) & ~gap
    if refuse and bool(unseen.any()):
        raise DataError(
            f"Column {column.name!r}: only categories of training rows are taken; found {values.filter(unseen)[0]!r} "
            f"in row {int(unseen.arg_true()[0])}, counted from 0. Correct it, or train with `dataset.unseen=zeros`."
        )
    return _array(codes.set(gap, None))


def _array(values: "pl.Series") -> NDArray[np.float64]:
    import polars as pl  # noqa: PLC0415

    return np.asarray(values.cast(pl.Float64).fill_null(math.nan).to_numpy(), dtype=np.float64)


def _refuse_lost(column: Column, values: "pl.Series", lost: "pl.Series") -> None:
    """Raise where a value is there and could not be read."""
    bad = lost & values.is_not_null()
    if bool(bad.any()):
        row = int(bad.arg_true()[0])
        raise _wrong(column, f"{values[row]!r} in row {row}, counted from 0")


def _wrong(column: Column, found: str) -> DataError:
    kind = {"number": "numbers", "boolean": "truth values", "category": "texts or numbers"}[column.kind]
    return DataError(f"Column {column.name!r}: {kind} are needed, as in training; found {found}. Correct the column.")

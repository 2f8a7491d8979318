"""What the columns of a user's table are: labels or targets, groups, attributes, features; or why they cannot be."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from drobench.data.dataset import DataError
from drobench.data.encoder import Label
from drobench.registry.hints import did_you_mean

if TYPE_CHECKING:
    import polars as pl

# One indicator per value is for categories, not for names or free text; groups and classes are few, too.
MOST_CATEGORIES = 100


@dataclass(frozen=True, eq=False)
class Answers:
    """The column to predict.

    Attributes:
        values: Its values.
        classes: The distinct ones, sorted; `None` where they are numbers to be predicted.
        codes: For each row the position of its value among them.
    """

    values: NDArray[Any]
    classes: list[Label] | None = None
    codes: NDArray[np.int64] | None = None


def answers_of(column: "pl.Series", path: str, *, regression: bool) -> Answers:
    """Return labels or targets; checked here, where the values still have their names."""
    values = column.to_numpy()
    if column.dtype.is_float() and not np.isfinite(values).all():
        raise DataError(
            f"Dataset 'tabular': column {column.name!r} of {path}, which is to be predicted, must be finite; found "
            f"{int((~np.isfinite(values)).sum())} infinite values, the first in row "
            f"{int(np.argmin(np.isfinite(values)))} of those in use, counted from 0. Leave these rows out of the file."
        )
    if regression:
        if not column.dtype.is_numeric():
            raise DataError(
                f"Dataset 'tabular': `dataset.task=regression` needs a label of numbers; found {column.name!r} of type "
                f"{column.dtype}. Check `dataset.label=`, or set `dataset.task=classification`."
            )
        return Answers(values.astype(np.float64))
    classes, codes = np.unique(values, return_inverse=True)
    if len(classes) < 2:
        raise DataError(
            f"Dataset 'tabular': column {column.name!r} of {path} must have at least two classes; found the single "
            f"class {classes[0]}. Check `dataset.label=`."
        )
    if len(classes) > MOST_CATEGORIES:
        advice = (
            "If they are a quantity, set `dataset.task=regression`; else make fewer classes of them"
            if column.dtype.is_numeric()
            else "Make fewer classes of them"
        )
        raise DataError(
            f"Dataset 'tabular': column {column.name!r} of {path} has {len(classes)} different values, more than "
            f"{MOST_CATEGORIES}: these are no classes. {advice}, or check `dataset.label=`."
        )
    return Answers(values, classes.tolist(), codes.astype(np.int64))


def groups_of(column: "pl.Series", path: str) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return the number of the group of each row, and the names of the groups, in the order of their values."""
    values = column.unique().sort()
    if not 2 <= len(values) <= MOST_CATEGORIES:
        raise DataError(
            f"Dataset 'tabular': column {column.name!r} of {path}, of which groups are to be made, must have from 2 to "
            f"{MOST_CATEGORIES} different values; found {len(values)}. Make a column of fewer values of it, or, if it "
            f"has numbers, cut groups out of it by thresholds: `dataset.attributes=[{column.name}]`."
        )
    names = tuple(str(value) for value in values.to_list())
    return column.rank("dense").to_numpy().astype(np.int64) - 1, names


def attributes_of(table: "pl.DataFrame", path: str) -> NDArray[np.float64]:
    """Return the columns as numbers."""
    for column in table.iter_columns():
        if not column.dtype.is_numeric():
            raise DataError(
                f"Dataset 'tabular': attributes are cut by thresholds and must be numbers; found {column.name!r} of "
                f"{path} with the type {column.dtype}. Use it as `dataset.group={column.name}`."
            )
    return table.to_numpy().astype(np.float64)


def check_columns(table: "pl.DataFrame", wanted: list[str], path: str) -> None:
    """Raise unless the table has the columns."""
    for name in wanted:
        if name not in table.columns:
            found = ", ".join(table.columns[:20]) + (", ..." if len(table.columns) > 20 else "")
            raise DataError(
                f"Dataset 'tabular': {path} has no column {name!r}.{did_you_mean(name, table.columns)} "
                f"Its columns: {found}. Check the names, and the separator of the file (`dataset.separator=`)."
            )


def check_kinds(table: "pl.DataFrame", path: str) -> None:
    """Raise unless all columns can be features."""
    import polars as pl  # noqa: PLC0415

    if not table.columns:
        raise DataError(f"Dataset 'tabular': at least one column must be left as a feature; found none in {path}.")
    for column in table.iter_columns():
        if column.dtype == pl.String:
            values = column.n_unique()
            if values > MOST_CATEGORIES:
                raise DataError(
                    f"Dataset 'tabular': column {column.name!r} of {path} is text with {values} different values, more "
                    f"than {MOST_CATEGORIES}: that is no category. Drop it with `dataset.drop=[{column.name}]`, or "
                    "encode it yourself."
                )
        elif not (column.dtype.is_numeric() or column.dtype == pl.Boolean):
            raise DataError(
                f"Dataset 'tabular': features must be numbers, booleans or text; found {column.name!r} of type "
                f"{column.dtype}. Drop it with `dataset.drop=`, or convert it."
            )


def without_missing(table: "pl.DataFrame", named: list[str], missing: str) -> tuple["pl.DataFrame", list[str]]:
    """Return the rows that are used, and what to say of the others.

    Args:
        table: All rows.
        named: The columns in which a gap is never filled in.
        missing: The setting.
    """
    counts = {name: count for name, count in table.null_count().row(0, named=True).items() if count}
    if not counts:
        return table, []
    if missing == "refuse":
        worst = max(counts, key=lambda name: counts[name])
        raise DataError(
            f"Dataset 'tabular': no value may be missing; found {counts[worst]} missing in column {worst!r} and gaps "
            f"in {len(counts)} columns in all. Fill them in, drop the columns with `dataset.drop=`, or set "
            "`dataset.missing=` to `impute`, `indicator` or `drop_rows`."
        )
    complete = table.drop_nulls() if missing == "drop_rows" else table.drop_nulls(named)
    lost = table.height - complete.height
    what = "a value" if missing == "drop_rows" else "label, group or attribute"
    return complete, [f"Left out: {lost} of {table.height} rows without {what}."] if lost else []

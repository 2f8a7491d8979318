"""An encoder made from training rows: what stands for gaps, and which categories there are."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from drobench.data.dataset import DataError
from drobench.data.encoder import Column

if TYPE_CHECKING:
    import polars as pl

FILLING = ("impute", "indicator")


def fit_columns(name: str, train: "pl.DataFrame", missing: str) -> tuple[Column, ...]:
    """Return how the columns of these rows become features.

    Numbers and booleans are themselves; other columns are categories, the distinct texts in alphabetical order. With
    `impute`, gaps become the median of the numbers, or the most frequent value (of equally frequent ones the first).
    With `indicator`, columns with gaps in training rows also get an indicator of the gap, and gaps of categories become
    that alone. Otherwise gaps are not known.

    Args:
        name: The dataset's name, for messages.
        train: The training rows.
        missing: `impute`, `indicator` or anything else.

    Raises:
        DataError: A column has nothing but gaps.
    """
    return tuple(_fit(name, series, missing) for series in train.iter_columns())


def _fit(name: str, values: "pl.Series", missing: str) -> Column:
    import polars as pl  # noqa: PLC0415

    present = values.drop_nulls()
    if present.is_empty():
        raise DataError(
            f"Dataset {name!r}: column {values.name!r} must have a value in some training row; found gaps alone. Drop "
            f"it with `dataset.drop=[{values.name}]`."
        )
    fills, flagged = missing in FILLING, missing == "indicator" and len(present) < len(values)
    if values.dtype == pl.String:
        categories: Sequence[str] = present.unique().sort().to_list()
        fill = float(categories.index(_most_frequent(present))) if fills and not flagged else None
        return Column(values.name, "category", tuple(categories), fill, flagged)
    if values.dtype == pl.Boolean:
        return Column(values.name, "boolean", (), float(_most_frequent(present)) if fills else None, flagged)
    median = present.cast(pl.Float64).median() if fills else None
    assert median is None or isinstance(median, float)
    return Column(values.name, "number", (), median, flagged)


def _most_frequent(present: "pl.Series") -> "str | bool":
    import polars as pl  # noqa: PLC0415

    # `mode` gives all that are equally frequent, in no order.
    value: str | bool = pl.Series(present.mode()).sort()[0]
    return value

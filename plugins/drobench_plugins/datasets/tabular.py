"""Your own table: any CSV or Parquet file with one row per sample and a label column.

Numbers and booleans become one feature each, text columns one indicator per value. Labels may be numbers or text; their
sorted distinct values become the classes 0, 1, ...
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from drobench.data.build import build_dataset
from drobench.data.dataset import DataError, Dataset, DatasetConfig
from drobench.errors import require_one_of
from drobench.registry.entries import DatasetEntry
from drobench.registry.hints import did_you_mean

if TYPE_CHECKING:
    import polars as pl

_SUFFIXES = (".csv", ".parquet")
# One indicator per value is for categories, not for names or free text.
_MOST_CATEGORIES = 100


@dataclass
class TabularConfig(DatasetConfig):
    """Settings of a table."""

    path: str | None = None
    """The file, ending in .csv or .parquet."""
    label: str | None = None
    """The column to predict."""
    drop: list[str] = field(default_factory=list)
    """Columns that are neither label nor feature, such as identifiers."""
    missing: str = "refuse"
    """What to do with missing values: `refuse`, or `drop_rows`."""

    def __post_init__(self) -> None:
        """Refuse impossible values."""
        super().__post_init__()
        require_one_of(self, "missing", ("refuse", "drop_rows"))


def load_tabular_dataset(config: TabularConfig) -> Dataset:
    """Return the table as a dataset."""
    if config.path is None or config.label is None:
        raise DataError(
            "Dataset 'tabular': a file and its label column are needed; found "
            f"path={config.path} and label={config.label}. Set `dataset.path=FILE dataset.label=COLUMN`."
        )
    if config.label in config.drop:
        raise DataError(f"Dataset 'tabular': the label {config.label!r} cannot be dropped. Change `dataset.drop=`.")
    table = _read(Path(config.path))
    _check_columns(table, [config.label, *config.drop], config.path)
    table = _without_missing(table.drop(config.drop), config.label, config.missing)
    labels = _codes(table, config.label, config.path)
    features = _numeric(table.drop(config.label), config.path)
    return build_dataset("tabular", features.to_numpy(), labels, config, feature_names=tuple(features.columns))


def _codes(table: "pl.DataFrame", label: str, path: str) -> np.ndarray:
    """Return the class number of each row; checked here, where the values still have their names."""
    values, codes = np.unique(table[label].to_numpy(), return_inverse=True)
    if table.height == 0:
        raise DataError(f"Dataset 'tabular': {path} has no row without missing values. Fill them in.")
    if len(values) < 2:
        raise DataError(
            f"Dataset 'tabular': column {label!r} of {path} must have at least two classes; found the single class "
            f"{values[0]}. Check `dataset.label=`."
        )
    if len(values) > _MOST_CATEGORIES:
        raise DataError(
            f"Dataset 'tabular': column {label!r} of {path} has {len(values)} different values, more "
            f"than {_MOST_CATEGORIES}: these are no classes. Make classes of them, or check `dataset.label=`."
        )
    return codes


def _read(path: Path) -> "pl.DataFrame":
    import polars as pl  # noqa: PLC0415
    from polars.exceptions import PolarsError  # noqa: PLC0415

    if path.suffix not in _SUFFIXES:
        raise DataError(
            f"Dataset 'tabular': a .csv or .parquet file is needed; found {path}. Convert it, or rename it."
        )
    if not path.is_file():
        raise DataError(f"Dataset 'tabular': there is no file {path.resolve()}. Check `dataset.path=`.")
    try:
        # Types are decided by the whole file: a column may turn into text late.
        table = pl.read_csv(path, infer_schema_length=None) if path.suffix == ".csv" else pl.read_parquet(path)
    except PolarsError as error:
        raise DataError(
            f"Dataset 'tabular': {path} cannot be read as {path.suffix}: {error}. Check the file."
        ) from error
    return table


def _check_columns(table: "pl.DataFrame", wanted: list[str], path: str) -> None:
    for name in wanted:
        if name not in table.columns:
            found = ", ".join(table.columns[:20]) + (", ..." if len(table.columns) > 20 else "")
            raise DataError(
                f"Dataset 'tabular': {path} has no column {name!r}.{did_you_mean(name, table.columns)} "
                f"Its columns: {found}. Check the names, and the separator of the file."
            )


def _without_missing(table: "pl.DataFrame", label: str, missing: str) -> "pl.DataFrame":
    import polars as pl  # noqa: PLC0415

    # A label that is not a number is missing, not a class of its own; a feature that is not one is refused later.
    if table[label].dtype.is_float():
        table = table.with_columns(pl.col(label).fill_nan(None))
    counts = {name: count for name, count in table.null_count().row(0, named=True).items() if count}
    if not counts:
        return table
    if missing == "drop_rows":
        return table.drop_nulls()
    worst = max(counts, key=lambda name: counts[name])
    raise DataError(
        f"Dataset 'tabular': no value may be missing; found {counts[worst]} missing in column {worst!r} and gaps in "
        f"{len(counts)} columns in all. Fill them in, drop the columns with `dataset.drop=`, or set "
        "`dataset.missing=drop_rows`."
    )


def _numeric(table: "pl.DataFrame", path: str) -> "pl.DataFrame":
    """Turn text into indicators and everything else into numbers."""
    import polars as pl  # noqa: PLC0415

    texts = [name for name, kind in table.schema.items() if kind in (pl.String, pl.Categorical, pl.Enum)]
    for name in texts:
        values = table[name].n_unique()
        if values > _MOST_CATEGORIES:
            raise DataError(
                f"Dataset 'tabular': column {name!r} of {path} is text with {values} different values, more than "
                f"{_MOST_CATEGORIES}: that is no category. Drop it with `dataset.drop=[{name}]`, or encode it yourself."
            )
    others = [name for name, kind in table.schema.items() if not (kind.is_numeric() or kind == pl.Boolean)]
    strange = [name for name in others if name not in texts]
    if strange:
        raise DataError(
            f"Dataset 'tabular': features must be numbers, booleans or text; found {strange[0]!r} of type "
            f"{table.schema[strange[0]]}. Drop it with `dataset.drop=`, or convert it."
        )
    indicators = [f"{name}_{value}" for name in texts for value in table[name].unique()]
    taken = [name for name in indicators if name in table.columns]
    if taken:
        raise DataError(
            f"Dataset 'tabular': the indicator {taken[0]!r} of a text column has the name of another column of {path}. "
            "Rename one of them."
        )
    return table.to_dummies(texts).cast(pl.Float64)


def entry() -> DatasetEntry:
    """Return the catalogue entry."""
    return DatasetEntry(
        name="tabular",
        summary="Your own CSV or Parquet file: dataset.path=FILE dataset.label=COLUMN.",
        reference="a file of the user's",
        config=TabularConfig,
        factory=load_tabular_dataset,
        # How many classes there are is seen only in the file, and checked when it is loaded.
        provides=frozenset({"labels", "binary_labels"}),
    )

"""Communities and Crime: which of 1,994 communities of the United States have much violent crime.

A community counts as positive if its rate of violent crimes is at or above the 70th percentile of all rows. Features
are the 122 numeric predictors, with zeros for gaps, and an indicator of the gap for each of the 23 that have any.
Groups are not given but cut out by thresholds on three shares of the population, which are the attributes.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from drobench.data.build import build_dataset
from drobench.data.cache import RemoteFile, require
from drobench.data.dataset import DataError, Dataset, DatasetConfig
from drobench.registry.entries import DatasetEntry
from drobench_plugins.datasets.communities_columns import COLUMNS, INCOMPLETE, PREDICTORS, TARGET
from drobench_plugins.datasets.separated_text import numbers, read_fields

if TYPE_CHECKING:
    import polars as pl

NAME = "communities_crime"
ATTRIBUTES = ("racepctblack", "racePctAsian", "racePctHisp")
_POSITIVE_QUANTILE = 0.7
_MISSING = "?"

FILES = (
    RemoteFile(
        "communities.data",
        "09e0b5c07eae24c1efab19b2edee05e160e7f5743b6f31e31eec3d73624da2ea",
        1_102_815,
        (
            "https://archive.ics.uci.edu/ml/machine-learning-databases/communities/communities.data",
            "https://archive.ics.uci.edu/static/public/183/communities+and+crime.zip",
        ),
    ),
)


@dataclass
class CommunitiesCrimeConfig(DatasetConfig):
    """Settings of `communities_crime`.

    Attributes:
        split: Half for training, a quarter each for validation and test.
        standardize: Off by default: the publisher has scaled every predictor to [0, 1].
    """

    split: list[float] = field(default_factory=lambda: [0.5, 0.25, 0.25])
    standardize: bool = False


def load_communities_crime(config: CommunitiesCrimeConfig) -> Dataset:
    """Load the real data from the cache."""
    (path,) = require(NAME, FILES, twin="communities_twin")
    return communities_dataset(NAME, read_table(path), config)


def read_table(path: Path) -> "pl.DataFrame":
    """Return the rows of the publisher's file as text.

    Raises:
        DataError: The file is not in the publisher's format.
    """
    return read_fields(NAME, path, COLUMNS, ",")


def communities_dataset(
    name: str, table: "pl.DataFrame", config: CommunitiesCrimeConfig, *, twin: bool = False
) -> Dataset:
    """Turn a raw table, real or synthetic, into a dataset."""
    features, feature_names, labels, attributes = encode(table)
    return build_dataset(
        name,
        features,
        labels,
        config,
        feature_names=feature_names,
        provides=frozenset({"attributes"}),
        twin=twin,
        columns={"attributes": attributes},
    )


def encode(
    table: "pl.DataFrame",
) -> tuple[NDArray[np.float64], tuple[str, ...], NDArray[np.int64], NDArray[np.float64]]:
    """Turn a raw table into arrays.

    Args:
        table: The predictors and the target, as text with `?` for a gap, or as numbers with null. The identifiers are
            not looked at.

    Returns:
        The features, 122 predictors and 23 indicators of gaps; their names; the labels; the attributes, the shares of
        black, Asian and Hispanic inhabitants, each from 0 to 1.

    Raises:
        DataError: A column is missing, a value is no number, or there is a gap where none is known.
    """
    import polars as pl  # noqa: PLC0415

    values = numbers(NAME, table, [*PREDICTORS, TARGET], missing=_MISSING)
    _check_gaps(values)
    target = values[TARGET].to_numpy()
    labels = (target >= np.quantile(target, _POSITIVE_QUANTILE)).astype(np.int64)
    gaps = values.select(pl.col(INCOMPLETE).is_null()).to_numpy()
    predictors = values.select(PREDICTORS).fill_null(0.0)
    features = np.hstack([predictors.to_numpy(), gaps.astype(np.float64)])
    names = (*PREDICTORS, *(f"{name}_missing" for name in INCOMPLETE))
    return features, names, labels, predictors.select(ATTRIBUTES).to_numpy()


def _check_gaps(values: "pl.DataFrame") -> None:
    for name in values.columns:
        gaps = values[name].null_count()
        if gaps and name not in INCOMPLETE:
            raise DataError(
                f"Dataset {NAME!r}: column {name!r} must have no gap; found {gaps} missing values. Check that the "
                "columns are in the order of the publisher."
            )


def entry() -> DatasetEntry:
    """The catalogue entry."""
    return DatasetEntry(
        name=NAME,
        summary="Communities and Crime: 1,994 communities, 145 features, groups by thresholds; to be fetched.",
        reference="M. Redmond (2002). Communities and Crime. UCI Machine Learning Repository, doi:10.24432/C53W3X.",
        config=CommunitiesCrimeConfig,
        factory=load_communities_crime,
        provides=frozenset({"labels", "binary_labels", "attributes"}),
        files=FILES,
        licence="CC BY 4.0",
    )

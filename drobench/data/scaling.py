"""Columns with mean 0 and deviation 1, as far as the training rows alone can tell."""

import numpy as np
from numpy.typing import NDArray

from drobench.data.dataset import DataError
from drobench.data.raw_table import RawTable


def mean_and_deviation(seen: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and population deviation of each column; a constant column is only centred."""
    with np.errstate(over="ignore", invalid="ignore"):
        mean, deviation = seen.mean(axis=0), seen.std(axis=0)
    # Compared by value: the deviation of a constant such as 0.1 is a rounding error, not zero.
    constant = (seen == seen[0]).all(axis=0)
    return np.where(constant, seen[0], mean), np.where(constant, 1.0, deviation)


def standardized(
    name: str, table: RawTable, mean: NDArray[np.float64], scale: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The features with mean 0 and population deviation 1 in each column of the training rows.

    Raises:
        DataError: A column is too large or too small for that.
    """
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        result: NDArray[np.float64] = (table.features - mean) / scale
    bad = ~np.isfinite(result).all(axis=0)
    if bad.any():
        column = int(np.argmax(bad))
        largest = np.abs(table.features[:, column]).max()
        raise DataError(
            f"Dataset {name!r}: standardized features must be finite; found that column {column} "
            f"({table.feature_names[column]!r}), counted from 0, with values up to {largest:.3g}, is too large or too "
            "small for its deviation to be computed. Rescale it or set `dataset.standardize=false`."
        )
    return result

"""What a loader brings: arrays that are checked before anything is made of them.

Damaged data are refused with a message that names the culprit, in the words of whoever made the file.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drobench.data.dataset import DataError, Split

# Booleans, whole numbers with and without sign, and floating point.
_NUMBER_KINDS = "biuf"


@dataclass(frozen=True, eq=False)
class RawTable:
    """Arrays that fit each other, of finite numbers.

    Attributes:
        features: One row per sample, `(n, d)`.
        feature_names: One name per column.
        classes: The sorted distinct labels; none where the targets are numbers.
        codes: For each row the position of its label among them, `(n,)`; zeros where there are none.
        further: Further fields of the splits by name, one entry or row per sample.
    """

    features: NDArray[np.float64]
    feature_names: tuple[str, ...]
    classes: NDArray[Any]
    codes: NDArray[np.int64]
    further: Mapping[str, NDArray[Any]]

    @property
    def rows(self) -> int:
        """Number of samples."""
        return int(self.features.shape[0])

    @property
    def has_classes(self) -> bool:
        """Whether rows are of classes; if not, their targets are numbers."""
        return len(self.classes) > 0


def check_table(
    name: str,
    features: NDArray[Any],
    labels: NDArray[Any] | None,
    feature_names: Sequence[str] | None = None,
    further: Mapping[str, NDArray[Any]] | None = None,
) -> RawTable:
    """Return the arrays of the dataset `name` in one form; none of them shares memory with its source.

    Raises:
        DataError: The arrays do not describe a dataset for classification or, without labels, for regression.
    """
    matrix = _checked_matrix(name, np.asarray(features))
    rows, columns = matrix.shape
    names = _checked_names(name, columns, feature_names)
    _check_finite(name, matrix, names)
    named = _checked_fields(name, further)
    checked = {field: _checked_column(name, field, column, rows) for field, column in named.items()}
    if labels is None:
        checked["targets"] = _checked_targets(name, checked.get("targets"), rows)
        return RawTable(matrix, names, np.zeros(0), np.zeros(rows, dtype=np.int64), checked)
    classes, codes = _class_codes(name, np.asarray(labels), rows)
    return RawTable(matrix, names, classes, codes, checked)


def _checked_fields(name: str, further: Any) -> Mapping[str, NDArray[Any]]:
    if further is not None and not isinstance(further, Mapping):
        raise DataError(
            f"Dataset {name!r}: columns must be a mapping from names to arrays; found {further!r}. Pass the arrays "
            "themselves, such as columns={'targets': targets}."
        )
    known = [item.name for item in dataclasses.fields(Split) if item.default is None]
    strange = [field for field in further or {} if field not in known]
    if strange:
        raise DataError(
            f"Dataset {name!r}: columns can be {', '.join(known)}; found {strange[0]!r}. Rename it, or make it a "
            "column of the features."
        )
    return further or {}


def _checked_targets(name: str, targets: NDArray[Any] | None, rows: int) -> NDArray[np.float64]:
    if targets is None or targets.shape != (rows,):
        found = "none" if targets is None else f"an array of shape {targets.shape}"
        raise DataError(
            f"Dataset {name!r}: without labels, one target for each of the {rows} rows is needed; found {found}. Pass "
            "labels, or columns={'targets': ...}."
        )
    if targets.min() == targets.max():
        raise DataError(
            f"Dataset {name!r}: targets must not all be the same; found {targets[0]} in all {rows} rows. Check the "
            "column of the targets, or take more rows."
        )
    return targets.astype(np.float64)


def _checked_matrix(name: str, features: NDArray[Any]) -> NDArray[np.float64]:
    if features.ndim != 2 or features.shape[1] == 0:
        raise DataError(
            f"Dataset {name!r}: features must be a matrix with one row per sample and at least one column; "
            f"found shape {features.shape}. Check how the file is read."
        )
    if features.shape[0] == 0:
        raise DataError(
            f"Dataset {name!r}: at least one row is needed; found zero rows. Check the source file and any filter."
        )
    if features.dtype.kind not in _NUMBER_KINDS:
        raise DataError(
            f"Dataset {name!r}: features must be real numbers; found an array of type {features.dtype}. "
            "Encode text columns as numbers."
        )
    # Row-major order makes sums over rows run in the same order everywhere, and with them the checksum.
    return np.array(features, dtype=np.float64, order="C")


def _checked_names(name: str, columns: int, feature_names: Sequence[str] | None) -> tuple[str, ...]:
    if feature_names is None:
        return tuple(f"x{column}" for column in range(1, columns + 1))
    if len(feature_names) != columns:
        raise DataError(
            f"Dataset {name!r}: each of the {columns} columns of the features needs one name; found "
            f"{len(feature_names)} names. Check the list of columns."
        )
    return tuple(str(item) for item in feature_names)


def _check_finite(name: str, matrix: NDArray[np.float64], names: tuple[str, ...]) -> None:
    bad = ~np.isfinite(matrix)
    if not bad.any():
        return
    row, column = (int(position) for position in np.argwhere(bad)[0])
    raise DataError(
        f"Dataset {name!r}: every feature must be finite; found {int(bad.sum())} of {matrix.size} values NaN "
        f"or infinite, the first in row {row}, column {column} ({names[column]!r}), counted from 0: "
        f"{matrix[row, column]}. Drop or fill in these values."
    )


def _class_codes(name: str, labels: NDArray[Any], rows: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The sorted distinct labels, and for each row the position of its label among them."""
    if labels.shape != (rows,):
        raise DataError(
            f"Dataset {name!r}: one label for each of the {rows} rows of features is needed; found labels of "
            f"shape {labels.shape}. Check that both come from the same rows."
        )
    _check_integral(name, labels)
    values, codes = np.unique(labels, return_inverse=True)
    if len(values) < 2:
        raise DataError(
            f"Dataset {name!r}: at least two classes are needed; found the single class {values[0]} in all "
            f"{rows} rows. Check the label column, or take more rows."
        )
    return values, codes.astype(np.int64)


def _check_integral(name: str, labels: NDArray[Any]) -> None:
    if labels.dtype.kind not in _NUMBER_KINDS:
        raise DataError(
            f"Dataset {name!r}: labels must be whole numbers; found an array of type {labels.dtype}. Encode "
            "the classes as 0, 1, ..."
        )
    if labels.dtype.kind != "f":
        return
    bad = ~(np.isfinite(labels) & (labels == np.floor(labels)))
    if bad.any():
        row = int(np.argmax(bad))
        raise DataError(
            f"Dataset {name!r}: labels must be whole numbers; found {int(bad.sum())} of {labels.size} that "
            f"are not, the first in row {row}, counted from 0: {labels[row]}. Encode the classes as 0, 1, ..."
        )


def _checked_column(name: str, field: str, column: NDArray[Any], rows: int) -> NDArray[Any]:
    array = np.asarray(column)
    if array.shape[:1] != (rows,) or array.dtype.kind not in _NUMBER_KINDS:
        raise DataError(
            f"Dataset {name!r}: {field} must be numbers, one entry for each of the {rows} rows; found an array of "
            f"type {array.dtype} and shape {array.shape}. Check how it is read."
        )
    if not np.isfinite(array).all():
        raise DataError(
            f"Dataset {name!r}: {field} must be finite; found {int((~np.isfinite(array)).sum())} values NaN or "
            "infinite. Drop or fill in these values."
        )
    return array.astype(np.float64 if array.dtype.kind == "f" else np.int64)

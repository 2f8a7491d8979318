"""What a dataset is, and how raw arrays become one.

A loader only has to produce a matrix of features and a vector of labels. `assemble` does the rest in the same
way for every dataset: it refuses damaged data with a message that names the culprit, splits the rows by
class, standardizes with what the training rows alone reveal, and computes the checksum that becomes part of a
run's identity.
"""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from drobench.errors import DrobenchError, SettingError, require_one_of

# Fractions such as 0.6 + 0.2 + 0.2 miss 1 by a rounding error; anything closer than this counts as exact.
_FRACTION_TOLERANCE = 1e-9
_LARGEST_SEED = 2**63 - 1
_SPLIT_NAMES = ("train", "validation", "test")


class DataError(DrobenchError):
    """The data themselves cannot be used, whatever the settings of the run."""


# Compared by identity: the generated `==` would ask a whole tensor for one truth value.
@dataclass(frozen=True, eq=False)
class Split:
    """Rows that are used together: for training, for validation or for the final test.

    A further kind of information per row is a further optional field that holds a tensor; moving and hashing
    take every tensor field along.

    Attributes:
        features: One row per sample, shape `(n, d)`.
        labels: Class of each row, shape `(n,)`, `int64`, from 0 to the number of classes minus one.
        groups: Number of the group each row belongs to, `(n,)`, `int64`.
        attributes: Numbers that groups are cut out of by thresholds, `(n, q)`.
        queries: Number of the query each row answers, `(n,)`, `int64`; the rows of a query stand together.
        relevance: Graded relevance of each row for its query, `(n,)`.
    """

    features: Tensor
    labels: Tensor
    groups: Tensor | None = None
    attributes: Tensor | None = None
    queries: Tensor | None = None
    relevance: Tensor | None = None

    streamed: ClassVar[bool] = False
    """Whether the rows stay in a file: then there are no tensors of all rows, and `take` is the way to some of them."""

    @property
    def rows(self) -> int:
        """Number of samples."""
        return int(self.features.shape[0])

    @property
    def columns(self) -> int:
        """Number of features."""
        return int(self.features.shape[1])

    @property
    def dtype(self) -> torch.dtype:
        """Precision of the features."""
        return self.features.dtype

    @property
    def at_once(self) -> int:
        """How many rows to take at once, in a walk over all of them; all, where they are in memory."""
        return max(self.rows, 1)

    def pieces(self) -> Iterator[slice]:
        """Cover all rows, in order, by slices that may be taken."""
        for first in range(0, self.rows, self.at_once):
            yield slice(first, min(first + self.at_once, self.rows))

    def take(self, index: slice | Tensor) -> "Split":
        """Return some rows as a split in memory; a slice of rows that are in memory already is not a copy."""
        taken: dict[str, Any] = {name: value[index] for name, value in self.tensors().items()}
        return replace(self, **taken)

    def tensors(self) -> dict[str, Tensor]:
        """Every tensor that is present, by the name of its field and in the order of the fields."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, Tensor)}

    def to(self, device: torch.device | str, dtype: torch.dtype) -> "Split":
        """A copy on `device` whose floating-point tensors have type `dtype`; integers stay integers."""
        moved: dict[str, Any] = {
            name: value.to(device=device, dtype=dtype if value.is_floating_point() else value.dtype)
            for name, value in self.tensors().items()
        }
        return replace(self, **moved)


@dataclass(frozen=True, eq=False)
class Dataset:
    """A dataset ready for use.

    Attributes:
        name: The name it has in the catalogue.
        train: The rows a solver may see.
        validation: The rows settings are chosen on, or `None` if their fraction is zero.
        test: The rows that are only ever scored, or `None` if their fraction is zero.
        classes: Number of classes over all rows.
        feature_names: One name per column.
        provides: What a problem may ask for, e.g. `binary_labels`.
        sha256: Checksum of the content as assembled; a copy on another device or in other precision keeps it.
        feature_mean: What was subtracted from each raw column, `float64` on the CPU; zeros if nothing was.
        feature_scale: What each column was divided by; ones if nothing was.
        twin: Whether this is a synthetic stand-in for real data.
        seed: What fixed split and instance; a problem that adds randomness of its own to the data derives it from here.
    """

    name: str
    train: Split
    validation: Split | None
    test: Split | None
    classes: int
    feature_names: tuple[str, ...]
    provides: frozenset[str]
    sha256: str
    feature_mean: Tensor
    feature_scale: Tensor
    twin: bool = False
    seed: int = 0

    @property
    def rows(self) -> int:
        """Number of samples over all splits."""
        return sum(split.rows for split in (self.train, self.validation, self.test) if split is not None)

    @property
    def streamed(self) -> bool:
        """Whether the rows stay in a file, to be read piece by piece."""
        return self.train.streamed

    def to(self, device: torch.device | str, dtype: torch.dtype) -> "Dataset":
        """The same dataset on another device or in another precision, under the same checksum."""
        return replace(
            self,
            train=self.train.to(device, dtype),
            validation=None if self.validation is None else self.validation.to(device, dtype),
            test=None if self.test is None else self.test.to(device, dtype),
        )


@dataclass
class DatasetConfig:
    """Settings every dataset has; a dataset's own settings are a subclass.

    Attributes:
        seed: Fixes the split, and the instance where the data are generated.
        split: Fractions of the rows for training, validation and test. What is missing to 1 stays unused.
        standardize: Whether to centre and scale each column with mean and deviation of the training rows.
        order: `given`, or `label`: the rows of each split sorted by class, so that blocks of rows are unlike each
            other, as the data of clients are.
    """

    seed: int = 0
    split: list[float] = field(default_factory=lambda: [0.6, 0.2, 0.2])
    standardize: bool = True
    order: str = "given"

    def __post_init__(self) -> None:
        """Refuse impossible values.

        Raises:
            SettingError: The seed or the split is impossible.
        """
        if not isinstance(self.seed, int) or not 0 <= self.seed <= _LARGEST_SEED:
            raise SettingError(
                f"{type(self).__name__}.seed must be an integer from 0 to 2**63 - 1; found {self.seed!r}. "
                "Change `dataset.seed=`."
            )
        require_one_of(self, "order", ("given", "label"))
        problem = _split_problem(self.split)
        if problem is not None:
            raise SettingError(
                f"{type(self).__name__}.split must be three fractions (training, validation, test), none "
                f"negative, the first above 0, with a sum of at most 1; found {list(self.split)}: {problem}. "
                "Change `dataset.split=`, e.g. to [0.6,0.2,0.2]."
            )


def _split_problem(fractions: Sequence[float]) -> str | None:
    if len(fractions) != len(_SPLIT_NAMES):
        return f"it has {len(fractions)} entries"
    for name, fraction in zip(_SPLIT_NAMES, fractions, strict=True):
        if not math.isfinite(fraction) or fraction < 0:
            return f"the {name} fraction is {fraction}"
    if fractions[0] == 0:
        return "nothing is left for training"
    if sum(fractions) > 1 + _FRACTION_TOLERANCE:
        return f"the sum is {sum(fractions):.12g}"
    return None


def assemble(
    name: str,
    features: NDArray[Any],
    labels: NDArray[Any],
    config: DatasetConfig,
    *,
    feature_names: Sequence[str] | None = None,
    provides: frozenset[str] = frozenset(),
    twin: bool = False,
    columns: Mapping[str, NDArray[Any]] | None = None,
    parts: Sequence[NDArray[np.int64]] | None = None,
) -> Dataset:
    """Turn raw arrays into a dataset: check, split by class, standardize, hash.

    Rows keep their order within a split, so that a split of `[1, 0, 0]` is the data as they came.

    Args:
        name: The dataset's name in the catalogue; every message begins with it.
        features: Numbers of shape `(n, d)`.
        labels: Whole numbers of shape `(n,)`; their sorted distinct values become the classes 0, 1, ...
        config: Seed, fractions and whether to standardize.
        feature_names: One name per column; `x1`, `x2`, ... if absent.
        provides: What the dataset offers besides `labels` and, with two classes, `binary_labels`.
        twin: Whether this is a synthetic stand-in for real data.
        columns: Further fields of the splits by name (`groups`, `attributes`, `queries`, `relevance`), one entry or
            row per sample.
        parts: Row numbers of the training, validation and test rows, where the data come with a split of their own;
            an empty one is an absent split. By default the rows are divided as `config.split` says.

    Returns:
        The dataset in `float64` on the CPU.

    Raises:
        DataError: The arrays do not describe a classification dataset, or a split comes out unusable.
    """
    matrix = _checked_matrix(name, np.asarray(features))
    names = _checked_names(name, matrix.shape[1], feature_names)
    _check_finite(name, matrix, names)
    values, codes = _class_codes(name, np.asarray(labels), rows=matrix.shape[0])
    if parts is None:
        parts = _split_rows(codes, config)
        _check_parts(name, parts, codes, config)
    if config.order == "label":
        parts = _sorted_by_class(name, parts, codes, columns or {})
    _check_trainable(name, parts[0], codes, values)
    extra = {field: _checked_column(name, field, column, matrix.shape[0]) for field, column in (columns or {}).items()}
    mean, scale = np.zeros(matrix.shape[1]), np.ones(matrix.shape[1])
    if config.standardize:
        mean, scale = _scaling(matrix[parts[0]])
        matrix = _standardized(name, matrix, mean, scale, names)

    train, validation, test = (_take(matrix, codes, extra, part) for part in parts)
    assert train is not None
    binary = {"binary_labels"} if len(values) == 2 else set()
    return Dataset(
        name=name,
        train=train,
        validation=validation,
        test=test,
        classes=len(values),
        feature_names=names,
        provides=provides | {"labels"} | binary,
        sha256=_checksum(train, validation, test),
        feature_mean=torch.from_numpy(mean),
        feature_scale=torch.from_numpy(scale),
        twin=twin,
        seed=config.seed,
    )


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
    if features.dtype.kind not in "biuf":
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
    if labels.dtype.kind not in "biuf":
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


def _split_rows(codes: NDArray[np.int64], config: DatasetConfig) -> list[NDArray[np.int64]]:
    """Row numbers of each split, in increasing order, with the classes in the same proportions in each."""
    generator = np.random.default_rng(config.seed)
    fractions = _with_unused(config.split)
    shortfall = np.zeros_like(fractions)
    pieces: list[list[NDArray[np.int64]]] = [[] for _ in _SPLIT_NAMES]
    for code in range(int(codes.max()) + 1):
        shuffled = generator.permutation(np.flatnonzero(codes == code))
        counts = _rounded_shares(len(shuffled), fractions, shortfall)
        shortfall = shortfall + fractions * len(shuffled) - counts
        ends = np.cumsum(counts)
        for piece, start, end in zip(pieces, ends - counts, ends, strict=False):
            piece.append(shuffled[start:end])
    return [np.sort(np.concatenate(piece)) for piece in pieces]


def _sorted_by_class(
    name: str, parts: Sequence[NDArray[np.int64]], codes: NDArray[np.int64], columns: Mapping[str, Any]
) -> list[NDArray[np.int64]]:
    if "queries" in columns:
        raise DataError(
            f"Dataset {name!r}: the rows of a query stand together and cannot be sorted by class; found "
            "`dataset.order=label`. Leave it at `given`."
        )
    return [part[np.argsort(codes[part], kind="stable")] for part in parts]


def _with_unused(split: Sequence[float]) -> NDArray[np.float64]:
    """The three fractions and the unused rest, with a sum of 1."""
    rest = 1.0 - sum(split)
    fractions = np.array([*split, rest if rest > _FRACTION_TOLERANCE else 0.0], dtype=np.float64)
    normalized: NDArray[np.float64] = fractions / fractions.sum()
    return normalized


def _rounded_shares(count: int, fractions: NDArray[np.float64], shortfall: NDArray[np.float64]) -> NDArray[np.int64]:
    """Largest-remainder rounding: whole numbers close to `count * fractions` with the sum `count`.

    What the parts lack from earlier classes decides between them, so that rounding errors do not add up over
    the classes. A share that is whole already is never rounded up; so a part of fraction zero stays empty.
    """
    # 0.29 * 100 is 28.999999999999996, which must not count as 28 and a large remainder.
    quotas = np.round(count * fractions, 6)
    shares = np.floor(quotas).astype(np.int64)
    remainders = quotas - shares
    priority = np.where(remainders > 0, remainders + shortfall, -np.inf)
    # Rounded, because equal priorities must tie; the stable sort then prefers the earlier part.
    order = np.argsort(-np.round(priority, 6), kind="stable")
    shares[order[: count - int(shares.sum())]] += 1
    return shares


def _check_parts(
    name: str,
    parts: list[NDArray[np.int64]],
    codes: NDArray[np.int64],
    config: DatasetConfig,
) -> None:
    for split, part, fraction in zip(_SPLIT_NAMES, parts, config.split, strict=True):
        if fraction > 0 and len(part) == 0:
            raise DataError(
                f"Dataset {name!r}: the {split} split must have at least one row for its fraction {fraction}; "
                f"found none of the {len(codes)} rows left for it. Change `dataset.split=` or take more rows."
            )


def _check_trainable(name: str, part: NDArray[np.int64], codes: NDArray[np.int64], values: NDArray[Any]) -> None:
    present = np.unique(codes[part])
    if len(present) < 2:
        found = f"only class {values[present[0]]} in its {len(part)} rows" if len(part) else "no row"
        raise DataError(
            f"Dataset {name!r}: the train split must contain at least two classes; found {found}. Raise the first "
            "fraction of `dataset.split=` or take more rows."
        )


def _checked_column(name: str, field: str, column: NDArray[Any], rows: int) -> NDArray[Any]:
    array = np.asarray(column)
    if array.shape[:1] != (rows,) or array.dtype.kind not in "biuf":
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


def _scaling(seen: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and population deviation of each column; a constant column is only centred."""
    with np.errstate(over="ignore", invalid="ignore"):
        mean, deviation = seen.mean(axis=0), seen.std(axis=0)
    # Compared by value: the deviation of a constant such as 0.1 is a rounding error, not zero.
    constant = (seen == seen[0]).all(axis=0)
    return np.where(constant, seen[0], mean), np.where(constant, 1.0, deviation)


def _standardized(
    name: str,
    matrix: NDArray[np.float64],
    mean: NDArray[np.float64],
    scale: NDArray[np.float64],
    names: tuple[str, ...],
) -> NDArray[np.float64]:
    """The matrix with mean 0 and population deviation 1 in each column of the training rows."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        result: NDArray[np.float64] = (matrix - mean) / scale
    bad = ~np.isfinite(result).all(axis=0)
    if bad.any():
        column = int(np.argmax(bad))
        raise DataError(
            f"Dataset {name!r}: standardized features must be finite; found that column {column} "
            f"({names[column]!r}), counted from 0, with values up to {np.abs(matrix[:, column]).max():.3g}, is too "
            f"large or too small for its deviation to be computed. Rescale it or set `dataset.standardize=false`."
        )
    return result


def _take(
    matrix: NDArray[np.float64], codes: NDArray[np.int64], extra: Mapping[str, NDArray[Any]], part: NDArray[np.int64]
) -> Split | None:
    if len(part) == 0:
        return None
    further: dict[str, Any] = {name: torch.from_numpy(column[part]) for name, column in extra.items()}
    return Split(features=torch.from_numpy(matrix[part]), labels=torch.from_numpy(codes[part]), **further)


def _checksum(*splits: Split | None) -> str:
    digest = hashlib.sha256()
    for split_name, split in zip(_SPLIT_NAMES, splits, strict=True):
        for tensor_name, tensor in ({} if split is None else split.tensors()).items():
            array = tensor.numpy()
            # One byte order, so that the same data have the same checksum on every machine.
            portable = array.astype(array.dtype.newbyteorder("<"))
            header = [split_name, tensor_name, list(portable.shape), portable.dtype.str]
            digest.update(json.dumps(header).encode())
            digest.update(portable.tobytes())
    return digest.hexdigest()

"""Which rows are for training, for validation and for the test."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drobench.data.dataset import FRACTION_TOLERANCE, SPLIT_NAMES, DataError, DatasetConfig
from drobench.data.raw_table import RawTable

RowNumbers = NDArray[np.int64]
"""Row numbers, counted from 0."""


def split_rows(
    name: str, table: RawTable, config: DatasetConfig, given: Sequence[RowNumbers] | None = None
) -> list[RowNumbers]:
    """Return the row numbers of the training, validation and test rows, in the order that `config` asks for.

    Args:
        name: The dataset's name, for messages.
        table: The rows.
        config: Seed, fractions and order.
        given: The three parts, where the data come with a split of their own.

    Raises:
        DataError: A split comes out unusable.
    """
    parts = _by_class(name, table.codes, config) if given is None else list(given)
    if not table.has_classes:
        _check_targets(name, config, parts[0])
        return parts
    if config.order == "label":
        parts = _sorted_by_class(name, table, parts)
    _check_trainable(name, table, parts[0])
    return parts


def split_of_labels(name: str, labels: NDArray[Any] | None, rows: int, config: DatasetConfig) -> list[RowNumbers]:
    """Return the same for rows that have no features yet: what makes them may look at the training rows alone.

    Args:
        name: The dataset's name, for messages.
        labels: A label for each row; `None` where targets are numbers.
        rows: How many rows there are.
        config: Seed, fractions and order.
    """
    if labels is None:
        classes, codes = np.zeros(0), np.zeros(rows, dtype=np.int64)
    else:
        classes, codes = np.unique(labels, return_inverse=True)
    return split_rows(name, RawTable(np.zeros((rows, 0)), (), classes, codes.astype(np.int64), {}), config)


def refuse_empty(name: str, sizes: Sequence[int], config: DatasetConfig, rows: int) -> None:
    """Raise where a split has a fraction and no row.

    Raises:
        DataError: There is such a split.
    """
    for split, size, fraction in zip(SPLIT_NAMES, sizes, config.split, strict=True):
        if fraction > 0 and size == 0:
            raise DataError(
                f"Dataset {name!r}: the {split} split must have at least one row for its fraction {fraction}; "
                f"found none of the {rows} rows left for it. Change `dataset.split=` or take more rows."
            )


def _by_class(name: str, codes: RowNumbers, config: DatasetConfig) -> list[RowNumbers]:
    """Row numbers of each split, in increasing order, with the classes in the same proportions in each."""
    generator = np.random.default_rng(config.seed)
    fractions = _with_unused(config.split)
    shortfall = np.zeros_like(fractions)
    pieces: list[list[RowNumbers]] = [[] for _ in SPLIT_NAMES]
    for code in range(int(codes.max()) + 1):
        shuffled = generator.permutation(np.flatnonzero(codes == code))
        counts = _rounded_shares(len(shuffled), fractions, shortfall)
        shortfall = shortfall + fractions * len(shuffled) - counts
        ends = np.cumsum(counts)
        for piece, start, end in zip(pieces, ends - counts, ends, strict=False):
            piece.append(shuffled[start:end])
    parts = [np.sort(np.concatenate(piece)) for piece in pieces]
    refuse_empty(name, [len(part) for part in parts], config, len(codes))
    return parts


def _sorted_by_class(name: str, table: RawTable, parts: Sequence[RowNumbers]) -> list[RowNumbers]:
    if "queries" in table.further:
        raise DataError(
            f"Dataset {name!r}: the rows of a query stand together and cannot be sorted by class; found "
            "`dataset.order=label`. Leave it at `given`."
        )
    return [part[np.argsort(table.codes[part], kind="stable")] for part in parts]


def _check_targets(name: str, config: DatasetConfig, train: RowNumbers) -> None:
    if config.order == "label":
        raise DataError(
            f"Dataset {name!r}: its targets are numbers, and there are no classes to sort its rows by; found "
            "`dataset.order=label`. Leave it at `given`."
        )
    if len(train) == 0:
        raise DataError(f"Dataset {name!r}: the train split must have rows; found none. Change `dataset.split=`.")


def _with_unused(split: Sequence[float]) -> NDArray[np.float64]:
    """The three fractions and the unused rest, with a sum of 1."""
    rest = 1.0 - sum(split)
    fractions = np.array([*split, rest if rest > FRACTION_TOLERANCE else 0.0], dtype=np.float64)
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


def _check_trainable(name: str, table: RawTable, part: RowNumbers) -> None:
    present = np.unique(table.codes[part])
    if len(present) < 2:
        found = f"only class {table.classes[present[0]]} in its {len(part)} rows" if len(part) else "no row"
        raise DataError(
            f"Dataset {name!r}: the train split must contain at least two classes; found {found}. Raise the first "
            "fraction of `dataset.split=` or take more rows."
        )

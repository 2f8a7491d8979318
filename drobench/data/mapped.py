"""A dataset whose rows stay in a mapped file: only those that are looked at are read, and none is kept.

The splits cut the table in the order of its rows, so that each is one stretch of the file; a permutation of a table
that is larger than memory would be a large array itself, and every pass over it a random walk on the disk.
"""

import hashlib
import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from drobench.data.build import what_labels_provide
from drobench.data.dataset import DataError, Dataset, DatasetConfig, Split
from drobench.data.encoder import number_encoder
from drobench.data.splitting import refuse_empty
from drobench.data.stored_table import StoredTable

# Numbers in a piece: 2 MB in single precision. Scaling and losses make copies, which should stay in the cache.
_NUMBERS_AT_ONCE = 2**19
_NUMPY_TYPES = {torch.float32: np.float32, torch.float64: np.float64}


class MappedSplit(Split):
    """A stretch of a mapped table. `take` reads rows, converts and scales them; nothing holds all of them.

    Asking for `features` or `labels` as whole tensors, as problems do that know only data in memory, is refused.
    """

    streamed = True

    def __init__(
        self,
        name: str,
        table: StoredTable,
        stretch: range,
        scaling: tuple[NDArray[np.float64], NDArray[np.float64]] | None,
        device: torch.device | str = "cpu",
        dtype: torch.dtype | None = None,
    ) -> None:
        self.name = name
        self.table = table
        self.stretch = stretch
        self.scaling = scaling
        self.device = device
        self.precision = torch.from_numpy(np.empty(0, table.features.dtype)).dtype if dtype is None else dtype

    @property
    def features(self) -> Tensor:
        """Refused."""
        raise self._refusal("features")

    @property
    def labels(self) -> Tensor:
        """Refused."""
        raise self._refusal("labels")

    def _refusal(self, what: str) -> DataError:
        return DataError(
            f"Dataset {self.name!r}: the rows stay in {self.table.folder} and are read piece by piece; the {what} of "
            f"all {self.rows} rows at once were asked for. Use a problem that reads pieces, or a dataset in memory."
        )

    @property
    def rows(self) -> int:
        return len(self.stretch)

    @property
    def columns(self) -> int:
        return len(self.table.columns)

    @property
    def dtype(self) -> torch.dtype:
        return self.precision

    @property
    def at_once(self) -> int:
        return max(1, _NUMBERS_AT_ONCE // self.columns)

    def take(self, index: slice | Tensor) -> Split:
        where = self._positions(index)
        features, labels = self.table.features[where], self.table.labels[where]
        if self.scaling is not None:
            # In double precision, since a mean far from zero would cost single precision its digits.
            mean, scale = self.scaling
            features = (features - mean) / scale
        # `array` makes a copy, even of a slice: what is mapped is read-only, which tensors do not know.
        copied = np.array(features, dtype=_NUMPY_TYPES[self.precision])
        return Split(
            features=torch.from_numpy(copied).to(self.device),
            labels=torch.from_numpy(labels.astype(np.int64)).to(self.device),
        )

    def _positions(self, index: slice | Tensor) -> slice | NDArray[np.int64]:
        """Return where in the table these rows of the split are."""
        if isinstance(index, slice):
            chosen = self.stretch[index]
            return slice(chosen.start, chosen.stop, chosen.step)
        return index.cpu().numpy() + self.stretch.start

    def to(self, device: torch.device | str, dtype: torch.dtype) -> "MappedSplit":
        """The same rows, to be delivered to `device` in another precision; the file is not touched."""
        return MappedSplit(self.name, self.table, self.stretch, self.scaling, device, dtype)


def map_dataset(name: str, table: StoredTable, config: DatasetConfig) -> Dataset:
    """Turn a stored table into a dataset: cut it into splits, and learn the scaling from the training rows.

    The scaling costs one pass over the training rows; without it only the labels are read.

    Raises:
        DataError: A split comes out unusable, a class number is none, or another order is asked for.
    """
    if config.order != "given":
        raise DataError(
            f"Dataset {name!r}: mapped rows stay in the order of the table; found `dataset.order={config.order}`. Sort "
            "them before they are converted."
        )
    stretches = _stretches(name, table, config)
    _check_labels(name, table, stretches[0])
    mean, scale = np.zeros(len(table.columns)), np.ones(len(table.columns))
    scaling = None
    if config.standardize:
        mean, scale = scaling = _scaling(name, table, stretches[0])
    train, validation, test = (
        MappedSplit(name, table, stretch, scaling) if len(stretch) else None for stretch in stretches
    )
    assert train is not None
    return Dataset(
        name=name,
        train=train,
        validation=validation,
        test=test,
        classes=len(table.classes),
        feature_names=table.columns,
        provides=what_labels_provide(len(table.classes)),
        sha256=_checksum(table, stretches, config),
        feature_mean=torch.from_numpy(mean),
        feature_scale=torch.from_numpy(scale),
        seed=config.seed,
        encoder=number_encoder(table.columns, classes=tuple(table.classes)),
    )


def _stretches(name: str, table: StoredTable, config: DatasetConfig) -> list[range]:
    """Return the rows of each split: what the fractions add up to, rounded, is where a split ends."""
    ends = [0, *(round(float(sum(config.split[:count])) * table.rows) for count in (1, 2, 3))]
    stretches = [range(first, min(last, table.rows)) for first, last in pairwise(ends)]
    refuse_empty(name, [len(stretch) for stretch in stretches], config, table.rows)
    return stretches


def _pieces(stretch: range, columns: int) -> Iterator[slice]:
    at_once = max(1, _NUMBERS_AT_ONCE // columns)
    for first in range(stretch.start, stretch.stop, at_once):
        yield slice(first, min(first + at_once, stretch.stop))


def _check_labels(name: str, table: StoredTable, train: range) -> None:
    largest = max(int(table.labels[piece].max()) for piece in _pieces(range(table.rows), 1))
    if largest >= len(table.classes):
        raise DataError(
            f"Dataset {name!r}: the table {table.folder} has {len(table.classes)} classes; found class number "
            f"{largest}. It is damaged: write it again with `drobench data convert`."
        )
    first = int(table.labels[train.start])
    if not any(bool((table.labels[piece] != first).any()) for piece in _pieces(train, 1)):
        raise DataError(
            f"Dataset {name!r}: the train split must contain at least two classes; found only class "
            f"{table.classes[first]!r} in its {len(train)} rows. The split follows the order of the rows: shuffle them "
            "before they are converted, or raise the first fraction of `dataset.split=`."
        )


def _scaling(name: str, table: StoredTable, train: range) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return mean and population deviation of each column; a constant column is only centred.

    Means and squares of the pieces are merged (Chan, Golub, LeVeque 1983), which loses no digits to large means.
    """
    seen, width = 0, len(table.columns)
    mean, squares = np.zeros(width), np.zeros(width)
    first = table.features[train.start].astype(np.float64)
    constant = np.ones(width, dtype=bool)
    with np.errstate(over="ignore", invalid="ignore"):
        for piece in _pieces(train, width):
            rows = table.features[piece].astype(np.float64)
            count, centre = rows.shape[0], rows.mean(axis=0)
            constant &= (rows == first).all(axis=0)
            rows -= centre
            step = centre - mean
            squares += np.square(rows, out=rows).sum(axis=0) + step**2 * (seen * count / (seen + count))
            seen += count
            mean += step * (count / seen)
        scale = np.where(constant, 1.0, np.sqrt(squares / seen))
    mean = np.where(constant, first, mean)
    bad = ~(np.isfinite(mean) & np.isfinite(scale) & (scale > 0))
    if bad.any():
        column = int(np.argmax(bad))
        raise DataError(
            f"Dataset {name!r}: mean and deviation of each column must be finite and not zero; found "
            f"{mean[column]:.3g} and {scale[column]:.3g} in column {column} ({table.columns[column]!r}), counted from "
            "0. Rescale it or set `dataset.standardize=false`."
        )
    return mean, scale


def _checksum(table: StoredTable, stretches: list[range], config: DatasetConfig) -> str:
    """Return what identifies the splits: the files' checksums as written, the cuts, and whether rows are scaled."""
    content: dict[str, Any] = {
        "files": table.checksums,
        "ends": [stretch.stop for stretch in stretches],
        "standardize": config.standardize,
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

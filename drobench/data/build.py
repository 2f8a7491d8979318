"""How raw arrays become a dataset, in the same way for all: check, split by class, standardize, hash.

The checksum is of the content as it is used, and becomes part of a run's identity.
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from drobench.data.dataset import SPLIT_NAMES, DataError, Dataset, DatasetConfig, Split
from drobench.data.encoder import TableEncoder, number_encoder
from drobench.data.raw_table import RawTable, check_table
from drobench.data.scaling import mean_and_deviation, standardized
from drobench.data.splitting import RowNumbers, split_rows

_IMAGE_DIMENSIONS = 3
_SHOWN = 5


def build_dataset(
    name: str,
    features: NDArray[Any],
    labels: NDArray[Any] | None,
    config: DatasetConfig,
    *,
    feature_names: Sequence[str] | None = None,
    provides: frozenset[str] = frozenset(),
    twin: bool = False,
    columns: Mapping[str, NDArray[Any]] | None = None,
    parts: Sequence[RowNumbers] | None = None,
    shape: tuple[int, ...] = (),
    encoder: TableEncoder | None = None,
    notes: Sequence[str] = (),
) -> Dataset:
    """Turn raw arrays into a dataset: check, split by class, standardize, hash.

    Rows keep their order within a split, so that a split of `[1, 0, 0]` is the data as they came.

    Args:
        name: The dataset's name in the catalogue; every message begins with it.
        features: Numbers of shape `(n, d)`.
        labels: Whole numbers of shape `(n,)`; their sorted distinct values become the classes 0, 1, ... None where each
            row has a number to be predicted, which is among `columns` as `targets`.
        config: Seed, fractions and whether to standardize.
        feature_names: One name per column; `x1`, `x2`, ... if absent.
        provides: What the dataset offers besides `labels` and, with two classes, `binary_labels`.
        twin: Whether this is a synthetic stand-in for real data.
        columns: Further fields of the splits by name (`groups`, `attributes`, `queries`, `relevance`, `targets`), one
            entry or row per sample.
        parts: Row numbers of the training, validation and test rows, where the data come with a split of their own;
            an empty one is an absent split. By default the rows are divided as `config.split` says.
        shape: The shape of one row before it was laid flat, e.g. `(1, 8, 8)` for small images of one channel.
        encoder: How raw rows became the features, and what the classes are called; by default the features are the raw
            rows, and classes are called by their labels.
        notes: What a reader of the results should know of the data.

    Returns:
        The dataset in `float64` on the CPU.

    Raises:
        DataError: The arrays do not describe a dataset, or a split comes out unusable.
    """
    table = check_table(name, features, labels, feature_names, columns)
    _check_shape(name, table, shape)
    encoder = encoder or number_encoder(table.feature_names, classes=tuple(table.classes.tolist()))
    _check_encoder(name, table, encoder)
    chosen = split_rows(name, table, config, parts)
    matrix, mean, scale = _scaled(name, table, chosen[0], config)
    train, validation, test = (_take(matrix, table, part) for part in chosen)
    assert train is not None
    return Dataset(
        name=name,
        train=train,
        validation=validation,
        test=test,
        classes=len(table.classes),
        feature_names=table.feature_names,
        provides=provides | what_labels_provide(len(table.classes)) | what_shape_provides(shape),
        sha256=_checksum(train, validation, test),
        feature_mean=torch.from_numpy(mean),
        feature_scale=torch.from_numpy(scale),
        twin=twin,
        seed=config.seed,
        shape=shape,
        encoder=encoder,
        notes=tuple(notes),
    )


def what_labels_provide(classes: int) -> frozenset[str]:
    """Return what a problem may ask for where there are so many classes; with none of them, targets are numbers."""
    if classes == 0:
        return frozenset({"targets"})
    return frozenset({"labels", "binary_labels"} if classes == 2 else {"labels"})


def what_shape_provides(shape: tuple[int, ...]) -> frozenset[str]:
    """Return what a model may ask for where rows have this shape: `images` have channels, height and width."""
    return frozenset({"images"} if len(shape) == _IMAGE_DIMENSIONS else ())


def _check_shape(name: str, table: RawTable, shape: tuple[int, ...]) -> None:
    columns = table.features.shape[1]
    if shape and math.prod(shape) != columns:
        raise DataError(
            f"Dataset {name!r}: rows of shape {shape} have {math.prod(shape)} numbers; found {columns} columns. Lay "
            "each row flat before it is handed over."
        )


def _check_encoder(name: str, table: RawTable, encoder: TableEncoder) -> None:
    found = encoder.feature_names, len(encoder.classes)
    if found != (table.feature_names, len(table.classes)):
        raise DataError(
            f"Dataset {name!r}: its encoder must make the {len(table.feature_names)} features by their names and know "
            f"{len(table.classes)} classes; found {len(found[0])} features, "
            f"{', '.join(found[0][:_SHOWN])}{', ...' if len(found[0]) > _SHOWN else ''}, and {found[1]} classes. Make "
            "it of the same columns and labels."
        )


def _scaled(
    name: str, table: RawTable, train: RowNumbers, config: DatasetConfig
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return the features as they are used, what was subtracted from each column, and what it was divided by."""
    if not config.standardize:
        columns = table.features.shape[1]
        return table.features, np.zeros(columns), np.ones(columns)
    mean, scale = mean_and_deviation(table.features[train])
    return standardized(name, table, mean, scale), mean, scale


def _take(matrix: NDArray[np.float64], table: RawTable, part: RowNumbers) -> Split | None:
    if len(part) == 0:
        return None
    further: dict[str, Any] = {name: torch.from_numpy(column[part]) for name, column in table.further.items()}
    return Split(features=torch.from_numpy(matrix[part]), labels=torch.from_numpy(table.codes[part]), **further)


def _checksum(*splits: Split | None) -> str:
    digest = hashlib.sha256()
    for split_name, split in zip(SPLIT_NAMES, splits, strict=True):
        for tensor_name, tensor in ({} if split is None else split.tensors()).items():
            array = tensor.numpy()
            # One byte order, so that the same data have the same checksum on every machine.
            portable = array.astype(array.dtype.newbyteorder("<"))
            header = [split_name, tensor_name, list(portable.shape), portable.dtype.str]
            digest.update(json.dumps(header).encode())
            digest.update(portable.tobytes())
    return digest.hexdigest()

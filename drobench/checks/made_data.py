"""Small data made to measure, for what needs a combination that no installed dataset has by default."""

from typing import Any

import numpy as np

from drobench.data.build import build_dataset, what_labels_provide, what_shape_provides
from drobench.data.dataset import Dataset, DatasetConfig

_ROWS, _COLUMNS, _SEED = 120, 4, 0
_SHAPE = (1, 6, 6)
_GROUPS, _QUERIES = 3, 12
_COLUMN_WORDS = frozenset({"groups", "attributes", "queries", "relevance", "targets"})
_WORDS = _COLUMN_WORDS | {"labels", "binary_labels", "images"}


def made_dataset(needs: frozenset[str]) -> Dataset | None:
    """Return small data that provide all of this; `None` where a word is not known, or labels and targets are asked."""
    if not needs <= _WORDS or ("targets" in needs and needs & {"labels", "binary_labels"}):
        return None
    numbers = np.random.default_rng(_SEED)
    shape = _SHAPE if "images" in needs else ()
    features = numbers.standard_normal((_ROWS, int(np.prod(shape)) if shape else _COLUMNS))
    slopes = numbers.standard_normal(features.shape[1])
    scores = features @ slopes / np.linalg.norm(slopes) + 0.5 * numbers.standard_normal(_ROWS)
    dataset = build_dataset(
        "made for the checks",
        features,
        None if "targets" in needs else (scores > 0).astype(int),
        DatasetConfig(split=[0.6, 0.2, 0.2]),
        provides=needs - what_labels_provide(0) - what_labels_provide(2) - what_shape_provides(_SHAPE),
        columns={name: column for name, column in _columns(numbers, scores).items() if name in needs},
        shape=shape,
    )
    return dataset if needs <= dataset.provides else None


def _columns(numbers: np.random.Generator, scores: Any) -> dict[str, Any]:
    rows = np.arange(_ROWS)
    return {
        "groups": rows % _GROUPS,
        "attributes": numbers.random((_ROWS, 2)),
        "queries": rows * _QUERIES // _ROWS,
        "relevance": np.digitize(scores, [-0.5, 0.5]).astype(float),
        "targets": scores,
    }

"""Choosing queries and documents of MSLR, and computing their features.

Queries are thinned out and chosen so that each has something to compare (all counts are per query, in this order):

    1. at least 20 documents
    2. documents are sorted by PageRank; a negative one at place k of n is dropped with probability
       (0.5 + 0.5 a - a k / (n - 1)) (0.7 + 0.3 b),  where a and b are uniform on [-1, 1], drawn for each query
    3. at least 10 positive and 10 negative documents
    4. more than 4 documents of each group and label

The features are the first 125 of the file, the group, and the means of these 125 over the documents of the query.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drobench.data.dataset import DataError
from drobench_plugins.datasets.letor_text import LetorTable

# Positions of columns, counted from 0.
PAGE_RANK, QUALITY = 129, 132
KEPT_FEATURES = 125
_GROUP_QUANTILE = 0.4
_HIGHEST_IRRELEVANT = 1
_FEWEST_DOCUMENTS = 20
_FEWEST_OF_LABEL = 10
_FEWEST_IN_CELL = 5


@dataclass(frozen=True, eq=False)
class RankingRows:
    """The documents of one split that are used; the rows of a query stand together.

    Attributes:
        features: 125 features, the group, 125 means over the query, `(n, 251)`.
        labels: 1 if relevant, `(n,)`.
        groups: 0 or 1, `(n,)`.
        queries: Numbered from 0, `(n,)`.
        relevance: As graded, `(n,)`.
    """

    features: NDArray[np.float64]
    labels: NDArray[np.int64]
    groups: NDArray[np.int64]
    queries: NDArray[np.int64]
    relevance: NDArray[np.float64]


def group_threshold(table: LetorTable) -> float:
    """Return the quality above which a document is in group 1."""
    return float(np.quantile(table.features[:, QUALITY], _GROUP_QUANTILE))


def select(
    table: LetorTable, threshold: float, most: int, generator: np.random.Generator, split: str = "train"
) -> RankingRows:
    """Choose the queries and documents of one split.

    Args:
        table: All documents.
        threshold: A document with a quality above this is in group 1.
        most: How many queries to use at most, the first in the order of the file.
        generator: Decides which negative documents are dropped.
        split: Named in the message.

    Raises:
        DataError: No query is suitable.
    """
    fallen: dict[str, int] = {}

    def remaining(rows: NDArray[np.int64], suitable: NDArray[np.bool_], reason: str) -> NDArray[np.int64]:
        """Drop the rows of unsuitable queries and keep count."""
        fallen[reason] = int(np.count_nonzero(~suitable[np.unique(codes[rows])]))
        kept = rows[suitable[codes[rows]]]
        if len(kept) == 0:
            raise _nothing_left(split, count, fallen)
        return kept

    codes = _numbered(table.queries)
    count = int(codes.max()) + 1
    labels = (table.relevance > _HIGHEST_IRRELEVANT).astype(np.int64)
    # A column of a mapped table is read once; later steps would read it from the disk again.
    groups = (table.features[:, QUALITY] > threshold).astype(np.int64)
    sizes = np.bincount(codes, minlength=count)
    rows = np.lexsort((np.asarray(table.features[:, PAGE_RANK]), codes))
    rows = remaining(rows, sizes >= _FEWEST_DOCUMENTS, f"fewer than {_FEWEST_DOCUMENTS} documents")
    rows = rows[~((labels[rows] == 0) & _drops(codes[rows], generator))]
    positive = np.bincount(codes[rows], weights=labels[rows], minlength=count)
    negative = np.bincount(codes[rows], minlength=count) - positive
    rows = remaining(
        rows,
        (positive >= _FEWEST_OF_LABEL) & (negative >= _FEWEST_OF_LABEL),
        f"fewer than {_FEWEST_OF_LABEL} positive or negative ones",
    )
    cells = np.bincount(4 * codes[rows] + 2 * groups[rows] + labels[rows], minlength=4 * count).reshape(count, 4)
    full = np.asarray((cells >= _FEWEST_IN_CELL).all(axis=1))
    rows = remaining(rows, full, f"fewer than {_FEWEST_IN_CELL} of a group and label")
    queries = _numbered(codes[rows])
    rows, queries = rows[queries < most], queries[queries < most]
    return RankingRows(
        features=_features(np.asarray(table.features[rows, :KEPT_FEATURES]), groups[rows], queries),
        labels=labels[rows],
        groups=groups[rows],
        queries=queries,
        relevance=table.relevance[rows].astype(np.float64),
    )


def _numbered(values: NDArray[Any]) -> NDArray[np.int64]:
    """Numbers from 0 in the order of first appearance; a value that comes back later has its number again."""
    _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    places = np.empty(len(first), dtype=np.int64)
    places[np.argsort(first)] = np.arange(len(first))
    return places[inverse]


def _drops(codes: NDArray[np.int64], generator: np.random.Generator) -> NDArray[np.bool_]:
    """Which documents to drop if they are negative; the documents of a query stand together, by PageRank."""
    queries = _numbered(codes)
    sizes = np.bincount(queries)
    slope, level = generator.uniform(-1, 1, (2, len(sizes)))
    place = np.arange(len(queries)) - (np.cumsum(sizes) - sizes)[queries]
    along = 0.5 + 0.5 * slope[queries] - slope[queries] * place / np.maximum(sizes - 1, 1)[queries]
    drops: NDArray[np.bool_] = generator.random(len(queries)) < along * (0.7 + 0.3 * level[queries])
    return drops


def _features(own: NDArray[np.float64], groups: NDArray[np.int64], queries: NDArray[np.int64]) -> NDArray[np.float64]:
    starts = np.flatnonzero(np.diff(queries, prepend=-1))
    sizes = np.bincount(queries)
    means = np.add.reduceat(own, starts, axis=0) / sizes[:, None]
    return np.hstack([own, groups[:, None].astype(np.float64), means[queries]])


def _nothing_left(split: str, count: int, fallen: Mapping[str, int]) -> DataError:
    reasons = ", ".join(f"{number} with {reason}" for reason, number in fallen.items())
    return DataError(
        f"Dataset 'mslr': the {split} split needs at least one suitable query; of its {count} queries none is left: "
        f"{reasons}. Take more documents or another `dataset.seed=`, or leave a split out with a 0 in "
        "`dataset.queries=`."
    )

"""MSLR-WEB10K and WEB30K: ranking documents for the queries of a web search engine, with two groups of documents.

Microsoft offers the data to whoever accepts its terms, so they cannot be downloaded by a program: `drobench data fetch
mslr --from DIR` takes them over, in binary form, and `dataset.path=DIR` reads any folder in the same format.

A document is positive if its relevance is above 1. Its group is 1 if its second quality score is above the 40th
percentile of all training documents, in every split. Queries are thinned out and chosen so that each has something to
compare (all counts are per query, in this order):

    1. at least 20 documents
    2. documents are sorted by PageRank; a negative one at place k of n is dropped with probability
       (0.5 + 0.5 a - a k / (n - 1)) (0.7 + 0.3 b),  where a and b are uniform on [-1, 1], drawn for each query
    3. at least 10 positive and 10 negative documents
    4. more than 4 documents of each group and label

The features are the first 125 of the file, the group, and the means of these 125 over the documents of the query.
"""

import hashlib
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drobench.data.build import build_dataset
from drobench.data.cache import DownloadError, State, cache_folder, missing, writing
from drobench.data.dataset import DataError, Dataset, DatasetConfig
from drobench.errors import SettingError, require_positive
from drobench.registry.entries import DatasetEntry, Intake
from drobench_plugins.datasets import letor_cache
from drobench_plugins.datasets.letor_sources import SourceText, find_folds
from drobench_plugins.datasets.letor_text import LetorTable, parse_letor

NAME = "mslr"
SPLITS = ("train", "validation", "test")
# Positions of columns, counted from 0.
PAGE_RANK, QUALITY = 129, 132
KEPT_FEATURES = 125
_GROUP_QUANTILE = 0.4
_HIGHEST_IRRELEVANT = 1
_FEWEST_DOCUMENTS = 20
_FEWEST_OF_LABEL = 10
_FEWEST_IN_CELL = 5


@dataclass
class MslrConfig(DatasetConfig):
    """Settings of `mslr`.

    Attributes:
        seed: Fixes which negative documents are dropped.
        split: Unused: the data come split.
        path: A folder, archive or text in the publisher's format; null: what `drobench data fetch mslr` took over.
        fold: Which of the folds to use.
        queries: The most queries of training, validation and test to use, the first that are suitable; 0 leaves a
            split out.
        threshold_per_split: Compute the threshold of the groups in each split anew, as published programs do; documents
            of equal quality may then be in different groups.
    """

    path: str | None = None
    fold: int = 1
    queries: list[int] = field(default_factory=lambda: [1000, 100, 100])
    threshold_per_split: bool = False

    def __post_init__(self) -> None:
        """Refuse impossible values.

        Raises:
            SettingError: A setting is impossible.
        """
        super().__post_init__()
        require_positive(self, "fold")
        if len(self.queries) != len(SPLITS) or min(self.queries) < 0 or self.queries[0] < 1:
            raise SettingError(
                f"{type(self).__name__}.queries must be three numbers of queries (training, validation, test), none "
                f"negative, the first at least 1; found {list(self.queries)}. Change `dataset.queries=`."
            )
        if list(self.split) != DatasetConfig().split:
            raise SettingError(
                f"{type(self).__name__}.split cannot be changed, because the data come split; found "
                f"{list(self.split)}. Remove `dataset.split=`; `dataset.queries=` says how many queries to use."
            )


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


# From files


def load_mslr(config: MslrConfig) -> Dataset:
    """Load the texts at `config.path`, or what is in the cache."""
    wanted = [split for split, most in zip(SPLITS, config.queries, strict=True) if most]
    if config.path is None:
        folder = cache_folder(NAME) / f"Fold{config.fold}"
        if not (folder / "train").is_dir():
            needs = f"fold {config.fold} of MSLR-WEB10K or MSLR-WEB30K"
            raise missing(NAME, needs, "mslr_twin", downloadable=False)
        tables = {split: letor_cache.load(folder / split) for split in wanted if (folder / split).is_dir()}
    else:
        folds = find_folds(Path(config.path).expanduser())
        if config.fold not in folds:
            raise DataError(
                f"Dataset {NAME!r}: fold {config.fold} is needed; found {', '.join(map(str, folds))} in {config.path}. "
                "Change `dataset.fold=`."
            )
        tables = {split: read_text(text) for split, text in folds[config.fold].items() if split in wanted}
    return mslr_dataset(NAME, tables, config)


def read_text(text: SourceText) -> LetorTable:
    """Return the content of a text, mapped from the cache if it was read before and has not changed since."""
    place = hashlib.sha256(str(text.path.resolve()).encode() + b"\0" + (text.member or "").encode()).hexdigest()
    folder = cache_folder(NAME) / "parsed" / place[:32]
    status = text.path.stat()
    # The time of the last change of status cannot be set back, so a file that was replaced is noticed.
    stamp = {"size": status.st_size, "modified": status.st_mtime_ns, "changed": status.st_ctime_ns}
    if _is_stored(folder, stamp):
        return letor_cache.load(folder)
    try:
        with writing(folder.parent), text.open() as stream:
            letor_cache.store(stream, text.name, folder, stamp)
    except DownloadError:
        # Where the cache cannot be written, reading takes longer but works.
        if text.member is not None:
            raise
        return parse_letor(text.path)
    return letor_cache.load(folder)


def _is_stored(folder: Path, stamp: Mapping[str, Any]) -> bool:
    try:
        contents = letor_cache.read_contents(folder)
        letor_cache.load(folder)
    except DownloadError:
        return False
    return all(contents.get(key) == value for key, value in stamp.items())


def take(source: Path) -> list[str]:
    """Take every fold of a folder or archive into the cache; return a line for each text."""
    lines = []
    root = cache_folder(NAME)
    folds = find_folds(source)
    with writing(root):
        for number, fold in folds.items():
            _forget(root / f"Fold{number}", set(SPLITS) - set(fold))
            for split, text in fold.items():
                with text.open() as stream:
                    rows = letor_cache.store(stream, text.name, root / f"Fold{number}" / split)
                lines.append(f"fold {number}, {split}: {rows} documents of {text.name}")
    return lines


def _forget(folder: Path, splits: set[str]) -> None:
    """Remove stored splits: those of other data would be taken for the rest of the new ones."""
    for split in splits:
        shutil.rmtree(folder / split, ignore_errors=True)


def cache_state(thorough: bool) -> State:
    """What the cache holds of the data."""
    stored = sorted(cache_folder(NAME).glob("Fold*/*/"))
    if not any(folder.name == "train" for folder in stored):
        return State.ABSENT
    found = [letor_cache.state(folder, thorough) for folder in stored if folder.name in SPLITS]
    return State.VERIFIED if all(state is State.VERIFIED for state in found) else State.DAMAGED


# From tables


def mslr_dataset(name: str, tables: Mapping[str, LetorTable], config: MslrConfig, *, twin: bool = False) -> Dataset:
    """Turn raw tables, real or synthetic, into a dataset.

    Args:
        name: The dataset's name.
        tables: The documents of `train`, and of `validation` and `test` where there are any.
        config: The settings.
        twin: Whether the tables are synthetic.
    """
    splits = encode(tables, config)
    sizes = [len(splits[split].labels) if split in splits else 0 for split in SPLITS]
    ends = np.cumsum(sizes)
    rows = [splits[split] for split in SPLITS if split in splits]
    return build_dataset(
        name,
        np.concatenate([part.features for part in rows]),
        np.concatenate([part.labels for part in rows]),
        config,
        feature_names=_feature_names(),
        provides=frozenset({"queries", "groups"}),
        twin=twin,
        columns={
            field: np.concatenate([getattr(part, field) for part in rows])
            for field in ("groups", "queries", "relevance")
        },
        parts=[np.arange(end - size, end, dtype=np.int64) for size, end in zip(sizes, ends, strict=True)],
    )


def _feature_names() -> list[str]:
    own = [f"feature_{number}" for number in range(1, KEPT_FEATURES + 1)]
    return [*own, "group", *(f"query_mean_{number}" for number in range(1, KEPT_FEATURES + 1))]


def encode(tables: Mapping[str, LetorTable], config: MslrConfig) -> dict[str, RankingRows]:
    """Choose queries and documents, and compute features, labels and groups of each split.

    Args:
        tables: The documents of `train`, and of `validation` and `test` where there are any.
        config: Seed, numbers of queries and where the threshold comes from.

    Raises:
        DataError: No query of a split is suitable; the message says how many fell at each filter.
    """
    result = {}
    threshold = _threshold(tables["train"])
    for number, (split, most) in enumerate(zip(SPLITS, config.queries, strict=True)):
        if split not in tables or not most:
            continue
        table = tables[split]
        own = _threshold(table) if config.threshold_per_split else threshold
        # Each split has its own stream, so that leaving one out changes no other.
        generator = np.random.default_rng([config.seed, number])
        result[split] = select(table, own, most, generator, split)
    return result


def _threshold(table: LetorTable) -> float:
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
        f"Dataset {NAME!r}: the {split} split needs at least one suitable query; of its {count} queries none is left: "
        f"{reasons}. Take more documents or another `dataset.seed=`, or leave a split out with a 0 in "
        "`dataset.queries=`."
    )


def entry() -> DatasetEntry:
    """The catalogue entry."""
    return DatasetEntry(
        name=NAME,
        summary="MSLR-WEB10K or WEB30K: web search queries, 251 features, two groups of documents; to be fetched.",
        reference="T. Qin, T.-Y. Liu (2013). Introducing LETOR 4.0 Datasets. arXiv:1306.2597.",
        config=MslrConfig,
        factory=load_mslr,
        provides=frozenset({"labels", "binary_labels", "queries", "groups"}),
        licence="Microsoft's terms, research only",
        intake=Intake(
            instructions=(
                "accept the publisher's terms at https://www.microsoft.com/en-us/research/project/mslr/ and download "
                "MSLR-WEB10K or MSLR-WEB30K"
            ),
            take=take,
            state=cache_state,
        ),
    )

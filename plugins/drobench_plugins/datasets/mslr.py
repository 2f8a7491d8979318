"""MSLR-WEB10K and WEB30K: ranking documents for the queries of a web search engine, with two groups of documents.

Microsoft offers the data to whoever accepts its terms, so they cannot be downloaded by a program: `drobench data fetch
mslr --from DIR` takes them over, in binary form, and `dataset.path=DIR` reads any folder in the same format.

A document is positive if its relevance is above 1. Its group is 1 if its second quality score is above the 40th
percentile of all training documents, in every split. Which queries and documents are used, and their 251 features: see
`drobench_plugins.datasets.mslr_queries`.
"""

import hashlib
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from drobench.data.build import build_dataset
from drobench.data.cache import DownloadError, State, cache_folder, missing, writing
from drobench.data.dataset import DataError, Dataset, DatasetConfig
from drobench.errors import SettingError, require_positive
from drobench.registry.entries import DatasetEntry, Intake
from drobench_plugins.datasets import letor_cache
from drobench_plugins.datasets.letor_sources import SourceText, find_folds
from drobench_plugins.datasets.letor_text import LetorTable, parse_letor
from drobench_plugins.datasets.mslr_queries import KEPT_FEATURES, RankingRows, group_threshold, select

NAME = "mslr"
SPLITS = ("train", "validation", "test")


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
    threshold = group_threshold(tables["train"])
    for number, (split, most) in enumerate(zip(SPLITS, config.queries, strict=True)):
        if split not in tables or not most:
            continue
        table = tables[split]
        own = group_threshold(table) if config.threshold_per_split else threshold
        # Each split has its own stream, so that leaving one out changes no other.
        generator = np.random.default_rng([config.seed, number])
        result[split] = select(table, own, most, generator, split)
    return result


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

"""What every dataset promises."""

import dataclasses
import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch

from drobench.checks.no_network import no_network, tried_at_import
from drobench.checks.snapshots import snapshot
from drobench.checks.subject import Checks
from drobench.data.cache import CACHE_VARIABLE, State, cache_root, state
from drobench.data.dataset import Dataset, DatasetConfig, Split
from drobench.errors import DrobenchError
from drobench.registry import DatasetEntry

_SPLITS = ("train", "validation", "test")
# What a word in `provides` stands for: the field of a split that must be there.
_FIELDS = {
    "groups": "groups",
    "attributes": "attributes",
    "queries": "queries",
    "relevance": "relevance",
    "targets": "targets",
}
_WHOLE_NUMBERS = ("labels", "groups", "queries")
_SAME_PARTS = {"standardize": False}


class DatasetChecks(Checks):
    """One test for each thing that a dataset promises.

        class TestMyDataset(DatasetChecks):
            name = "my_dataset"

    Data that have to be fetched are checked where they are in the cache, and skipped elsewhere.
    """

    kind: ClassVar[str] = "dataset"
    subject: DatasetEntry

    def load(self, **changes: Any) -> Dataset:
        """Load the dataset, with some settings changed; skip the check where the data are not at hand."""
        self.loaded()
        dataset: Dataset = self.subject.factory(dataclasses.replace(self.config, **changes))
        return dataset

    def loaded(self) -> Dataset:
        """Return the dataset as it was loaded once for all checks that only look at it."""
        self._skip_unless_fetched()
        try:
            return _load_once(self.subject.factory, self.config)
        except DrobenchError as error:
            missing = [f"dataset.{name}" for name in self._unset() if f"dataset.{name}=" in str(error)]
            if missing:
                pytest.skip(f"needs {' and '.join(missing)}: give the checks `settings`")
            self.fail_all(
                self.message(
                    "the data to be loaded with the settings of the checks",
                    f"{type(error).__name__}: {error}",
                    "correct the loader, or give the checks `settings`",
                )
            )

    def test_schema_is_that_of_a_dataset(self) -> None:
        """Names, shapes and types fit together in every split."""
        dataset = self.loaded()
        self._same("name", dataset.name, self.subject.name)
        columns = len(dataset.feature_names)
        for name in ("feature_mean", "feature_scale"):
            tensor = getattr(dataset, name)
            self._same(f"{name}", (tuple(tensor.shape), tensor.dtype), ((columns,), torch.float64))
        for where, split in _present(dataset):
            self._same(f"columns of {where}", split.columns, columns)
            self.expect(split.rows > 0, f"rows in {where}, or None for it", "an empty split", "leave it out")
            piece = _some_rows(split)
            self._same(f"precision of {where}.features", piece.features.is_floating_point(), True)
            finite = all(bool(tensor.isfinite().all()) for tensor in piece.tensors().values())
            self.expect(finite, f"finite numbers in {where}", "NaN or infinity", "fill in or drop such rows")
            for name, tensor in piece.tensors().items():
                self._same(f"rows of {where}.{name}", len(tensor), piece.rows)
                if name in _WHOLE_NUMBERS:
                    self._same(f"type of {where}.{name}", tensor.dtype, torch.int64)
            low, high = int(piece.labels.min()), int(piece.labels.max())
            self.expect(
                low >= 0 and high < max(dataset.classes, 1),
                f"labels of {where} from 0 to {max(dataset.classes, 1) - 1}",
                f"from {low} to {high}",
                "number the classes from 0, or use `build_dataset`",
            )

    def test_provides_what_it_says(self) -> None:
        """Each word of `provides` is true of the data, and the entry knows it beforehand."""
        dataset = self.loaded()
        extra = dataset.provides - self.subject.provides
        self.expect(
            not extra,
            "the entry to name in `provides` all that the loaded data provide",
            f"that {', '.join(sorted(extra))} is missing there",
            "add it, or nobody will find the dataset who needs it",
        )
        self.expect(
            ("binary_labels" in dataset.provides) == (dataset.classes == 2),
            "`binary_labels` exactly where there are two classes",
            f"{dataset.classes} classes and {sorted(dataset.provides)}",
            "correct `provides` of the data",
        )
        for word, field in _FIELDS.items():
            for where, split in _present(dataset):
                there = field in _some_rows(split).tensors()
                self.expect(
                    there or word not in dataset.provides,
                    f"{where}.{field}, since the data provide {word!r}",
                    "none",
                    f"fill in `{field}`, or leave the word out of `provides`",
                )
        if "queries" in dataset.provides:
            for where, split in _present(dataset):
                numbers = _some_rows(split).queries
                assert numbers is not None
                self.expect(
                    bool((numbers.diff() >= 0).all()),
                    f"the rows of each query of {where} together, in the order of their numbers",
                    "a query that is interrupted or out of order",
                    "sort the rows by query",
                )

    def test_splits_share_no_row(self) -> None:
        """No row is used twice, shown by counting: the splits together hold no row more often than the data do."""
        dataset = self._loaded_plain()
        counts = Counter(row for _, split in _present(dataset) for row in _contents(split))
        whole = self._whole()
        if whole is None:
            repeated = any(len(set(rows)) < len(rows) for rows in (_contents(split) for _, split in _present(dataset)))
            if repeated:
                pytest.skip("rows repeat within a split and the data cannot be had unsplit: equal rows prove nothing")
            available = dict.fromkeys(counts, 1)
        else:
            available = Counter(_contents(whole.train))
        twice = sum(count > available.get(row, 0) for row, count in counts.items())
        self.expect(
            twice == 0,
            "each row in one split only",
            f"{twice} rows that the splits hold more often than the data do",
            "cut the rows into splits by number, as `build_dataset` does",
        )

    def test_two_loads_are_the_same(self) -> None:
        """The same settings give the same data and the same checksum."""
        first, second = self.loaded(), self.load()
        self._same("sha256 of a second load", second.sha256, first.sha256)
        for (where, one), (_, other) in zip(_present(first), _present(second), strict=True):
            self.expect(
                snapshot(_some_rows(one).tensors()) == snapshot(_some_rows(other).tensors()),
                f"the same rows of {where} in two loads",
                "different ones",
                "draw from a generator seeded by `config.seed`",
            )

    def test_another_seed_gives_another_split(self) -> None:
        """`seed` decides which rows are for training, and the checksum says so."""
        first = self.loaded()
        if first.streamed:
            pytest.skip("rows that stay in a file are split in their order, whatever the seed")
        if not hasattr(self.config, "seed"):
            pytest.skip("the data have no seed")
        second = self.load(seed=self.config.seed + 1)
        self.expect(
            second.sha256 != first.sha256,
            "another seed to give other data, or another split of them, under another checksum",
            f"{first.sha256[:12]}... for both",
            "split by `config.seed`, as `build_dataset` does",
        )

    def test_checksum_is_that_of_the_content(self) -> None:
        """`sha256`, computed again from the tensors."""
        dataset = self.loaded()
        if dataset.streamed:
            pytest.skip("the checksum of rows that stay in a file is that of the file")
        self._same("sha256", dataset.sha256, _checksum(dataset))

    def test_import_needs_no_network(self) -> None:
        """Importing the module of the dataset reaches for nothing."""
        self.expect(
            not (found := tried_at_import(self.subject.factory.__module__)),
            "the module of the dataset to be imported without a network",
            found,
            "fetch data when they are loaded, and only by `drobench data fetch`",
        )

    def test_loading_needs_no_network(self) -> None:
        """What is embedded or cached is loaded without a network."""
        self.loaded()
        with no_network() as tried:
            try:
                self.load()
            except Exception as error:
                self.fail(
                    "the data to be loaded without a network",
                    f"{type(error).__name__}: {error}",
                    "embed the data, generate them, or name in `files` what has to be fetched beforehand",
                )
        self.expect(
            not tried,
            "no attempt to reach the network",
            f"attempts to reach {', '.join(tried[:3])}",
            "name in `files` what has to be fetched; `drobench data fetch` fetches it",
        )

    def test_loading_writes_nothing_to_the_cache(self, tmp_path: Path) -> None:
        """A cache that holds everything may be read-only; what is embedded needs none."""
        self.loaded()
        with self._cache(tmp_path) as folder:
            before = _listing(folder)
            self.load()
            after = _listing(folder)
        self.expect(
            before == after,
            "a cache that loading leaves as it is",
            f"changes in {', '.join(sorted({name for name, _, _ in before ^ after})[:3])}",
            "write to the cache only when data are fetched",
        )

    def _skip_unless_fetched(self) -> None:
        entry = self.subject
        held = state(entry.name, entry.files) if entry.files else State.VERIFIED
        if entry.intake is not None:
            held = entry.intake.state(False)
        if held is State.ABSENT:
            pytest.skip(f"not in the cache: `drobench data fetch {entry.name}` brings it there")

    def _unset(self) -> list[str]:
        """Return the settings that have no value yet."""
        return [field.name for field in dataclasses.fields(self.config) if getattr(self.config, field.name) is None]

    def _loaded_plain(self) -> Dataset:
        """Return the data without scaling, which depends on the split."""
        return self.load(**_SAME_PARTS) if isinstance(self.config, DatasetConfig) else self.load()

    def _whole(self) -> Dataset | None:
        """Return the data in one split, where the loader can do that."""
        if not isinstance(self.config, DatasetConfig):
            return None
        try:
            whole = self.load(split=[1.0, 0.0, 0.0], **_SAME_PARTS)
        except DrobenchError:
            return None
        return whole if whole.validation is None and whole.test is None else None

    def _same(self, what: str, found: Any, expected: Any) -> None:
        self.expect(found == expected, f"{what}: {expected!r}", f"{found!r}", "use `drobench.data.build.build_dataset`")

    @contextmanager
    def _cache(self, empty: Path) -> Iterator[Path]:
        """Yield the folder of the cache: the real one where there is something in it, else an empty read-only one."""
        if self.subject.files or self.subject.intake is not None:
            yield cache_root()
            return
        folder = empty / "cache"
        folder.mkdir(mode=0o555)
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(os.environ, CACHE_VARIABLE, str(folder))
            yield folder


_last: dict[Any, Dataset] = {}


def _load_once(factory: Any, config: Any) -> Dataset:
    """Load data, and keep the last ones, since a class of checks stays on one dataset."""
    key = factory, snapshot(config)
    if key not in _last:
        found = factory(config)
        _last.clear()
        _last[key] = found
    return _last[key]


def _present(dataset: Dataset) -> list[tuple[str, Split]]:
    splits = ((name, getattr(dataset, name)) for name in _SPLITS)
    return [(name, split) for name, split in splits if split is not None]


def _some_rows(split: Split) -> Split:
    """Return rows in memory: all of them, or of a file the first piece."""
    return split.take(next(iter(split.pieces()))) if split.streamed else split


def _contents(split: Split) -> list[bytes]:
    """Return every row, with all that is known of it, as bytes."""
    rows: list[bytes] = []
    for piece in split.pieces():
        parts = [tensor.numpy().reshape(len(tensor), -1) for tensor in split.take(piece).tensors().values()]
        rows += [b"".join(part[row].tobytes() for part in parts) for row in range(len(parts[0]))]
    return rows


def _checksum(dataset: Dataset) -> str:
    """Return the SHA-256 over names, shapes, types and bytes of all tensors, little end first."""
    digest = hashlib.sha256()
    for where, split in _present(dataset):
        for name, tensor in split.tensors().items():
            array = tensor.numpy()
            array = array.astype(array.dtype.newbyteorder("<"))
            digest.update(json.dumps([where, name, list(array.shape), array.dtype.str]).encode() + array.tobytes())
    return digest.hexdigest()


def _listing(folder: Path) -> set[tuple[str, int, int]]:
    found = folder.rglob("*") if folder.exists() else []
    return {(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in found if path.is_file()}

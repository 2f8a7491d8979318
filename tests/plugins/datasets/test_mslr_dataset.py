"""MSLR as a dataset: from texts, from what was taken over, and its settings."""

import json
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
from letor_samples import folds, table, text, write

from drobench.data.cache import DownloadError, State
from drobench.data.dataset import DataError
from drobench.errors import SettingError
from drobench_plugins.datasets import letor_cache
from drobench_plugins.datasets.letor_text import FEATURES, parse_letor
from drobench_plugins.datasets.mslr import (
    MslrConfig,
    cache_state,
    entry,
    load_mslr,
    mslr_dataset,
    take,
)

REAL = Path(os.environ.get("DROBENCH_REAL_DATA") or Path(__file__).parents[4] / "shared" / "data")
SLICE = next(iter(REAL.rglob("msn1.fold1.train.5k.txt")), None)
real_data = pytest.mark.skipif(
    SLICE is None, reason=f"the slices of MSLR-WEB are not in {REAL}; DROBENCH_REAL_DATA=DIR says where"
)


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    folder = tmp_path / "cache"
    monkeypatch.setenv("DROBENCH_DATA", str(folder))
    return folder


def test_the_dataset_has_queries_groups_and_relevance(tmp_path):
    dataset = load_mslr(MslrConfig(path=str(folds(tmp_path / "in"))))
    assert dataset.provides == entry().provides == {"labels", "binary_labels", "queries", "groups"}
    assert len(dataset.feature_names) == len(set(dataset.feature_names)) == 251
    for split in (dataset.train, dataset.validation, dataset.test):
        assert split.queries.min() == 0
        assert (split.queries.diff() >= 0).all()
        assert (split.relevance > 1).long().equal(split.labels)
        assert split.relevance.is_floating_point()
    np.testing.assert_allclose(dataset.train.features.mean(0), 0, atol=1e-9)


def test_without_a_validation_text_there_is_no_validation(tmp_path):
    dataset = load_mslr(MslrConfig(path=str(folds(tmp_path / "in", vali=False))))
    assert dataset.validation is None
    assert dataset.test is not None


def test_a_split_can_be_left_out(tmp_path):
    dataset = load_mslr(MslrConfig(path=str(folds(tmp_path / "in")), queries=[5, 0, 5]))
    assert dataset.validation is None


def test_a_single_text_is_for_training(tmp_path):
    path = write(tmp_path / "anything.dat", table())
    dataset = load_mslr(MslrConfig(path=str(path)))
    assert dataset.validation is dataset.test is None


def test_a_text_is_parsed_once_and_again_after_a_change(tmp_path, cache, monkeypatch):
    source = folds(tmp_path / "in")
    config = MslrConfig(path=str(source))
    first = load_mslr(config).sha256
    (contents,) = [json.loads(path.read_text()) for path in cache.rglob("contents.json") if "train" in path.read_text()]
    assert len(contents["source_sha256"]) == 64
    with monkeypatch.context() as patched:
        patched.setattr(letor_cache, "read_blocks", None)
        assert load_mslr(config).sha256 == first
    path = source / "Fold1" / "train.txt"
    status = path.stat()
    changed = table(seed=1)
    changed.relevance[:] = changed.relevance[::-1].copy()
    write(path, changed)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert path.stat().st_size == status.st_size
    assert load_mslr(config).sha256 != first


def test_a_damaged_cache_of_a_text_is_made_anew(tmp_path, cache):
    config = MslrConfig(path=str(folds(tmp_path / "in")))
    first = load_mslr(config).sha256
    for path in cache.rglob("features.bin"):
        path.write_bytes(b"")
    assert load_mslr(config).sha256 == first


def test_without_a_cache_texts_are_read_all_the_same(tmp_path, monkeypatch):
    config = MslrConfig(path=str(folds(tmp_path / "in")))
    first = load_mslr(config).sha256
    (tmp_path / "occupied").write_text("no folder")
    monkeypatch.setenv("DROBENCH_DATA", str(tmp_path / "occupied"))
    assert load_mslr(config).sha256 == first


def test_a_fold_that_is_not_there_is_named(tmp_path):
    with pytest.raises(DataError, match=r"fold 4 is needed; found 1 in .*dataset\.fold="):
        load_mslr(MslrConfig(path=str(folds(tmp_path / "in")), fold=4))


def test_data_that_are_not_there_are_explained():
    with pytest.raises(DownloadError) as caught:
        load_mslr(MslrConfig())
    message = str(caught.value)
    assert "`drobench data fetch mslr --from DIR`" in message
    assert "dataset=mslr_twin" in message
    assert "fetch mslr`" not in message


@pytest.mark.parametrize("archive", [False, True])
def test_data_that_were_taken_over_are_loaded_without_their_texts(archive, tmp_path):
    source = folds(tmp_path / "in")
    expected = load_mslr(MslrConfig(path=str(source))).sha256
    assert cache_state(thorough=True) is State.ABSENT
    if archive:
        with zipfile.ZipFile(tmp_path / "MSLR.zip", "w") as target:
            for path in source.rglob("*.txt"):
                target.write(path, path.relative_to(source))
    assert len(take(tmp_path / "MSLR.zip" if archive else source)) == 3
    for path in source.rglob("*.txt"):
        path.unlink()
    assert load_mslr(MslrConfig()).sha256 == expected
    assert cache_state(thorough=True) is State.VERIFIED


def test_taking_over_other_data_leaves_nothing_of_the_old(tmp_path):
    take(folds(tmp_path / "in"))
    take(folds(tmp_path / "other", vali=False))
    assert load_mslr(MslrConfig()).validation is None


def test_damage_to_what_was_taken_over_is_found(tmp_path, cache):
    take(folds(tmp_path / "in"))
    path = cache / "mslr" / "Fold1" / "test" / "relevance.bin"
    content = bytearray(path.read_bytes())
    content[0] ^= 1
    path.write_bytes(content)
    assert cache_state(thorough=False) is State.VERIFIED
    assert cache_state(thorough=True) is State.DAMAGED


def test_an_archive_with_an_escaping_member_writes_nothing_outside(tmp_path, cache):
    with zipfile.ZipFile(tmp_path / "evil.zip", "w") as target:
        target.writestr("../Fold1/train.txt", text(table()))
    with pytest.raises(DownloadError, match="leads out of the archive"):
        take(tmp_path / "evil.zip")
    assert not list(tmp_path.rglob("train*"))


@pytest.mark.parametrize("damage", ["cut", "overwritten"])
def test_a_damaged_archive_is_refused(damage, tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as target:
        target.writestr("Fold1/train.txt", text(table([40])))
    content = bytearray((tmp_path / "a.zip").read_bytes())
    if damage == "cut":
        content = content[: len(content) // 2]
    else:
        content[2000:3000] = bytes(1000)
    (tmp_path / "a.zip").write_bytes(content)
    with pytest.raises(DownloadError, match="must be a sound zip archive"):
        take(tmp_path / "a.zip")


@pytest.mark.parametrize(
    "settings",
    [
        {"queries": [0, 1, 1]},
        {"queries": [1, 1]},
        {"queries": [1, -1, 1]},
        {"fold": 0},
        {"split": [0.5, 0.25, 0.25]},
        {"seed": -1},
    ],
)
def test_impossible_settings_are_refused(settings):
    with pytest.raises(SettingError):
        MslrConfig(**settings)


def test_a_synthetic_table_goes_the_same_way():
    dataset = mslr_dataset("mslr_twin", {"train": table(), "test": table(seed=4)}, MslrConfig(), twin=True)
    assert dataset.name == "mslr_twin"
    assert dataset.twin is True
    assert dataset.validation is None


@real_data
def test_the_real_slices_are_what_they_are_known_to_be():
    counts = {"train": [2792, 1458, 665, 55, 30], "test": [2847, 1442, 579, 98, 34]}
    for split, labels in counts.items():
        content = parse_letor(SLICE.with_name(f"msn1.fold1.{split}.5k.txt"))
        assert content.features.shape == (5000, FEATURES)
        assert np.bincount(content.relevance).tolist() == labels
        queries = np.unique(content.queries)
        assert len(queries) == 43
        np.testing.assert_array_equal(np.diff(queries), 15)


@real_data
def test_the_real_slices_are_read_as_scikit_learn_reads_them():
    from sklearn.datasets import load_svmlight_file

    features, relevance, queries = load_svmlight_file(str(SLICE), query_id=True)
    content = parse_letor(SLICE)
    np.testing.assert_array_equal(content.features, features.toarray())
    np.testing.assert_array_equal(content.relevance, relevance)
    np.testing.assert_array_equal(content.queries, queries)


@real_data
def test_the_real_slices_make_a_dataset():
    dataset = load_mslr(MslrConfig(path=str(SLICE.parent)))
    assert dataset.train.features.shape[1] == 251
    assert dataset.validation is None
    assert int(dataset.train.queries.max()) + 1 >= 15
    assert int(dataset.test.queries.max()) + 1 >= 15

"""MSLR: texts, their binary form, and the choice of queries and documents."""

import json
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

from drobench.data.cache import DownloadError, State
from drobench.data.dataset import DataError
from drobench.errors import SettingError
from drobench_plugins.datasets import letor_cache, letor_text
from drobench_plugins.datasets.letor_sources import find_folds
from drobench_plugins.datasets.letor_text import FEATURES, LetorTable, parse_letor
from drobench_plugins.datasets.mslr import (
    KEPT_FEATURES,
    PAGE_RANK,
    QUALITY,
    MslrConfig,
    cache_state,
    encode,
    entry,
    load_mslr,
    mslr_dataset,
    select,
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


def table(sizes: list[int] | None = None, seed: int = 0) -> LetorTable:
    """Random documents of several queries, a third of them relevant, with small whole numbers and fractions."""
    sizes = [100] * 6 if sizes is None else sizes
    generator = np.random.default_rng(seed)
    rows = sum(sizes)
    features = np.round(generator.gamma(2.0, 10.0, (rows, FEATURES)), 6)
    features[:, ::3] = np.floor(features[:, ::3])
    features[generator.random((rows, FEATURES)) < 0.2] = 0
    queries = np.repeat(1 + 15 * np.arange(len(sizes)), sizes)
    return LetorTable(features, generator.choice(5, rows, p=[0.4, 0.25, 0.25, 0.06, 0.04]), queries)


def text(content: LetorTable, end: str = " \r\n", sparse: bool = False) -> str:
    """The table as the publisher writes it."""
    lines = []
    for features, relevance, query in zip(content.features, content.relevance, content.queries, strict=True):
        pairs = [f"{number}:{value:.15g}" for number, value in enumerate(features, 1) if value or not sparse]
        lines.append(" ".join([str(relevance), f"qid:{query}", *pairs]) + end)
    return "".join(lines)


def write(path: Path, content: LetorTable | str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes((content if isinstance(content, str) else text(content)).encode())
    return path


def same(left: LetorTable, right: LetorTable) -> bool:
    return all(
        np.array_equal(getattr(left, part), getattr(right, part)) for part in ("features", "relevance", "queries")
    )


def folds(root: Path, vali: bool = True) -> Path:
    write(root / "Fold1" / "train.txt", table(seed=1))
    write(root / "Fold1" / "test.txt", table(seed=2))
    if vali:
        write(root / "Fold1" / "vali.txt", table(seed=3))
    return root


# The text


@pytest.mark.parametrize("end", [" \r\n", "\r\n", "\n", " \n"])
@pytest.mark.parametrize("sparse", [False, True])
def test_texts_are_read_exactly_whatever_their_line_ends(end, sparse, tmp_path):
    content = table([3, 1, 5])
    assert same(parse_letor(write(tmp_path / "a.txt", text(content, end, sparse))), content)


def test_the_last_line_may_lack_its_end(tmp_path):
    content = table([4])
    assert same(parse_letor(write(tmp_path / "a.txt", text(content).rstrip())), content)


def test_blank_lines_and_remarks_are_passed_over(tmp_path):
    content = table([4])
    lines = text(content, "\n").splitlines()
    assert same(parse_letor(write(tmp_path / "a.txt", "\n" + "\n\n".join(lines) + "\n\n")), content)
    assert same(parse_letor(write(tmp_path / "b.txt", "".join(f"{line} #docid = G1\n" for line in lines))), content)


@pytest.mark.parametrize("sparse", [False, True])
def test_a_text_is_read_in_blocks_of_any_size(sparse, tmp_path, monkeypatch):
    content = table([7, 5])
    path = write(tmp_path / "a.txt", text(content, sparse=sparse))
    for block in (700, 5000, 40_000):
        monkeypatch.setattr(letor_text, "_BLOCK", block)
        assert same(parse_letor(path), content)


def test_both_ways_of_reading_agree_and_the_complete_one_is_used(tmp_path, monkeypatch):
    content = table([40])
    path = write(tmp_path / "a.txt", content)
    slow = letor_text._read_slowly(path.read_bytes(), "a", 1, True)
    monkeypatch.setattr(letor_text, "_read_slowly", None)
    assert same(parse_letor(path), slow)


LINE = text(table([1]), "\n")


def shortened(line: str) -> str:
    return line.rsplit(" ", 1)[0] + "\n"


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (LINE + shortened(LINE), "line 2: all 136 features are needed, as in the first line; found 135"),
        (LINE + LINE + LINE[:100].rsplit(":", 1)[0], "line 3"),
        (LINE + LINE.replace(" 7:", " 8:", 1), "each feature at most once"),
        (LINE + LINE.replace(" 7:", " 137:", 1), "a feature from 1 to 136"),
        (LINE + LINE.replace(" 7:", " x:", 1), "found 'x:"),
        (LINE + LINE.replace("qid:1", "qid:one"), "`qid:` and a whole number; found 'qid:one'"),
        (LINE + LINE.replace("qid:1 ", ""), "exactly one `qid:NUMBER` is needed; found 0"),
        (LINE + LINE.replace("qid:1", "qid:1 qid:2"), "found 2"),
        (LINE + "-1" + LINE[1:], "a relevance, a whole number from 0; found '-1'"),
        (LINE + "1.5" + LINE[1:], "a relevance, a whole number from 0; found '1.5'"),
        (LINE + "relevant" + LINE[1:], "line 2: expected a relevance"),
        (LINE + "0 qid:1 1:nan" + LINE[LINE.index(" 2:") :], "a finite value; found '1:nan'"),
        (LINE + "0 qid:1 1:1e999" + LINE[LINE.index(" 2:") :], "a finite value; found '1:1e999'"),
        (LINE + "0 qid:1 1:" + LINE[LINE.index(" 2:") :], "found '1:'"),
        ("0 qid:1 1:3 2:\n", "line 1"),
        ("0,1,2,3\n", "line 1"),
        ("", "at least one document"),
        (" \r\n\n", "at least one document"),
    ],
)
def test_a_line_in_another_format_is_named(content, found, tmp_path):
    path = write(tmp_path / "a.txt", content)
    with pytest.raises(DataError) as caught:
        parse_letor(path)
    assert found in str(caught.value)
    assert str(path) in str(caught.value)


def test_lines_are_counted_over_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(letor_text, "_BLOCK", 3000)
    path = write(tmp_path / "a.txt", "\n" + LINE * 9 + shortened(LINE))
    with pytest.raises(DataError, match="line 11:"):
        parse_letor(path)


@pytest.mark.parametrize("content", [b"\x00\xff" * 50, b"\x1f\x8b\x08" + bytes(100)])
def test_a_binary_file_is_refused(content, tmp_path):
    (tmp_path / "a.txt").write_bytes(content)
    with pytest.raises(DataError, match="line 1"):
        parse_letor(tmp_path / "a.txt")


def test_a_file_without_line_ends_is_given_up_early(tmp_path, monkeypatch):
    monkeypatch.setattr(letor_text, "_BLOCK", 1000)
    monkeypatch.setattr(letor_text, "_LONGEST_LINE", 5000)
    (tmp_path / "a.txt").write_bytes(b"1" * 50_000)
    with pytest.raises(DataError, match="a line of more than 5000 bytes"):
        parse_letor(tmp_path / "a.txt")


# The binary form


def test_the_binary_form_is_the_same_table(tmp_path):
    content = table([30, 5])
    path = write(tmp_path / "a.txt", content)
    with path.open("rb") as stream:
        assert letor_cache.store(stream, "a", tmp_path / "stored") == 35
    loaded = letor_cache.load(tmp_path / "stored")
    assert same(loaded, content)
    assert not loaded.features.flags.writeable
    assert letor_cache.state(tmp_path / "stored", thorough=True) is State.VERIFIED


@pytest.fixture
def stored(tmp_path):
    with write(tmp_path / "a.txt", table([30])).open("rb") as stream:
        letor_cache.store(stream, "a", tmp_path / "stored")
    return tmp_path / "stored"


@pytest.mark.parametrize("name", ["features.bin", "relevance.bin", "queries.bin", "contents.json"])
@pytest.mark.parametrize("damage", ["gone", "short", "empty"])
def test_a_damaged_binary_form_is_noticed_on_loading(name, damage, stored):
    path = stored / name
    content = path.read_bytes()
    path.unlink()
    if damage != "gone":
        path.write_bytes(content[:-1] if damage == "short" else b"")
    assert letor_cache.state(stored, thorough=False) is State.DAMAGED
    with pytest.raises(DownloadError, match="damaged"):
        letor_cache.load(stored)


@pytest.mark.parametrize("contents", ["[]", "{}", '{"format": 2}', '{"format": 1, "rows": -1, "sha256": {}}'])
def test_contents_of_another_kind_are_damage(contents, stored):
    (stored / "contents.json").write_text(contents)
    assert letor_cache.state(stored, thorough=False) is State.DAMAGED


def test_a_changed_number_is_noticed_when_every_byte_is_read(stored):
    content = bytearray((stored / "features.bin").read_bytes())
    content[0] ^= 1
    (stored / "features.bin").write_bytes(content)
    assert letor_cache.state(stored, thorough=True) is State.DAMAGED


def test_a_text_that_cannot_be_read_leaves_what_was_stored(stored, tmp_path):
    with write(tmp_path / "b.txt", "nonsense\n").open("rb") as stream, pytest.raises(DataError):
        letor_cache.store(stream, "b", stored)
    assert letor_cache.state(stored, thorough=True) is State.VERIFIED
    assert not list(tmp_path.glob(".building-*"))


# Finding the texts


def test_folds_are_found_by_their_names(tmp_path):
    folds(tmp_path / "MSLR-WEB10K")
    write(tmp_path / "MSLR-WEB10K" / "Fold2" / "train.txt", LINE)
    write(tmp_path / "MSLR-WEB10K" / "readme.txt", "hello")
    found = find_folds(tmp_path)
    assert {number: sorted(fold) for number, fold in found.items()} == {
        1: ["test", "train", "validation"],
        2: ["train"],
    }


def test_slices_with_the_fold_in_their_name_are_found(tmp_path):
    for split in ("train", "test"):
        write(tmp_path / f"msn1.fold1.{split}.5k.txt", LINE)
    assert sorted(find_folds(tmp_path)[1]) == ["test", "train"]


def test_a_folder_without_training_text_is_refused(tmp_path):
    write(tmp_path / "Fold1" / "test.txt", LINE)
    with pytest.raises(DataError, match=r"a training text, such as Fold1/train\.txt, is needed"):
        find_folds(tmp_path)
    with pytest.raises(DataError, match="there is no folder or archive"):
        find_folds(tmp_path / "nowhere")


def test_two_texts_that_could_be_meant_are_refused(tmp_path):
    write(tmp_path / "10K" / "Fold1" / "train.txt", LINE)
    write(tmp_path / "30K" / "Fold1" / "train.txt", LINE)
    with pytest.raises(DataError, match="one fold 1 is needed"):
        find_folds(tmp_path)
    write(tmp_path / "10K" / "Fold1" / "train.more.txt", LINE)
    with pytest.raises(DataError, match="one train text is needed"):
        find_folds(tmp_path / "10K")


# The choice of queries and documents


def test_features_labels_and_groups_are_those_of_the_documents():
    content = table()
    rows = encode({"train": content}, MslrConfig())["train"]
    threshold = np.quantile(content.features[:, QUALITY], 0.4)
    assert rows.features.shape == (len(rows.labels), 2 * KEPT_FEATURES + 1)
    np.testing.assert_array_equal(rows.labels, rows.relevance > 1)
    np.testing.assert_array_equal(rows.features[:, KEPT_FEATURES], rows.groups)
    # Each row is a document of the file: found by its first features, which no other has.
    places = [
        int(np.flatnonzero((content.features[:, :KEPT_FEATURES] == row[:KEPT_FEATURES]).all(axis=1))[0])
        for row in rows.features
    ]
    np.testing.assert_array_equal(content.relevance[places], rows.relevance)
    np.testing.assert_array_equal(content.features[places, QUALITY] > threshold, rows.groups)
    for query in np.unique(rows.queries):
        own = rows.queries == query
        assert len(np.unique(content.queries[places][own])) == 1
        np.testing.assert_allclose(
            rows.features[own, KEPT_FEATURES + 1 :],
            np.broadcast_to(rows.features[own, :KEPT_FEATURES].mean(axis=0), (own.sum(), KEPT_FEATURES)),
        )
        assert (np.diff(content.features[places, PAGE_RANK][own]) >= 0).all()


def test_positives_stay_and_negatives_are_thinned_out_at_the_stated_rate():
    content = table([2000] * 20)
    rows = encode({"train": content}, MslrConfig())["train"]
    assert rows.labels.sum() == (content.relevance > 1).sum()
    # Over all places the mean of the probability is 0.5 (0.7 + 0.3 b), and that of b is 0.
    kept = (rows.labels == 0).sum() / (content.relevance <= 1).sum()
    assert kept == pytest.approx(0.65, abs=0.06)


def test_a_query_keeps_its_place_by_the_stated_probabilities():
    """With a = 1 and b = 1 the first negative is dropped for sure and the last never; a generator that says so."""

    class Told:
        def uniform(self, low, high, shape):
            return np.ones(shape)

        def random(self, size):
            return np.full(size, 0.499)

    content = table([101])
    rows = select(content, float(np.median(content.features[:, QUALITY])), 1, Told())  # type: ignore[arg-type]
    order = np.argsort(content.features[:, PAGE_RANK], kind="stable")
    negative = content.relevance[order] <= 1
    place = np.arange(101)
    expected = ~(negative & (1 - place / 100 > 0.499))
    np.testing.assert_array_equal(rows.relevance, content.relevance[order][expected])


def test_queries_are_numbered_in_order_and_stand_together():
    rows = encode({"train": table([100] * 8)}, MslrConfig())["train"]
    np.testing.assert_array_equal(np.unique(rows.queries), np.arange(8))
    assert (np.diff(rows.queries) >= 0).all()


def test_every_query_has_enough_of_everything():
    rows = encode({"train": table([3, 1, 25, 60, 19, 80, 40, 100, 33])}, MslrConfig())["train"]
    count = int(rows.queries.max()) + 1
    assert 1 <= count < 9
    cells = np.bincount(4 * rows.queries + 2 * rows.groups + rows.labels, minlength=4 * count).reshape(count, 4)
    assert (cells > 4).all()
    assert (cells[:, [0, 2]].sum(axis=1) >= 10).all()
    assert (cells[:, [1, 3]].sum(axis=1) >= 10).all()


def test_a_query_that_comes_back_later_is_one_query():
    content = table([120, 120])
    order = np.concatenate([np.arange(0, 60), np.arange(120, 240), np.arange(60, 120)])
    mixed = LetorTable(content.features[order], content.relevance[order], content.queries[order])
    rows = encode({"train": mixed}, MslrConfig())["train"]
    whole = encode({"train": content}, MslrConfig())["train"]
    np.testing.assert_array_equal(np.bincount(rows.queries), np.bincount(whole.queries))
    assert (np.diff(rows.queries) >= 0).all()


def test_queries_may_stand_in_any_order():
    content = table([100] * 5)
    turned = LetorTable(content.features, content.relevance, content.queries[::-1].copy())
    np.testing.assert_array_equal(
        encode({"train": content}, MslrConfig())["train"].features,
        encode({"train": turned}, MslrConfig())["train"].features,
    )


def test_at_most_the_wanted_number_of_queries_is_used_the_first_ones():
    content = {"train": table([100] * 6), "test": table([100] * 6, seed=9)}
    all_rows = encode(content, MslrConfig())
    few = encode(content, MslrConfig(queries=[3, 5, 2]))
    assert few["train"].queries.max() == 2
    assert few["test"].queries.max() == 1
    count = len(few["train"].queries)
    np.testing.assert_array_equal(few["train"].features, all_rows["train"].features[:count])
    assert "test" not in encode(content, MslrConfig(queries=[3, 5, 0]))


def test_the_seed_decides_which_documents_are_dropped():
    content = {"train": table()}
    one, again, other = (encode(content, MslrConfig(seed=seed))["train"] for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.features, again.features)
    assert one.features.shape != other.features.shape or (one.features != other.features).any()


def test_the_threshold_is_that_of_the_training_documents_unless_asked_otherwise():
    train, test = table(seed=1), table(seed=2)
    test.features[:, QUALITY] += 5
    content = {"train": train, "test": test}
    level = np.quantile(train.features[:, QUALITY], 0.4)
    common = encode(content, MslrConfig())["test"]
    own = encode(content, MslrConfig(threshold_per_split=True))["test"]
    assert common.groups.mean() == pytest.approx((test.features[:, QUALITY] > level).mean(), abs=0.1)
    assert common.groups.mean() > own.groups.mean() + 0.05
    np.testing.assert_array_equal(
        encode(content, MslrConfig())["train"].groups,
        encode(content, MslrConfig(threshold_per_split=True))["train"].groups,
    )


def test_if_no_query_is_suitable_the_message_counts_where_they_fell():
    content = table([5, 1, 30, 60])
    content.relevance[6:36] = 0
    content.features[36:, QUALITY] = 1e6
    with pytest.raises(DataError) as caught:
        encode({"train": content}, MslrConfig())
    message = str(caught.value)
    assert "of its 4 queries none is left" in message
    assert "2 with fewer than 20 documents" in message
    assert "1 with fewer than 10 positive or negative ones" in message
    assert "1 with fewer than 5 of a group and label" in message


def test_documents_too_few_everywhere_fall_at_the_first_filter():
    with pytest.raises(DataError, match="of its 3 queries none is left: 3 with fewer than 20 documents"):
        encode({"train": table([1, 1, 19])}, MslrConfig())


# The dataset


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


# The real slices


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

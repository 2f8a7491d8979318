"""The binary form of learning-to-rank data: the same table, and no damage unnoticed."""

import pytest
from letor_samples import same, table, write

from drobench.data.cache import DownloadError, State
from drobench.data.dataset import DataError
from drobench_plugins.datasets import letor_cache


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


@pytest.mark.parametrize(
    ("name", "damage"),
    [("features.bin", "gone"), ("relevance.bin", "short"), ("queries.bin", "empty"), ("contents.json", "gone")],
)
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

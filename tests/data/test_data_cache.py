"""The cache: where it is, what it holds, and that it may be read-only."""

import pytest
from download_samples import CONTENT, described, refused

from drobench.data.cache import (
    DownloadError,
    RemoteFile,
    State,
    cache_folder,
    cache_root,
    file_state,
    missing,
    require,
)
from drobench.data.download import fetch

pytestmark = pytest.mark.usefixtures("cache")


def test_a_read_only_cache_that_holds_everything_works(tmp_path, cache):
    (tmp_path / "some.data").write_bytes(CONTENT)
    file = described()
    fetch("thing", (file,), tmp_path)
    (cache / "thing" / ".lock").unlink(missing_ok=True)
    (cache / "thing").chmod(0o500)
    try:
        before = sorted(cache.rglob("*"))
        assert require("thing", (file,)) == fetch("thing", (file,)) == [cache / "thing" / "some.data"]
        assert sorted(cache.rglob("*")) == before
    finally:
        (cache / "thing").chmod(0o700)


def test_a_cache_that_cannot_be_written_is_reported(tmp_path, monkeypatch):
    (tmp_path / "some.data").write_bytes(CONTENT)
    (tmp_path / "occupied").write_text("a file, no folder")
    monkeypatch.setenv("DROBENCH_DATA", str(tmp_path / "occupied"))
    message = refused("thing", (described(),), tmp_path)
    assert "cannot be written" in message
    assert "DROBENCH_DATA=DIR" in message


def test_absent_data_come_with_every_way_to_get_them(cache):
    with pytest.raises(DownloadError) as caught:
        require("adult", (described(name="adult.data"), described(name="adult.test")), twin="adult_twin")
    assert str(caught.value) == (
        f"dataset=adult needs adult.data and adult.test, not found in {cache / 'adult'}: run `drobench data fetch "
        "adult` or `drobench data fetch adult --from DIR`, or use dataset=adult_twin."
    )
    assert "`drobench data fetch x --from DIR`." in str(missing("x", "y", downloadable=False))


def test_a_damaged_file_is_never_used(cache):
    (cache / "thing").mkdir(parents=True)
    (cache / "thing" / "some.data").write_bytes(CONTENT[:-1])
    with pytest.raises(DownloadError, match="must have the SHA-256") as caught:
        require("thing", (described(),))
    assert "drobench data fetch thing" in str(caught.value)
    assert file_state(cache / "thing" / "some.data", described()) is State.DAMAGED


def test_the_cache_is_in_the_users_cache_folder_unless_moved(monkeypatch, tmp_path):
    assert cache_root() == tmp_path / "cache"
    monkeypatch.delenv("DROBENCH_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    assert cache_folder("adult").parts[-2:] == ("drobench", "adult")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../a", "a\\b", "a\0"])
def test_a_name_that_leads_elsewhere_is_refused(name):
    with pytest.raises(DownloadError, match="file name without folders"):
        RemoteFile(name, "0" * 64, 1)


@pytest.mark.parametrize("sha256", ["", "0" * 63, "G" * 64, "A" * 64])
def test_a_checksum_that_is_none_is_refused(sha256):
    with pytest.raises(DownloadError, match="64 lower-case hexadecimal digits"):
        RemoteFile("a", sha256, 1)


def test_a_negative_size_is_refused():
    with pytest.raises(DownloadError, match="number of bytes"):
        RemoteFile("a", "0" * 64, -1)

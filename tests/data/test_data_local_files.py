"""Files from folders and archives of this machine, whatever else is in them."""

import hashlib
import os

import pytest
from download_samples import CONTENT, described, leftovers, refused, zipped

from drobench.data.cache import State, state
from drobench.data.download import fetch

pytestmark = pytest.mark.usefixtures("cache")


def test_local_files_are_found_by_name_anywhere_below_a_folder(tmp_path, cache):
    deep = tmp_path / "in" / "a" / "b"
    deep.mkdir(parents=True)
    (deep / "some.data").write_bytes(CONTENT)
    (tmp_path / "in" / "some.data").write_bytes(b"an older version")
    file = described()
    (found,) = fetch("thing", (file,), tmp_path / "in")
    assert found.read_bytes() == CONTENT
    assert leftovers(cache / "thing") == []


@pytest.mark.parametrize("whole", [True, False])
def test_local_archives_are_looked_into(whole, tmp_path):
    path = zipped(tmp_path / "download.zip", {"folder/some.data": CONTENT})
    fetch("thing", (described(),), path if whole else tmp_path)
    assert state("thing", (described(),)) is State.VERIFIED


def test_a_local_file_with_another_content_is_refused_with_both_checksums(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "some.data").write_bytes(b"other")
    message = refused("thing", (described(),), tmp_path / "in")
    assert described().sha256 in message
    assert hashlib.sha256(b"other").hexdigest() in message
    assert "5 bytes" in message
    assert state("thing", (described(),)) is State.ABSENT


def test_a_folder_without_the_file_is_refused(tmp_path):
    (tmp_path / "in").mkdir()
    assert "found no file of that name" in refused("thing", (described(),), tmp_path / "in")


def test_a_missing_folder_is_refused(tmp_path):
    assert "There is no folder" in refused("thing", (described(),), tmp_path / "nowhere")


def test_a_pipe_or_a_folder_of_that_name_is_no_file(tmp_path):
    (tmp_path / "in" / "some.data").mkdir(parents=True)
    os.mkfifo(tmp_path / "in" / "some.data" / "some.data")
    assert "found no file of that name" in refused("thing", (described(),), tmp_path / "in")


@pytest.mark.parametrize("escape", ["../some.data", "/some.data", "a/../../some.data", "C:/some.data", "..\\some.data"])
def test_an_archive_whose_paths_lead_out_of_it_is_refused(escape, tmp_path):
    source = tmp_path / "in" / "deep"
    source.mkdir(parents=True)
    zipped(source / "evil.zip", {escape: CONTENT})
    before = set(tmp_path.rglob("*"))
    message = refused("thing", (described(),), source)
    assert "leads out of the archive" in message or "found no file of that name" in message
    added = {path.name for path in set(tmp_path.rglob("*")) - before}
    assert added <= {"cache", "thing", ".lock"}


def test_an_archive_that_unpacks_to_too_much_is_refused(tmp_path):
    bomb = zipped(tmp_path / "bomb.zip", {"some.data": b"0" * 50_000_000})
    assert bomb.stat().st_size < 100_000
    assert f"at most {len(CONTENT)} bytes" in refused("thing", (described(),), bomb)


def test_an_archive_that_lies_about_sizes_is_refused(tmp_path):
    path = zipped(tmp_path / "lie.zip", {"some.data": CONTENT * 2})
    content = path.read_bytes()
    true, false = (len(CONTENT) * 2).to_bytes(4, "little"), len(CONTENT).to_bytes(4, "little")
    path.write_bytes(content.replace(true, false))
    message = refused("thing", (described(),), path)
    assert "lie.zip" in message or "SHA-256" in message

"""Files and folders that are there whole or not at all."""

import os
import stat

import pytest

from drobench.files import file_sha256, host_name, temporary_name, whole_file, whole_folder, write_atomically


class StoppedError(Exception):
    pass


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_text_and_bytes_are_written_with_the_folders_they_need(tmp_path):
    write_atomically(tmp_path / "deep" / "text", "Größe")
    write_atomically(tmp_path / "deep" / "bytes", b"\x00\xff")
    assert (tmp_path / "deep" / "text").read_text(encoding="utf-8") == "Größe"
    assert (tmp_path / "deep" / "bytes").read_bytes() == b"\x00\xff"
    assert names(tmp_path / "deep") == ["bytes", "text"]


def test_a_file_takes_its_name_only_at_the_end(tmp_path):
    target = tmp_path / "file"
    target.write_text("old")
    with whole_file(target) as stream:
        stream.write(b"new")
        stream.flush()
        assert target.read_text() == "old"
        (built,) = set(tmp_path.iterdir()) - {target}
        assert built.parent == target.parent
        assert built.read_text() == "new"
    assert target.read_text() == "new"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("error", [StoppedError, KeyboardInterrupt, OSError])
def test_what_fails_leaves_the_old_file_and_nothing_else(tmp_path, error):
    target = tmp_path / "file"
    target.write_text("old")

    def write() -> None:
        with whole_file(target) as stream:
            stream.write(b"half of the n")
            raise error

    with pytest.raises(error):
        write()
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_name_that_is_taken_by_a_folder_leaves_nothing_behind(tmp_path):
    (tmp_path / "taken").mkdir()
    with pytest.raises(OSError, match="taken"):
        write_atomically(tmp_path / "taken", "text")
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


def test_the_content_is_on_the_disk_before_the_name_is(tmp_path, monkeypatch):
    target, calls = tmp_path / "file", []
    synced, replaced = os.fsync, type(target).replace
    monkeypatch.setattr(os, "fsync", lambda descriptor: calls.append("fsync") or synced(descriptor))
    monkeypatch.setattr(type(target), "replace", lambda *paths: calls.append("replace") or replaced(*paths))
    write_atomically(target, "text")
    assert calls == ["fsync", "replace"]


def test_what_is_written_is_as_readable_as_any_other_file(tmp_path):
    mask = os.umask(0o022)
    try:
        write_atomically(tmp_path / "file", "text")
        with whole_folder(tmp_path / "folder"):
            pass
    finally:
        os.umask(mask)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o644
    assert stat.S_IMODE((tmp_path / "folder").stat().st_mode) == 0o755


def test_a_folder_takes_its_name_only_at_the_end(tmp_path):
    target = tmp_path / "deep" / "folder"
    with whole_folder(target) as built:
        (built / "inner").mkdir()
        (built / "inner" / "file").write_text("text")
        assert not target.exists()
    assert (target / "inner" / "file").read_text() == "text"
    assert list(target.parent.iterdir()) == [target]


def test_a_folder_that_fails_leaves_the_old_one_and_nothing_else(tmp_path):
    target = tmp_path / "folder"
    target.mkdir()
    (target / "old").touch()

    def fill() -> None:
        with whole_folder(target, replace=True) as built:
            (built / "new").touch()
            raise StoppedError

    with pytest.raises(StoppedError):
        fill()
    assert names(target) == ["old"]
    assert list(tmp_path.iterdir()) == [target]


def test_a_folder_is_replaced_only_on_request(tmp_path):
    target = tmp_path / "folder"
    for name in ("old", "new"):
        with whole_folder(target, replace=True) as built:
            (built / name).touch()
    assert names(target) == ["new"]
    with pytest.raises(OSError, match="folder"), whole_folder(target):
        pass
    assert names(target) == ["new"]
    assert list(tmp_path.iterdir()) == [target]


def test_a_temporary_name_tells_its_process_and_is_used_once():
    first, second = temporary_name(), temporary_name()
    assert first != second
    assert first.split("-")[-2] == str(os.getpid())
    assert os.sep not in first


def test_the_checksum_is_the_known_one(tmp_path):
    (tmp_path / "file").write_bytes(b"abc")
    assert file_sha256(tmp_path / "file") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def left_by(process, folder, host=None):
    """What a writer with this number has left: a file, and a folder with something in it."""
    left = folder / f".building-{host or host_name()}-{process}-{'0' * 32}"
    left.write_text("half of it")
    other = folder / f".building-{host or host_name()}-{process}-{'1' * 32}"
    other.mkdir()
    (other / "inside").write_text("half of it")
    return [left, other]


def write_folder(target, text):
    with whole_folder(target) as built:
        (built / "inside").write_text(text)


@pytest.mark.parametrize("write", [write_atomically, write_folder])
def test_what_a_dead_writer_left_is_removed_by_the_next_one(tmp_path, write):
    # Of a number that no system gives to a process.
    dead, alive = left_by(2**22 + 1, tmp_path), left_by(os.getpid(), tmp_path)
    elsewhere = left_by(2**22 + 1, tmp_path, host="another-machine")
    mine = tmp_path / ".building-of-mine"
    mine.write_text("mine")
    write(tmp_path / "target", "text")
    assert not any(path.exists() for path in dead)
    assert all(path.exists() for path in (*alive, *elsewhere, mine, tmp_path / "target"))

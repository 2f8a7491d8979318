"""A folder takes its place in one move, and what dead processes left goes."""

import os
import time

import pytest

from drobench.errors import DrobenchError
from drobench.files import host_name, temporary_name
from drobench.results import folders


def folder(parent, name: str, content: str):
    made = parent / name
    made.mkdir()
    (made / "file").write_text(content)
    return made


def test_a_free_place_is_taken(tmp_path):
    assert folders.install(folder(tmp_path, "built", "new"), tmp_path / "target") is None
    assert (tmp_path / "target" / "file").read_text() == "new"
    assert not (tmp_path / "built").exists()


@pytest.mark.parametrize("exchanged", [True, False])
def test_what_was_there_is_handed_back(tmp_path, monkeypatch, exchanged):
    if not exchanged:
        monkeypatch.setattr(folders, "_exchange", lambda *_: False)
    target = folder(tmp_path, "target", "old")
    before = folders.install(folder(tmp_path, "built", "new"), target)
    assert (target / "file").read_text() == "new"
    assert (before / "file").read_text() == "old"


def test_a_place_that_never_comes_free_is_given_up(tmp_path, monkeypatch):
    def gone(*_):
        raise FileNotFoundError

    monkeypatch.setattr(folders, "_exchange", gone)
    target = folder(tmp_path, "target", "old")
    with pytest.raises(DrobenchError, match="replaced by other processes again and again"):
        folders.install(folder(tmp_path, "built", "new"), target)
    assert (target / "file").read_text() == "old"


def test_only_what_is_old_and_of_the_dead_is_removed(tmp_path):
    unused = 2**22 + 1  # above the largest process number that Linux gives out
    names = {
        "old and dead": f"{host_name()}-{unused}-a",
        "of another machine": "elsewhere-1-a",
        "mine": temporary_name(),
        "no temporary name": "kept",
    }
    for name in names.values():
        made = folder(tmp_path, name, "")
        os.utime(made, (0, time.time() - 2 * folders.DAY))
    folder(tmp_path, f"{host_name()}-{unused}-b", "young")
    folders.remove_leftovers(tmp_path)
    assert {item.name for item in tmp_path.iterdir()} == {names["mine"], "kept", f"{host_name()}-{unused}-b"}
    folders.remove_leftovers(tmp_path / "nothing")

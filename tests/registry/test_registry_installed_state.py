"""One checksum of all that the catalogue follows from."""

import importlib
import os
import sys
from importlib.metadata import EntryPoint

import pytest

from drobench.registry.installed_state import installed_state, packages_of


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Make a package that can be found, and never imported."""
    folder = tmp_path / "found_not_imported"
    (folder / "inner").mkdir(parents=True)
    for name in ("__init__.py", "hooks.py", "inner/__init__.py"):
        (folder / name).write_text("raise RuntimeError('imported')\n")
    (folder / "data.csv").write_text("1,2\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    yield folder
    assert "found_not_imported" not in sys.modules


def state(value="found_not_imported.hooks", name="guest"):
    return installed_state([EntryPoint(name, value, "drobench")])


def test_the_packages_of_entry_points_are_their_top_names():
    points = [EntryPoint("a", "one.two:three", "drobench"), EntryPoint("b", "one", "drobench")]
    assert packages_of([*points, EntryPoint("c", "another : plugin", "drobench")]) == ["another", "one"]


def test_it_stays_while_nothing_changes_and_looks_at_no_compiled_files(package):
    before = state()
    (package / "__pycache__").mkdir()
    (package / "__pycache__" / "hooks.pyc").write_bytes(b"compiled")
    assert state() == before


@pytest.mark.parametrize("file", ["hooks.py", "inner/__init__.py", "inner/new.py", "new.toml"])
def test_any_edited_or_added_file_counts(package, file):
    before = state()
    (package / file).write_text("raise RuntimeError('edited!!')\n")
    assert state() != before


def test_other_files_count_by_their_time(package):
    before = state()
    os.utime(package / "data.csv", ns=(1, 1))
    assert state() != before


def test_a_removed_file_counts(package):
    before = state()
    (package / "data.csv").unlink()
    assert state() != before


def test_entry_points_count(package):
    assert len({state(), state(name="other"), state(value="found_not_imported.inner")}) == 3


def test_what_is_left_out_counts(package, monkeypatch):
    before = state()
    monkeypatch.setenv("DROBENCH_DISABLE_PLUGINS", "guest")
    assert state() != before


@pytest.mark.parametrize("value", ["not_there_at_all.hooks", "", ".relative"])
def test_an_entry_point_that_leads_nowhere_is_no_error(value):
    assert state(value) == state(value)

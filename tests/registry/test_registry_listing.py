"""The list of what is installed, kept on the disk: when it is taken, when it is made again, what it says."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from drobench.errors import SettingError
from drobench.registry import build_catalogue, listing, load_catalogue
from drobench.registry.catalogue import Source
from drobench.registry.listing import list_catalogue, list_folder

STRANGER = """
from dataclasses import dataclass
from drobench import DatasetEntry, hookimpl

@dataclass
class Config:
    rows: int = 3
    \"\"\"How many.\"\"\"

@hookimpl
def drobench_datasets():
    return [DatasetEntry(name="{name}", summary="Rows.", config=Config, factory=Config)]
"""


@pytest.fixture
def stranger(tmp_path, monkeypatch):
    """Install one package, and nothing else, in a process that has a cache of its own."""
    site = tmp_path / "site"
    information = site / "listed_stranger-1.0.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: listed-stranger\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[drobench]\nlisted_stranger = listed_stranger\n")
    module = site / "listed_stranger.py"
    module.write_text(STRANGER.format(name="first"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "path", [str(site), *sys.path])
    points = [importlib.metadata.EntryPoint("listed_stranger", "listed_stranger", "drobench")]
    (distribution,) = importlib.metadata.distributions(name="listed_stranger", path=[str(site)])
    points = [point._for(distribution) for point in points]
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: points)
    yield module
    sys.modules.pop("listed_stranger", None)


def restart():
    """Forget what a process knows that is about to end."""
    load_catalogue.cache_clear()
    sys.modules.pop("listed_stranger", None)
    importlib.invalidate_caches()


def names():
    """List the datasets, as a new process would, and say whether the plugin was imported for it."""
    restart()
    listed = list(list_catalogue().datasets)
    return listed, "listed_stranger" in sys.modules


def test_the_second_time_the_plugin_is_not_imported(stranger):
    assert names() == (["first"], True)
    (file,) = list_folder().glob("*.json")
    assert names() == (["first"], False)
    found = list_catalogue().datasets["first"]
    assert (found.plugin, found.distribution, found.version) == ("listed_stranger", "listed-stranger", "1.0")
    assert found.entry.config().rows == 3
    assert list(list_folder().iterdir()) == [file]


def test_the_list_says_what_the_plugins_say(stranger):
    names()
    restart()
    from_list = list_catalogue()
    assert "listed_stranger" not in sys.modules
    real = load_catalogue()
    assert from_list.plugins == real.plugins
    assert from_list.disabled == real.disabled
    assert {plural: list(entries) for plural, entries in from_list.of_kinds().items()} == {
        plural: list(entries) for plural, entries in real.of_kinds().items()
    }


def test_a_loaded_catalogue_is_its_own_list(stranger):
    restart()
    assert load_catalogue() is list_catalogue()


def test_an_edited_plugin_makes_the_list_again(stranger):
    names()
    stranger.write_text(STRANGER.format(name="other"))
    assert names() == (["other"], True)
    assert names() == (["other"], False)
    # Of the same length and with the time of before: it is the content that counts.
    times = stranger.stat().st_atime_ns, stranger.stat().st_mtime_ns
    stranger.write_text(STRANGER.format(name="third"))
    os.utime(stranger, ns=times)
    assert names() == (["third"], True)


def test_another_installed_package_makes_the_list_again(stranger):
    names()
    (stranger.parent / "helper-2.0.dist-info").mkdir()
    assert names() == (["first"], True)


def test_a_plugin_left_out_makes_another_list(stranger, monkeypatch):
    names()
    monkeypatch.setenv("DROBENCH_DISABLE_PLUGINS", "listed_stranger")
    assert names() == ([], False)
    assert list_catalogue().disabled == ("listed_stranger",)
    monkeypatch.delenv("DROBENCH_DISABLE_PLUGINS")
    assert names() == (["first"], False)


@pytest.mark.parametrize("damage", [b"", b"\xff\xfe", b"half", None], ids=["empty", "no text", "other", "cut"])
def test_a_damaged_list_is_made_again(stranger, damage):
    names()
    (file,) = list_folder().glob("*.json")
    whole = file.read_bytes()
    file.write_bytes(whole[:-20] if damage is None else damage)
    assert names() == (["first"], True)
    assert file.read_bytes() == whole
    assert names() == (["first"], False)


def test_an_altered_list_is_made_again(stranger):
    names()
    (file,) = list_folder().glob("*.json")
    file.write_text(file.read_text().replace('"first"', '"forged"'))
    assert names() == (["first"], True)


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is refused to the administrator")
def test_a_cache_that_cannot_be_written_to_costs_only_time(stranger, tmp_path):
    (tmp_path / "cache").mkdir(mode=0o500)
    assert names() == (["first"], True)
    assert names() == (["first"], True)


def test_a_cache_that_is_a_file_costs_only_time(stranger, tmp_path):
    (tmp_path / "cache").write_text("in the way")
    assert names() == (["first"], True)
    assert names() == (["first"], True)


def test_troubles_are_told_every_time_and_never_kept(stranger):
    stranger.write_text("raise RuntimeError('no device today')")
    for _ in range(2):
        restart()
        (trouble,) = list_catalogue().troubles
        assert "no device today" in trouble.message
    assert not list(list_folder().glob("*.json"))


def test_what_was_imported_before_an_edit_is_not_kept_as_what_is_there_after_it(stranger):
    restart()
    load_catalogue()
    stranger.write_text(STRANGER.format(name="other"))
    load_catalogue.cache_clear()
    assert list(list_catalogue().datasets) == ["first"]
    assert names() == (["other"], True)


def test_old_lists_go(stranger):
    for number in range(listing._KEPT + 3):
        stranger.write_text(STRANGER.format(name=f"number{number}"))
        names()
    assert len(list(list_folder().glob("*.json"))) == listing._KEPT
    assert names() == ([f"number{listing._KEPT + 2}"], False)


def test_an_impossible_time_limit_is_refused_with_a_list_too(stranger, monkeypatch):
    names()
    monkeypatch.setenv("DROBENCH_PLUGIN_TIMEOUT", "soon")
    restart()
    with pytest.raises(SettingError, match="soon"):
        list_catalogue()


def test_a_setting_that_cannot_be_listed_means_no_list(stranger):
    source = STRANGER.format(name="first").replace("rows: int = 3", "rows: Path = Path()")
    stranger.write_text(source.replace("from drobench", "from pathlib import Path\nfrom drobench"))
    assert names() == (["first"], True)
    assert names() == (["first"], True)


def test_everything_installed_survives_the_way_through_the_file(tmp_path):
    def load():
        return importlib.import_module("drobench_plugins.hooks")

    found = build_catalogue([Source(plugin="ours", distribution="drobench", version="1", loader=load)])
    file = tmp_path / "list.json"
    listing._keep(file, found)
    back = listing._read(file)
    assert back is not None
    assert {plural: list(entries) for plural, entries in back.of_kinds().items()} == {
        plural: list(entries) for plural, entries in found.of_kinds().items()
    }
    assert str(back.solvers["gcivr"]) == str(found.solvers["gcivr"])


@pytest.mark.process
def test_listing_what_is_installed_imports_neither_torch_nor_a_plugin(tmp_path):
    code = (
        "import sys\n"
        "from drobench.registry import list_catalogue\n"
        "assert 'gcivr' in list_catalogue().solvers\n"
        "print([name for name in ('torch', 'pytorch_lightning', 'drobench_plugins') if name in sys.modules])\n"
    )
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    words = [sys.executable, "-c", code]
    first, second = (
        subprocess.run(words, env=environment, capture_output=True, text=True, check=True).stdout for _ in range(2)
    )
    assert "drobench_plugins" in first
    assert second.strip() == "[]"
    assert list(Path(tmp_path, "drobench", ".lists").glob("*.json"))

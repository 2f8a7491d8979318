"""A plugin says which version of the interface it was made for, and is left alone where that version is not here."""

import pytest

import drobench
from drobench.registry import PLUGIN_API, build_catalogue, plugins


@pytest.fixture
def read(plugin, source, solver):
    """Read a plugin that declares a version beside a sound one; return the catalogue and the hooks that were called."""

    def read(*declared: object):
        called = []
        guest = plugin(drobench_solvers=lambda: called.append("solvers") or [solver("guest_solver")])
        if declared:
            (guest.drobench_api,) = declared
        sound = source(plugin(drobench_solvers=[solver("sound")]), name="sound", distribution="zebra")
        catalogue = build_catalogue([source(guest), sound])
        assert "sound" in catalogue.solvers
        return catalogue, called

    return read


def versions(catalogue) -> dict[str, int | None]:
    return {it.plugin: it.api for it in catalogue.plugins}


def test_the_version_can_be_read_from_the_package():
    assert drobench.PLUGIN_API == PLUGIN_API == 1


def test_a_plugin_for_this_version_is_used_and_its_version_is_known(read):
    catalogue, called = read(PLUGIN_API)
    assert catalogue.troubles == ()
    assert called == ["solvers"]
    assert "guest_solver" in catalogue.solvers
    (found,) = [it for it in catalogue.plugins if it.plugin == "guest"]
    assert (found.distribution, found.version, found.api, found.entries) == ("stranger", "2.0", 1, 1)


def test_a_plugin_for_a_newer_version_is_reported_and_no_hook_of_it_is_called(read):
    catalogue, called = read(PLUGIN_API + 1)
    assert called == []
    assert "guest_solver" not in catalogue.solvers
    (trouble,) = catalogue.troubles
    assert (trouble.plugin, trouble.distribution) == ("guest", "stranger")
    assert "was made for plugin API 2, and this drobench has 1" in trouble.message
    assert "Upgrade drobench" in trouble.message
    assert versions(catalogue) == {"guest": 2, "sound": 1}


def test_a_plugin_for_a_removed_version_is_reported_and_no_hook_of_it_is_called(read, monkeypatch):
    monkeypatch.setattr(plugins, "PLUGIN_API", 4)
    monkeypatch.setattr(plugins, "OLDEST_PLUGIN_API", 3)
    monkeypatch.setattr(plugins, "UNDECLARED_PLUGIN_API", 3)
    catalogue, called = read(2)
    assert called == []
    (trouble,) = catalogue.troubles
    assert "was made for plugin API 2, which this drobench no longer has: it has 3 to 4" in trouble.message
    assert "Upgrade stranger, or ask its author" in trouble.message


def test_a_plugin_for_an_older_version_that_is_still_here_is_used(read, monkeypatch):
    monkeypatch.setattr(plugins, "PLUGIN_API", 2)
    catalogue, called = read(1)
    assert catalogue.troubles == ()
    assert called == ["solvers"]
    assert versions(catalogue)["guest"] == 1


def test_a_plugin_that_declares_nothing_counts_as_made_for_the_first_version(read, monkeypatch):
    monkeypatch.setattr(plugins, "PLUGIN_API", 2)
    catalogue, called = read()
    assert called == ["solvers"]
    assert versions(catalogue)["guest"] == 1


@pytest.mark.parametrize("declared", ["1", 1.0, True, None, (1,)])
def test_a_version_that_is_no_whole_number_is_reported(read, declared):
    catalogue, called = read(declared)
    assert called == []
    (trouble,) = catalogue.troubles
    assert "`drobench_api` must be the whole number" in trouble.message
    assert f"found {declared!r}" in trouble.message
    assert "DROBENCH_DISABLE_PLUGINS=guest" in trouble.message
    assert versions(catalogue)["guest"] is None


def test_a_plugin_that_cannot_be_imported_is_listed_without_a_version(source):
    def fail():
        from drobench.registry import Novelty  # noqa: F401

    catalogue = build_catalogue([source(fail)])
    assert versions(catalogue) == {"guest": None}
    (trouble,) = catalogue.troubles
    assert "cannot import name 'Novelty'" in trouble.message
    assert "It was made for another release of drobench; this one has plugin API 1." in trouble.message


def test_a_disabled_plugin_is_never_read(source, monkeypatch):
    def fail():
        raise AssertionError("was imported")

    monkeypatch.setenv("DROBENCH_DISABLE_PLUGINS", " guest , another")
    catalogue = build_catalogue([source(fail)])
    assert catalogue.disabled == ("guest",)
    assert catalogue.plugins == ()
    assert catalogue.troubles == ()

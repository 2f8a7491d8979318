"""`drobench plugins`, `new` and `check`: what is listed, what is written, what is refused."""

import re

import pytest
from app_samples import SMALL, forget_module, write_package

from drobench.registry import load_catalogue


def test_plugins_lists_what_is_installed_and_from_where(command):
    shown = command("plugins")
    assert shown.code == 0
    found = load_catalogue()
    for entries in (found.solvers, found.problems, found.datasets):
        for name, registered in entries.items():
            (line,) = [line for line in shown.out.splitlines() if line.split()[:1] == [name]]
            assert f"{registered.distribution} {registered.version}" in line


def test_plugins_reports_a_broken_one_and_shows_the_others(command, tmp_path, monkeypatch):
    source = "raise RuntimeError('this [plugin] is broken')"
    monkeypatch.syspath_prepend(str(write_package(tmp_path / "site", "broken_guest", source)))
    load_catalogue.cache_clear()
    try:
        shown = command("plugins")
        computed = command("run", *SMALL)
    finally:
        load_catalogue.cache_clear()
        forget_module("broken_guest")
    assert shown.code == 1
    assert "this [plugin] is broken" in shown.out
    assert "gcivr" in shown.out
    assert computed.code == 0
    assert "not used: plugin 'broken_guest' of stranger" in computed.err


def test_disabled_plugins_are_named(command, misbehaving, monkeypatch):
    monkeypatch.setenv("DROBENCH_DISABLE_PLUGINS", "misbehaving_guests")
    load_catalogue.cache_clear()
    shown = command("plugins")
    assert "disabled: misbehaving_guests" in shown.out
    assert "sleeping" not in shown.out


def test_a_reconstruction_is_said_where_plugins_are_listed_and_solvers_compared(command, monkeypatch):
    from drobench.results.comparison.notes import reconstruction_note

    monkeypatch.setenv("COLUMNS", "300")
    lines = {line.split()[0]: line for line in command("plugins").out.splitlines() if line.strip()}
    assert "[reconstructed]" in lines["sevr"]
    assert "[reconstructed]" not in lines["scgd"]
    assert reconstruction_note({}) is None


def test_new_writes_a_package_and_tells_the_next_steps(command, tmp_path):
    made = command("new", "solver", "mine", "--output", tmp_path / "here")
    assert made.code == 0
    files = [file for file in (tmp_path / "here" / "mine").rglob("*") if file.is_file()]
    assert f"a solver in src/mine/solver.py, its tests, {len(files)} files" in made.out
    assert "drobench run solver=mine" in made.out


def test_check_counts_what_it_found(command):
    shown = command("check", "scgd", "batch=4", "-k", "shape or state")
    assert shown.code == 0, shown
    counts = [int(word) for word in re.findall(r"(\d+) (?:passed|failed|skipped)", shown.out)]
    assert len(counts) == 3
    assert counts[0] > 0
    assert counts[1] == 0


@pytest.mark.parametrize(
    ("words", "mentioned"),
    [(["scgdd"], "no plugin with checks called 'scgdd'"), (["scgd", "a=b=[c"], "KEY=VALUE")],
)
def test_check_refuses_what_it_does_not_know(command, words, mentioned):
    ended = command("check", *words)
    assert ended.code == 2
    assert mentioned in ended.err

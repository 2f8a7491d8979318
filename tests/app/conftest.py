"""A clean process for every test, the command line as a function, and one small finished run."""

import logging
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from app_samples import HEAD, MISBEHAVING, SMALL, configured, forget_module, write_package
from hydra.core.config_store import ConfigStore

from drobench.app.config import CHOSEN_GROUPS, RunConfig
from drobench.registry import Catalogue, load_catalogue
from drobench.results.record import Record

_VARIABLES = ("DROBENCH_RESULTS", "DROBENCH_DISABLE_PLUGINS", "DROBENCH_PLUGIN_TIMEOUT", "COLUMNS", "FORCE_COLOR")


@pytest.fixture(autouse=True)
def _clean_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Let nothing in from outside, and leave nothing behind: a run prepares its process as a program may."""
    for name in _VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["pytest"])
    environment = dict(os.environ)
    # A program that is started in the background ignores Ctrl-C, and so would everything started here.
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for group in CHOSEN_GROUPS:
        # A guest stays a choice of its group for the life of the process, unless it is taken out.
        ConfigStore.instance().repo.pop(group, None)
    signal.signal(signal.SIGINT, handler)
    for logger in logging.root.manager.loggerDict.values():
        # A run of Hydra silences all loggers there are, its own included.
        if isinstance(logger, logging.Logger):
            logger.disabled = False
    for name in set(os.environ) - set(environment):
        del os.environ[name]


@pytest.fixture(scope="session")
def catalogue() -> Catalogue:
    """The catalogue of what is installed."""
    load_catalogue.cache_clear()
    found = load_catalogue()
    assert not found.troubles
    return found


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A folder of results that does not exist yet."""
    return tmp_path / "results"


@pytest.fixture
def configure(catalogue: Catalogue, results: Path) -> Callable[..., RunConfig]:
    """Compose a small run from further overrides; `base=()` starts from the defaults instead."""

    def make(*words: str, using: Catalogue = catalogue, base: tuple[str, ...] = SMALL) -> RunConfig:
        return configured(using, results, *words, base=base)

    return make


class Outcome(NamedTuple):
    """What a command left in the terminal."""

    code: int
    out: str
    err: str


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Run a command in this process."""
    from drobench.app.cli import main

    def call(*words: object) -> Outcome:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([str(word) for word in words])
        out, err = capsys.readouterr()
        assert ended.value.code is None or isinstance(ended.value.code, int)
        return Outcome(ended.value.code or 0, out, err)

    return call


@pytest.fixture
def misbehaving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Install a plugin with bad solvers, here and in every process started from here; gives its folder."""
    folder = write_package(tmp_path / "site", "misbehaving_guests", MISBEHAVING)
    monkeypatch.syspath_prepend(str(folder))
    load_catalogue.cache_clear()
    assert "sound" in load_catalogue().solvers
    yield folder
    forget_module("misbehaving_guests")
    load_catalogue.cache_clear()


@pytest.fixture(scope="session")
def _finished_once(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Record]]:
    from drobench import run

    folder = tmp_path_factory.mktemp("finished") / "results"
    small = [word for word in SMALL if not word.startswith("budget")]
    runs = {
        solver: run(f"solver={solver}", *small, "budget.passes=6", results=folder, seed=4)
        for solver in ("gcivr", "scgd", "unconstrained")
    }
    return folder, runs


@pytest.fixture
def finished(_finished_once: tuple[Path, dict[str, Record]], results: Path) -> tuple[Path, dict[str, Record]]:
    """A folder with three finished runs, to do with as one likes, and their records by solver."""
    folder, runs = _finished_once
    shutil.copytree(folder, results)
    return results, runs


@pytest.fixture
def sweep_file(tmp_path: Path) -> Callable[..., Path]:
    """Write a sweep of small cells; gives the path."""

    def write(text: str, head: str = HEAD) -> Path:
        file = tmp_path / "tiny.yaml"
        file.write_text(head + text)
        return file

    return write


@pytest.fixture
def planned(sweep_file, catalogue, results):
    """Plan a sweep of small cells."""
    from drobench.app.config import register
    from drobench.app.loading import LastDataset
    from drobench.app.sweep_file import load_sweep
    from drobench.app.sweep_plan import plan

    register(catalogue)

    def make(text, *extra, using=catalogue, head=HEAD):
        register(using)
        # In this process, where the guests are known.
        return plan(load_sweep(sweep_file(text, head)), list(extra), using, results, look=lambda *_: LastDataset())

    return make


@pytest.fixture
def bundle(finished, command, tmp_path):
    """Pack the finished runs."""
    folder, _ = finished
    outcome = command("pack", folder, "-o", tmp_path / "bundle.zip")
    assert outcome.code == 0, outcome.err
    assert "3 runs" in outcome.out
    return tmp_path / "bundle.zip"

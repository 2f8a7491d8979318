"""The circumstances of a run, as its record has them."""

import os
import platform
import subprocess
from importlib import metadata

import pytest

from drobench.app import environment as module
from drobench.app.environment import environment, hardware, peak_memory, versions


def test_versions_are_those_of_the_installed_packages():
    found = versions()
    assert found["python"] == platform.python_version()
    for name in ("torch", "numpy", "pytorch-lightning"):
        assert found[name] == metadata.version(name)


def test_a_package_that_is_not_there_is_unknown(monkeypatch):
    monkeypatch.setattr(module, "_DISTRIBUTIONS", ("no-such-package",))
    versions.cache_clear()
    try:
        assert versions()["no-such-package"] == "unknown"
    finally:
        versions.cache_clear()


def test_the_machine_is_described():
    found = hardware()
    assert found["cores"] == os.cpu_count()
    assert found["memory_bytes"] > 2**27
    assert found["processor"]
    assert found["system"].startswith(platform.system())


def test_memory_is_in_bytes():
    # A Python process with torch takes tens of megabytes, and no machine has a petabyte.
    assert 2**24 < peak_memory() < 2**50


def test_threads_and_ranks_are_those_of_the_run():
    found = environment(3, 2)
    assert (found.threads, found.world_size) == (3, 2)


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout with one committed file, in the place of ours."""
    monkeypatch.setattr(module, "_CHECKOUT", tmp_path)
    module._git_state.cache_clear()
    yield tmp_path
    module._git_state.cache_clear()


def test_an_installed_package_has_no_revision(checkout):
    found = environment(1, 1)
    assert (found.git_revision, found.git_dirty) == (None, None)


@pytest.mark.process
def test_a_checkout_tells_its_revision_and_whether_it_was_changed(checkout):
    def git(*words):
        settings = ("-c", "user.name=a", "-c", "user.email=a@b")
        done = subprocess.run(["git", "-C", checkout, *settings, *words], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    (checkout / "file").write_text("one")
    git("init", "-q")
    git("add", "file")
    git("commit", "-qm", "one")
    found = environment(1, 1)
    assert (found.git_revision, found.git_dirty) == (git("rev-parse", "HEAD"), False)
    (checkout / "file").write_text("two")
    module._git_state.cache_clear()
    assert environment(1, 1).git_dirty is True

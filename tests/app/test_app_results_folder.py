"""Where results are kept by default."""

import os
from pathlib import Path

import pytest

from drobench.app.results_folder import at_home, default_results, set_home_in_environment
from drobench.errors import DrobenchError


def test_the_environment_decides_and_else_it_is_a_folder_here(monkeypatch):
    monkeypatch.delenv("DROBENCH_RESULTS", raising=False)
    assert default_results() == Path("results")
    monkeypatch.setenv("DROBENCH_RESULTS", "/somewhere/else")
    assert default_results() == Path("/somewhere/else")


def test_the_home_folder_is_written_out(monkeypatch):
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.setenv("DROBENCH_RESULTS", "~/y")
    assert default_results() == Path("/home/somebody/y")
    set_home_in_environment()
    assert os.environ["DROBENCH_RESULTS"] == "/home/somebody/y"
    with pytest.raises(DrobenchError, match="~nobody_of_this_name"):
        at_home(Path("~nobody_of_this_name/x"))

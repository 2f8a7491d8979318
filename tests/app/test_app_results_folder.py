"""Where results are kept by default."""

from pathlib import Path

from drobench.app.results_folder import default_results


def test_the_environment_decides_and_else_it_is_a_folder_here(monkeypatch):
    monkeypatch.delenv("DROBENCH_RESULTS", raising=False)
    assert default_results() == Path("results")
    monkeypatch.setenv("DROBENCH_RESULTS", "/somewhere/else")
    assert default_results() == Path("/somewhere/else")

import pytest


@pytest.fixture
def cache(monkeypatch, tmp_path):
    """A folder for data of its own."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("DROBENCH_DATA", str(folder))
    return folder

"""The report as a file."""

from pathlib import Path

import pytest
from app_samples import stored_runs

from drobench.app.report_file import ReportUnwritable, write_report
from drobench.results.comparison.leaderboard import leaderboard
from drobench.results.report.content import gather


def test_report_that_cannot_be_written_is_explained(tmp_path):
    store = stored_runs(tmp_path / "results", solvers=("alpha",), seeds=1)
    records = store.records().records
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ReportUnwritable, match="cannot be written"):
        write_report(gather(leaderboard(records, store.curve), records, store.curve), tmp_path / "file" / "page.html")


def test_a_report_replaces_the_one_before_and_leaves_nothing_unfinished(tmp_path):
    store = stored_runs(tmp_path / "results")
    records = store.records().records
    file = tmp_path / "pages" / "page.html"
    file.parent.mkdir()
    file.write_text("the one before")
    size = write_report(gather(leaderboard(records, store.curve), records, store.curve), file)
    assert file.stat().st_size == size
    assert "beta" in file.read_text(encoding="utf-8")
    assert [found.name for found in file.parent.iterdir()] == ["page.html"]


def test_a_report_is_no_folder(tmp_path, monkeypatch):
    store = stored_runs(tmp_path / "results", solvers=("alpha",), seeds=1)
    records = store.records().records
    content = gather(leaderboard(records, store.curve), records, store.curve)
    monkeypatch.chdir(tmp_path)
    for folder in (Path(), Path(".."), tmp_path):
        with pytest.raises(ReportUnwritable, match=r"is a folder. Name a file in it"):
            write_report(content, folder)
    assert write_report(content, tmp_path / "not" / "there" / "page.html") > 0

"""The report as a file."""

import pytest

from drobench.app.report_file import ReportUnwritable, write_report
from drobench.results.comparison.leaderboard import leaderboard
from drobench.results.record import (
    Component,
    DatasetComponent,
    Iterate,
    Iterates,
    Record,
    Status,
    content_id,
)
from drobench.results.store import ResultStore

polars = pytest.importorskip("polars")


def stored(root, solvers=("alpha", "beta"), seeds=2):
    store = ResultStore(root)
    curve = polars.DataFrame({"step": [0, 10], "passes": [0.0, 1.0], "oracle_calls": [0, 9], "objective": [2.0, 1.0]})
    for solver in solvers:
        for seed in range(seeds):
            record = Record(
                run_id=content_id({"of": [solver, seed]}),
                status=Status.BUDGET_SPENT,
                seed=seed,
                started_at="2026-05-01T12:00:00+00:00",
                solver=Component(name=solver, config={}),
                problem=Component(name="robust", config={}),
                dataset=DatasetComponent(name="tiny", config={}, sha256="a" * 64),
                model={"name": "linear"},
                budget={"passes": 1},
                trainer={},
                iterates=Iterates(last=Iterate(objective=1.0, feasible=True)),
            )
            store.write(record, curve, {}, "seed: 0\n")
    return store


def test_report_that_cannot_be_written_is_explained(tmp_path):
    store = stored(tmp_path / "results", solvers=("alpha",), seeds=1)
    records = store.records().records
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ReportUnwritable, match="cannot be written"):
        write_report(store, records, leaderboard(records, store.curve), tmp_path / "file" / "page.html")


def test_a_report_replaces_the_one_before_and_leaves_nothing_unfinished(tmp_path):
    store = stored(tmp_path / "results")
    records = store.records().records
    file = tmp_path / "pages" / "page.html"
    file.parent.mkdir()
    file.write_text("the one before")
    size = write_report(store, records, leaderboard(records, store.curve), file)
    assert file.stat().st_size == size
    assert "beta" in file.read_text(encoding="utf-8")
    assert [found.name for found in file.parent.iterdir()] == ["page.html"]

"""The commands `report` and `plot`, and the report at the end of a sweep."""

import pytest

from drobench.app.cli import main
from drobench.app.report_file import ReportUnwritable, write_report
from drobench.results.comparison.leaderboard import leaderboard
from drobench.results.record import (
    Component,
    DatasetComponent,
    Iterate,
    Iterates,
    Record,
    Status,
    run_id,
)
from drobench.results.store import ResultStore

polars = pytest.importorskip("polars")


def stored(root, solvers=("alpha", "beta"), seeds=2):
    store = ResultStore(root)
    curve = polars.DataFrame({"step": [0, 10], "passes": [0.0, 1.0], "oracle_calls": [0, 9], "objective": [2.0, 1.0]})
    for solver in solvers:
        for seed in range(seeds):
            record = Record(
                run_id=run_id({"of": [solver, seed]}),
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


def run(*words):
    with pytest.raises(SystemExit) as ended:
        main(words)
    return ended.value.code


def test_report_writes_one_page_and_says_where(tmp_path, capsys):
    stored(tmp_path / "results")
    file = tmp_path / "new" / "page.html"
    assert run("report", "--results", str(tmp_path / "results"), "--output", str(file)) == 0
    assert "page.html: 4 runs" in capsys.readouterr().out
    assert "alpha" in file.read_text(encoding="utf-8")
    assert [found.name for found in file.parent.iterdir()] == ["page.html"]


def test_report_shows_only_the_chosen_runs(tmp_path, capsys):
    stored(tmp_path / "results")
    file = tmp_path / "page.html"
    words = ("report", "--results", str(tmp_path / "results"), "--output", str(file))
    assert run(*words, "--solver", "al*") == 0
    page = file.read_text(encoding="utf-8")
    assert "alpha" in page
    assert "beta" not in page
    assert run(*words, "--solver", "gamma") != 0
    assert "alpha, beta" in capsys.readouterr().err


def test_nothing_to_report_is_said_with_the_code_of_the_leaderboard(tmp_path, capsys):
    results = ("--results", str(tmp_path / "none"))
    expected = run("leaderboard", *results)
    assert expected != 0
    for words in (("report", "--output", str(tmp_path / "x.html")), ("plot", "--output", str(tmp_path / "x"))):
        capsys.readouterr()
        assert run(*words, *results) == expected
        assert "There are no results to compare" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_plot_lists_what_it_wrote(tmp_path, capsys):
    stored(tmp_path / "results")
    words = ("plot", "--results", str(tmp_path / "results"), "--output", str(tmp_path / "figures"), "--format", "svg")
    assert run(*words) == 0
    listed = [line for line in capsys.readouterr().out.splitlines() if line]
    assert sorted(listed) == sorted(str(file) for file in (tmp_path / "figures").iterdir())
    assert str(tmp_path / "figures" / "robust-on-tiny_objective_by_oracle_calls.svg") in listed


def test_report_that_cannot_be_written_is_explained(tmp_path):
    store = stored(tmp_path / "results", solvers=("alpha",), seeds=1)
    records = store.records().records
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ReportUnwritable, match="cannot be written"):
        write_report(store, records, leaderboard(records, store.curve), tmp_path / "file" / "page.html")

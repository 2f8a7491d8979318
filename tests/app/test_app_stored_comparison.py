"""Comparisons go on without runs that cannot be read, and say so."""

import json

import polars
import pytest
from app_samples import stored_runs

from drobench.app.stored_comparison import compare_stored, draw_stored
from drobench.results.comparison.leaderboard import NothingToCompare
from drobench.results.report.page import report_page


@pytest.fixture
def store(tmp_path):
    return stored_runs(tmp_path / "results", solvers=("alpha", "beta", "gamma"), seeds=2)


def poison(store, run_id, column, values):
    """Give a run a curve with a column of something else than numbers, as somebody would who seals it again."""
    folder = store.root / run_id
    rows = store.curve(run_id).height
    store.curve(run_id).with_columns(polars.Series(column, values * rows)).write_parquet(folder / "curve.parquet")
    content = json.loads((folder / "record.json").read_text())
    for name in ("files", "checksum", "asked", "code", "code_parts"):
        content.pop(name, None)
    (folder / "record.json").write_text(json.dumps(content))


@pytest.mark.parametrize("column", ["objective", "further"])
@pytest.mark.parametrize("values", [["text"], [{"a": 1}]])
def test_all_poisoned_runs_are_left_out_and_named(store, column, values):
    first, second, *others = [record.run_id for record in store.records().records]
    poison(store, first, column, values)
    poison(store, second, column, values)
    told = []
    found, content = draw_stored(store, told.append)
    assert {record.run_id for record in found.records} == set(others)
    assert sorted(trouble.path.name[:64] for trouble in told) == sorted([first, second])
    assert all("columns of numbers" in trouble.message for trouble in told)
    assert "gamma" in report_page(content)
    assert not (store.root / first).exists()
    again = []
    assert compare_stored(store, again.append).records == found.records
    assert again == []


def test_a_run_that_cannot_be_moved_is_left_out_all_the_same(store):
    first = store.records().records[0].run_id
    poison(store, first, "objective", ["text"])
    told = []
    with store.lock(first):
        found = compare_stored(store, told.append)
    assert first not in {record.run_id for record in found.records}
    assert "left in place" in told[0].message
    assert (store.root / first).exists()


def test_where_nothing_is_left_that_is_said_after_the_reasons(store):
    ids = [record.run_id for record in store.records().records]
    for run_id in ids:
        poison(store, run_id, "objective", ["text"])
    told = []
    with pytest.raises(NothingToCompare):
        compare_stored(store, told.append)
    assert len(told) == len(ids)


def test_only_those_kept_are_compared(store):
    def alpha(records):
        return [record for record in records if record.solver.name == "alpha"]

    found = compare_stored(store, pytest.fail, keep=alpha)
    assert {record.solver.name for record in found.records} == {"alpha"}
    assert [row.solver for board in found.leaderboard.boards for row in board.rows] == ["alpha"]

"""The log of a run: beside the record, once, and also for a run that is finished."""

import polars

from drobench.app.cell import run_cell
from drobench.app.prepare import prepare
from drobench.app.run_logs import log_of, log_stored
from drobench.results.store import ResultStore


def test_the_csv_logger_writes_beside_the_run_not_into_it(configure, catalogue, results):
    plain = run_cell(configure(), catalogue)
    config = configure("logger=csv")
    config.results = str(results.with_name("others"))
    logged = run_cell(config, catalogue)
    results = results.with_name("others")
    assert logged.run_id == plain.run_id
    metrics = polars.read_csv(results / ".logs" / plain.run_id / "metrics.csv")
    assert metrics["objective"].len() == ResultStore(results).curve(plain.run_id).height


def test_a_log_is_named_after_what_the_run_is(configure, catalogue, results):
    prepared = prepare(configure("solver=scgd", "seed=3", "logger=csv"), catalogue)
    log = log_of(prepared, results)
    assert log.folder == results / ".logs" / prepared.run_id


def test_only_the_first_rank_logs(configure, catalogue, results, monkeypatch):
    prepared = prepare(configure("logger=csv"), catalogue)
    # Set by some launcher further out, and not for us.
    monkeypatch.setenv("RANK", "1")
    assert log_of(prepared, results).open(continued=False) is not None
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "here")
    assert log_of(prepared, results).open(continued=False) is None


def test_a_finished_run_is_logged_where_its_log_is_missing(configure, catalogue, results):
    record = run_cell(configure(), catalogue)
    logs = results / ".logs" / record.run_id
    assert not logs.exists()
    assert run_cell(configure("logger=csv"), catalogue) == record
    metrics = polars.read_csv(logs / "metrics.csv")
    assert metrics["step"].to_list() == ResultStore(results).curve(record.run_id)["step"].to_list()
    before = (logs / "metrics.csv").stat().st_mtime_ns
    log_stored(prepare(configure("logger=csv"), catalogue), ResultStore(results))
    assert (logs / "metrics.csv").stat().st_mtime_ns == before

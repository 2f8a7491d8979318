"""The process of one cell: what it prints goes to its log, what it refuses to its record."""

import pytest
from app_samples import records_in

from drobench.app.config import to_yaml
from drobench.app.prepare import prepare
from drobench.app.sweep_server import start_server
from drobench.app.sweep_worker import Ended, Planned, work
from drobench.registry import load_catalogue
from drobench.results.store import ResultStore

pytestmark = pytest.mark.process


def worked(config, log, run_id=None, code=None):
    """Return the code of a worker and what it has told."""
    context = start_server()
    answers, told = context.Pipe(duplex=False)
    prepared = prepare(config, load_catalogue())
    planned = Planned(run_id or prepared.run_id, code or prepared.code.distributions)
    process = context.Process(target=work, args=(to_yaml(config), planned, str(log), told, 1.0))
    process.start()
    told.close()
    process.join()
    return process.exitcode, answers.recv().ended if answers.poll() else None


def test_the_output_of_a_cell_is_in_its_log(misbehaving, configure, results, tmp_path, monkeypatch, capfd):
    log = tmp_path / "log.txt"
    monkeypatch.setenv("PYTHONPATH", str(misbehaving), prepend=":")
    assert worked(configure("solver=raising", using=load_catalogue()), log) == (0, Ended.RECORDED)
    assert "ValueError: the guest has had enough" in log.read_text()
    assert "enough" not in "".join(capfd.readouterr())
    (folder,) = records_in(results)
    assert str(ResultStore(results).read(folder.name).status) == "failed"


def test_a_combination_that_makes_no_sense_is_recorded_as_skipped(configure, results, tmp_path):
    config = configure("problem=ranking_fairness", "solver=lagrangian")
    assert worked(config, tmp_path / "log.txt") == (0, Ended.RECORDED)
    (folder,) = records_in(results)
    record = ResultStore(results).read(folder.name)
    assert (str(record.status), record.dataset.sha256) == ("skipped", None)
    assert "queries" in record.reason


def test_a_cell_that_came_out_as_another_run_is_recorded_as_the_planned_one(configure, results, tmp_path):
    planned = "a" * 64
    assert worked(configure(), tmp_path / "log.txt", planned) == (0, Ended.RECORDED)
    (folder,) = records_in(results)
    record = ResultStore(results).read(planned)
    assert (folder.name, str(record.status), record.dataset.sha256) == (planned, "failed", None)
    assert "'synthetic' gave other data than when the sweep was planned" in record.reason


def test_a_cell_whose_code_was_edited_meanwhile_is_not_computed(configure, results, tmp_path):
    assert worked(configure(), tmp_path / "log.txt", code={"drobench": "0" * 64}) == (0, Ended.RECORDED)
    (folder,) = records_in(results)
    record = ResultStore(results).read(folder.name)
    assert str(record.status) == "failed"
    assert "The code has changed since the sweep was planned" in record.reason


def test_a_cell_that_another_process_holds_is_told_and_not_recorded(configure, results, tmp_path):
    config = configure()
    with ResultStore(results).lock(prepare(config, load_catalogue()).run_id):
        assert worked(config, tmp_path / "log.txt") == (0, Ended.BUSY)
    assert records_in(results) == []


def test_a_folder_that_cannot_be_written_to_is_told(configure, tmp_path):
    config = configure()
    (tmp_path / "file").write_text("in the way")
    config.results = str(tmp_path / "file")
    assert worked(config, tmp_path / "log.txt") == (0, Ended.UNUSABLE)

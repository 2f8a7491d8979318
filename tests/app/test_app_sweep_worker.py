"""The process of one cell: what it prints goes to its log, what it refuses to its record."""

import multiprocessing

import pytest
from app_samples import records_in

from drobench.app.config import to_yaml
from drobench.app.sweep_worker import work
from drobench.results.store import ResultStore

pytestmark = pytest.mark.process


def worked(config, log):
    process = multiprocessing.get_context("forkserver").Process(target=work, args=(to_yaml(config), str(log)))
    process.start()
    process.join()
    return process.exitcode


def test_the_output_of_a_cell_is_in_its_log(misbehaving, configure, results, tmp_path, monkeypatch, capfd):
    from drobench.registry import load_catalogue

    log = tmp_path / "log.txt"
    monkeypatch.setenv("PYTHONPATH", str(misbehaving), prepend=":")
    assert worked(configure("solver=raising", using=load_catalogue()), log) == 0
    assert "ValueError: the guest has had enough" in log.read_text()
    assert "enough" not in "".join(capfd.readouterr())
    (folder,) = records_in(results)
    assert str(ResultStore(results).read(folder.name).status) == "failed"


def test_a_combination_that_makes_no_sense_is_recorded_as_skipped(configure, results, tmp_path):
    config = configure("problem=ranking_fairness", "solver=lagrangian")
    assert worked(config, tmp_path / "log.txt") == 0
    (folder,) = records_in(results)
    record = ResultStore(results).read(folder.name)
    assert (str(record.status), record.dataset.sha256) == ("skipped", None)
    assert "queries" in record.reason

"""The job that Hydra calls, by itself; how it is called is in the tests of `drobench run`."""

import os

import pytest
from app_samples import SMALL, catalogue_with, guest, records_in

from drobench.app import hydra_job
from drobench.app.config import compose, hydra_ready, register
from drobench.app.hydra_job import Jobs, RunFailed
from drobench.app.known_runs import FOLDER
from drobench.results.store import ResultStore


@pytest.fixture
def composed(catalogue, results):
    def make(*words):
        register(catalogue)
        with hydra_ready():
            return compose([*SMALL, *words, f"results={results}"], catalogue)

    return make


def test_it_returns_the_objective_that_a_sweeper_minimises(composed, results, capsys):
    value = Jobs([], None).run(composed("solver=scgd"))
    (record,) = ResultStore(results).records().records
    assert value == record.iterates.last.objective
    assert record.short_id in capsys.readouterr().out


def test_the_data_of_one_job_are_there_for_the_next(composed, monkeypatch):
    from drobench.app import loading

    loads = []
    load = loading.load_dataset
    monkeypatch.setattr(loading, "load_dataset", lambda *given: loads.append(1) or load(*given))
    jobs = Jobs([], None)
    assert not jobs.started
    jobs.run(composed("solver=scgd"))
    jobs.run(composed("solver=scgd", "seed=1"))
    assert jobs.started
    assert len(loads) == 1


def test_a_failed_run_is_an_error_with_its_reason(results, monkeypatch):
    def fail(state, oracle):
        raise ValueError("no more")

    found = catalogue_with(solvers=(guest("failing", fail),))
    monkeypatch.setattr(hydra_job, "load_catalogue", lambda: found)
    register(found)
    with hydra_ready():
        words = compose([*SMALL, "solver=failing", f"results={results}"], found)
    with pytest.raises(RunFailed, match="ended as failed: ValueError: no more") as error:
        Jobs([], None).run(words)
    assert error.value.exit_code == 1
    assert len(records_in(results)) == 1


def test_the_checksum_of_one_process_says_nothing_about_another(composed, results, monkeypatch):
    monkeypatch.setattr(hydra_job, "state_here", lambda: "as it is")
    Jobs([], "as it is", process=os.getpid() + 1).run(composed("solver=scgd"))
    assert not (results / FOLDER).exists()
    Jobs([], "as it is").run(composed("solver=scgd"))
    assert len(list((results / FOLDER).iterdir())) == 1

"""A Hydra multirun: a line for each job, and a board at the end."""

import pytest
from app_samples import SMALL, records_in

from drobench.results.store import ResultStore


def lines_of(shown):
    """The lines that begin with the id of a run."""
    return [line for line in shown.out.splitlines() if line[:12].isalnum() and len(line.split()[0]) == 12]


def test_every_job_is_one_line_and_the_board_is_of_these_runs_alone(command, finished):
    folder, before = finished
    words = ("run", "-m", *SMALL, "solver=scgd,unconstrained", "seed=0,1", f"results={folder}")
    shown = command(*words)
    assert (shown.code, shown.err) == (0, "")
    ids = {record.short_id for record in ResultStore(folder).records().records}
    ids -= {record.short_id for record in before.values()}
    lines = lines_of(shown)
    assert {line.split()[0] for line in lines} == ids
    # With what tells it from the others, in the order of the jobs.
    assert [line.split("  ")[-1] for line in lines] == [
        f"solver={solver} seed={seed}" for solver in ("scgd", "unconstrained") for seed in (0, 1)
    ]
    assert "rank  solver" in shown.out
    board = shown.out.split("rank  solver")[1]
    assert "gcivr" not in board
    assert all("budget_spent" in line for line in lines)
    again = command(*words)
    assert all(line.endswith("was there already") for line in lines_of(again))
    assert "rank  solver" in again.out


def test_jobs_that_fail_are_on_the_board_too(command, misbehaving, results):
    shown = command("run", "-m", *SMALL, "solver=raising,sound", f"results={results}")
    assert shown.code == 1
    failed, sound = lines_of(shown)
    assert "failed" in failed
    assert "the guest has had enough" in failed
    assert "solver=sound" in sound
    board = shown.out.split("rank  solver")[1]
    assert "raising" in board
    assert "sound" in board


def test_a_multirun_that_could_not_begin_has_no_board(command, results):
    shown = command("run", "-m", "solver=gcivr,newton", "solver.batch=8,16", f"results={results}")
    assert shown.code == 2
    assert shown.out == ""
    assert "newton" in shown.err.split(":")[1]


def test_a_single_run_has_no_board(command, results):
    shown = command("run", *SMALL, f"results={results}")
    assert "rank" not in shown.out
    assert len(records_in(results)) == 1


@pytest.mark.process
def test_jobs_in_other_processes_are_on_the_board(command, results, monkeypatch):
    pytest.importorskip("hydra_plugins.hydra_joblib_launcher")
    monkeypatch.setenv("DROBENCH_RESULTS", str(results))
    words = ("hydra/launcher=joblib", "hydra.launcher.n_jobs=2", "solver=scgd,unconstrained")
    shown = command("run", "-m", *SMALL, *words, f"results={results}")
    assert shown.code == 0, shown
    board = shown.out.split("rank  solver")[1]
    assert "scgd" in board
    assert "unconstrained" in board

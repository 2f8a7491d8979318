"""Runs at Weights & Biases, read back from the files they leave when there is no network."""

import math
import subprocess
import sys
from pathlib import Path

import pytest
from wandb_file import only_run_in, runs_in

from drobench import run
from drobench.results.record import Status
from drobench.results.store import ResultStore
from drobench.training import budget
from drobench.training.wandb_log import AXES

# Even without network wandb writes through a process of its own.
pytestmark = [pytest.mark.process, pytest.mark.usefixtures("nobody_is_logged_in")]

SMALL = ("dataset=synthetic", "dataset.rows=200", "dataset.features=3", "problem.l2=0.1", "budget.passes=4")


def as_logged(curve):
    """Return a curve as a history has it: nothing for what is unknown, numbers for truths."""
    return [{key: value for key, value in row.items() if value is not None} for row in curve]


def folder_of(results, record):
    return results / ".logs" / record.run_id


def test_the_history_is_the_curve_against_the_solvers_steps(bench, tmp_path):
    module = bench.train(bench.task(bench.solver("scgd"), passes=6), tmp_path / "a", logger="wandb")
    logged = only_run_in(tmp_path / "a" / "log")
    assert len(module.curve) == 7
    assert logged.rows == as_logged(module.curve)
    assert [row["_step"] for row in logged.history] == [row["step"] for row in module.curve]
    assert logged.exit_codes == [0]


def test_every_axis_is_in_every_row_and_calls_are_the_default(bench, tmp_path):
    bench.train(bench.task(bench.solver("scgd"), passes=3), tmp_path / "a", logger="wandb")
    logged = only_run_in(tmp_path / "a" / "log")
    assert all(set(AXES) <= set(row) for row in logged.rows)
    assert logged.step_metrics["*"] == "oracle_calls"
    assert all(logged.step_metrics[axis] == "" for axis in AXES)


def test_a_run_says_who_it_is(bench, tmp_path):
    bench.train(bench.task(bench.solver("scgd"), passes=1), tmp_path / "a", logger="wandb")
    logged, card = only_run_in(tmp_path / "a" / "log"), bench.card()
    assert (logged.identity, logged.name, logged.job_type) == (card.run_id[:32], card.name, "scgd")
    assert (logged.project, logged.group) == ("drobench", "bench")
    assert {name: logged.config[name] for name in (*card.config, "run_id")} == {**card.config, "run_id": card.run_id}


def test_a_run_that_raises_is_finished_once_and_as_failed(bench, told, tmp_path):
    def act(point, step):
        if step == 25:
            raise ArithmeticError
        return point

    seen = []
    with pytest.raises(ArithmeticError):
        bench.train(bench.task(told(act), steps=40), tmp_path / "a", logger="wandb", on_evaluation=seen.append)
    logged = only_run_in(tmp_path / "a" / "log")
    assert logged.rows == as_logged(seen)
    assert logged.exit_codes == [1]


def test_a_continued_run_has_every_row_once(bench, tmp_path):
    def killed(row):
        if row["passes"] >= 4:
            raise ConnectionError

    solver, folder = bench.solver("scgd"), tmp_path / "a"
    with pytest.raises(ConnectionError):
        bench.train(bench.task(solver, passes=8), folder, logger="wandb", on_evaluation=killed, checkpoint_steps=1)
    assert (folder / "last.ckpt").exists()
    assert len(only_run_in(folder / "log").rows) == 4
    module = bench.train(bench.task(solver, passes=8), folder, logger="wandb", checkpoint_steps=1)
    logged = only_run_in(folder / "log")
    assert logged.rows == as_logged(module.curve)
    assert len(logged.rows) == 9
    assert logged.exit_codes == [0]


def test_two_cells_in_one_process_are_two_complete_runs(tmp_path):
    results = tmp_path / "results"
    records = [run(*SMALL, f"solver={name}", "logger=wandb", results=results) for name in ("gcivr", "scgd")]
    for record in records:
        logged = only_run_in(folder_of(results, record))
        assert (logged.identity, logged.job_type) == (record.run_id[:32], record.solver.name)
        assert logged.rows == as_logged(ResultStore(results).curve(record.run_id).to_dicts())
        assert logged.exit_codes == [0]
        assert logged.config["run_id"] == record.run_id
        assert logged.config["solver"] == {**record.solver.config, "name": record.solver.name}
        assert logged.config["budget"]["passes"] == 4
    assert len(runs_in(results)) == 2


def test_the_summary_is_the_record(tmp_path):
    record = run(*SMALL, "solver=gcivr", "solver.average=true", "logger=wandb", results=tmp_path / "results")
    logged = only_run_in(tmp_path / "results").summary
    for name in ("last", "average", "best_feasible"):
        assert logged[f"{name}/objective"] == getattr(record.iterates, name).objective
        assert logged[f"{name}/train_error"] == getattr(record.iterates, name).train_error
    assert (logged["status"], logged["reason"]) == ("budget_spent", record.reason)
    assert logged["outcome"] == record.outcome == "ok"
    assert logged["seconds/solver"] == record.seconds.solver
    assert logged["seconds/total"] == record.seconds.total
    assert logged["oracle/inner_values"] == record.oracle.inner_values
    assert logged["optimum"] == record.optimum.value
    assert not any(isinstance(value, dict) for name, value in logged.items() if not name.startswith("_"))


def test_a_run_that_diverges_has_a_record_and_a_failed_run(tmp_path, monkeypatch):
    monkeypatch.setattr(budget, "_DIVERGENCE", -math.inf)
    record = run(*SMALL, "logger=wandb", results=tmp_path / "results")
    assert record.status is Status.DIVERGED
    logged = only_run_in(tmp_path / "results")
    assert logged.exit_codes == [1]
    assert logged.summary["status"] == record.status


def test_the_logger_changes_neither_id_nor_result(tmp_path):
    alone = run(*SMALL, results=tmp_path / "plain")
    logged = run(*SMALL, "logger=wandb", "logger.tags=[a,b]", "logger.project=other", results=tmp_path / "logged")
    assert logged.run_id == alone.run_id
    assert logged.iterates == alone.iterates
    found = only_run_in(tmp_path / "logged")
    assert (found.tags, found.project) == (["a", "b"], "other")


def test_a_finished_run_is_logged_once_when_it_is_asked_for(tmp_path):
    results = tmp_path / "results"
    before = run(*SMALL, results=results)
    assert not runs_in(results)
    after = run(*SMALL, "logger=wandb", results=results)
    assert after == before
    logged = only_run_in(results)
    assert logged.rows == as_logged(ResultStore(results).curve(before.run_id).to_dicts())
    assert logged.summary["last/objective"] == before.iterates.last.objective
    assert logged.exit_codes == [0]
    seen = logged.history[-1]["_timestamp"]
    run(*SMALL, "logger=wandb", results=results)
    assert only_run_in(results).history[-1]["_timestamp"] == seen


def test_a_finished_run_is_logged_again_for_an_agent(tmp_path, monkeypatch):
    results = tmp_path / "results"
    before = run(*SMALL, "logger=wandb", results=results)
    monkeypatch.setenv("WANDB_RUN_ID", "agents-run")
    run(*SMALL, "logger=wandb", results=results)
    logged = only_run_in(results)
    # The agent's own id is read by wandb itself, once in the life of a process; here, ours is not insisted on.
    assert logged.identity != before.run_id[:32]
    assert logged.summary["last/objective"] == before.iterates.last.objective


def drobench(*words, cwd):
    """Run the command line in a process of its own, as somebody who is not logged in."""
    command = [str(Path(sys.executable).with_name("drobench")), *words]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=240)


def test_a_multirun_on_the_command_line_is_offline_and_one_group(tmp_path):
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    ended = drobench("run", "-m", *SMALL, "solver=gcivr,scgd", "logger=wandb", cwd=folder)
    assert ended.returncode == 0, ended.stderr
    assert [item.name for item in folder.iterdir()] == ["results"]
    first, second = runs_in(folder / "results")
    assert first.group == second.group
    assert first.group.startswith("multirun-2")
    assert {first.job_type, second.job_type} == {"gcivr", "scgd"}
    assert first.exit_codes == second.exit_codes == [0]

"""`drobench run` with Hydra's own flags, `drobench rerun`: what they show, compute and refuse."""

import pytest
from app_samples import SMALL, altered, configured, forget_module, records_in, write_package

from drobench.registry import load_catalogue
from drobench.results.store import ResultStore


def test_help_for_run_lists_groups_choices_and_settings(command):
    shown = command("run", "--help")
    assert shown.code == 0
    groups, settings = shown.out.split("== Settings")
    lines = {line.split(":")[0].strip(): line for line in groups.splitlines() if ":" in line}
    for group in ("dataset", "problem", "model", "solver", "budget", "trainer", "logger", "experiment", "debug"):
        assert group in lines, group
    assert ", ".join(load_catalogue().solvers) in lines["solver"]
    assert ", ".join(load_catalogue().datasets) in lines["dataset"]
    assert "every_passes: 1.0" in settings


def test_the_configuration_can_be_shown_without_running(command, tmp_path):
    shown = command("run", "solver=scgd", "solver.batch=3", "--cfg", "job")
    assert shown.code == 0
    from omegaconf import OmegaConf

    found = OmegaConf.create(shown.out)
    assert (found.solver.name, found.solver.batch, found.trainer.dtype) == ("scgd", 3, "float64")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("flag", "mentioned"), [("searchpath", "conf"), ("defaults-tree", "solver"), ("plugins", "Launcher")]
)
def test_information_about_hydra_can_be_shown(command, flag, mentioned):
    shown = command("run", "--info", flag)
    assert shown.code == 0
    assert mentioned in shown.out


def test_a_run_shows_what_it_found_and_where_it_is(command, results):
    first = command("run", *SMALL, f"results={results}", "seed=3")
    assert first.code == 0, first
    (folder,) = records_in(results)
    assert str(folder) in first.out.replace("\n", "")
    assert folder.name[:12] in first.out
    assert "budget_spent" in first.out
    assert "objective" in first.out
    assert "already" not in first.out
    again = command("run", *SMALL, f"results={results}", "seed=3")
    assert again.code == 0
    assert "It was there already" in again.out
    assert len(records_in(results)) == 1


def test_a_run_shows_settings_that_are_not_at_their_defaults_and_no_others(command, results):
    shown = command("run", *SMALL, "solver=scgd", "solver.batch=3", f"results={results}")
    lines = {line.split()[0]: line.split() for line in shown.out.splitlines() if line.strip()}
    assert lines["solver"] == ["solver", "scgd", "batch=3"]
    assert lines["problem"] == ["problem", "kl_classification", "l2=0.1"]
    assert lines["dataset"][1:3] == ["synthetic", "60"]
    assert {"rows=60", "features=3", "split=[0.6,", "0.2,", "0.2]"} >= set(lines["dataset"][6:])


def test_nothing_is_left_in_the_working_directory(command, results, tmp_path):
    assert command("run", *SMALL, "results=mine").code == 0
    assert [item.name for item in tmp_path.iterdir()] == ["mine"]


def test_a_run_that_failed_before_was_not_there_already(command, catalogue, results):
    from drobench.app.cell import fail_cell
    from drobench.app.prepare import prepare

    fail_cell(prepare(configured(catalogue, results), catalogue), "bad luck")
    ended = command("run", *SMALL, f"results={results}")
    assert ended.code == 0
    assert "budget_spent" in ended.out
    assert "already" not in ended.out


@pytest.mark.parametrize(
    ("word", "mentioned"),
    [
        ("solver=gcvir", "Did you mean 'gcivr'"),
        ("solver.stepsize=1", "Did you mean 'solver.step_size'"),
        ("problem.gamma=0", "gamma"),
        ("seed=abc", "seed"),
        ("trainer.devices=2", "ddp_cpu"),
        ("not an override", "not an override"),
    ],
)
def test_a_mistake_ends_a_run_with_one_message(command, results, word, mentioned):
    ended = command("run", word, f"results={results}")
    assert ended.code == 2
    assert mentioned in ended.err
    assert "drobench: " in ended.err
    assert "Traceback" not in ended.err
    assert not records_in(results)


def test_a_results_folder_that_cannot_be_is_named(command, tmp_path):
    (tmp_path / "file").touch()
    ended = command("run", *SMALL, f"results={tmp_path}/file/results")
    assert ended.code == 2
    assert f"{tmp_path}/file/results" in ended.err
    assert "DROBENCH_RESULTS" in ended.err
    assert "Traceback" not in ended.err


def test_multirun_computes_every_combination(command, results, tmp_path):
    ended = command("run", "-m", *SMALL, "solver=scgd,unconstrained", "seed=range(2)", f"results={results}")
    assert ended.code == 0, ended
    records = ResultStore(results).records().records
    assert {(record.solver.name, record.seed) for record in records} == {
        (solver, seed) for solver in ("scgd", "unconstrained") for seed in (0, 1)
    }
    assert {item.name for item in tmp_path.iterdir()} == {"results"}


def test_a_failing_cell_of_a_multirun_does_not_stop_the_others(command, misbehaving, results):
    ended = command("run", "-m", *SMALL, "solver=raising,sound,scgd", f"results={results}")
    records = {record.solver.name: str(record.status) for record in ResultStore(results).records().records}
    assert records == {"raising": "failed", "sound": "budget_spent", "scgd": "budget_spent"}
    assert "the guest has had enough" in ended.err
    # Two is for a command that could not be understood; this one was, and a run went wrong.
    assert ended.code == 1


def test_a_failing_run_ends_with_code_one(command, misbehaving, results):
    ended = command("run", *SMALL, "solver=raising", f"results={results}")
    assert "ValueError: the guest has had enough" in ended.err
    assert ended.code == 1


INTERRUPTED = """
import os, signal
from dataclasses import dataclass
import torch
from drobench import SolverEntry, hookimpl
from drobench.objective.forms import FiniteSum
from drobench.solver import Solver

@dataclass
class Config:
    rate: float = 1.0

@dataclass(frozen=True)
class State:
    point: torch.Tensor

class Pressing(Solver[State]):
    def __init__(self, config):
        pass
    def init(self, start, oracle, communicator) -> State:
        return State(start)
    def step(self, state, oracle, communicator):
        os.kill(os.getpid(), signal.SIGINT)
        return state
    def solution(self, state):
        return state.point

@hookimpl
def drobench_solvers():
    return [SolverEntry(name="pressing", summary="Presses.", config=Config, factory=Pressing, accepts=(FiniteSum,))]
"""


def test_ctrl_c_inside_a_solver_ends_the_command_with_code_130(command, results, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(write_package(tmp_path / "site", "pressing_guest", INTERRUPTED)))
    load_catalogue.cache_clear()
    try:
        ended = command("run", *SMALL, "solver=pressing", f"results={results}")
    finally:
        load_catalogue.cache_clear()
        forget_module("pressing_guest")
    assert not records_in(results)
    assert ended.code == 130
    assert "interrupted" in ended.err


@pytest.mark.parametrize("solver", ["gcivr", "scgd", "unconstrained"])
def test_rerun_confirms_and_overwrites_nothing(command, finished, solver):
    folder, runs = finished
    record = runs[solver]
    before = {file.name: file.read_bytes() for file in (folder / record.run_id).iterdir()}
    ended = command("rerun", record.run_id[:8], "--results", folder)
    assert ended.code == 0, ended
    assert "came out as recorded" in ended.out
    assert {file.name: file.read_bytes() for file in (folder / record.run_id).iterdir()} == before
    assert len(records_in(folder)) == len(runs)
    (beside,) = (folder / ".reruns").iterdir()
    (repetition,) = ResultStore(beside).records().records
    assert repetition.run_id == record.run_id
    assert repetition.iterates.last == record.iterates.last


def test_rerun_names_what_came_out_differently_and_fails(command, finished):
    folder, runs = finished
    run_id = runs["scgd"].run_id
    altered(folder, run_id, lambda content: content["iterates"]["last"].update(objective=0.123))
    before = (folder / run_id / "record.json").read_bytes()
    ended = command("rerun", run_id, "--results", folder)
    assert ended.code == 1
    assert "last.objective: recorded 0.123, found" in ended.out
    assert "was not confirmed" in ended.out
    assert (folder / run_id / "record.json").read_bytes() == before


def test_rerun_says_when_the_code_has_changed(command, finished):
    folder, runs = finished
    run_id = runs["scgd"].run_id
    altered(folder, run_id, lambda content: content["code"].update(drobench="0" * 64))
    altered(folder, run_id, lambda content: content["code_parts"].update(problem="0" * 64))
    ended = command("rerun", run_id, "--results", folder)
    assert ended.code == 0
    assert "the code of problem 'kl_classification' has changed since" in ended.out


def test_rerun_writes_where_the_run_is_now(command, finished, tmp_path):
    folder, runs = finished
    moved = tmp_path / "moved"
    folder.rename(moved)
    assert command("rerun", runs["scgd"].run_id, "--results", moved).code == 0
    assert not folder.exists()


def test_rerun_of_a_failed_run_confirms_nothing(command, misbehaving, results):
    command("run", *SMALL, "solver=raising", f"results={results}")
    (folder,) = records_in(results)
    ended = command("rerun", folder.name, "--results", results)
    assert ended.code == 1
    assert "it failed" in ended.out


def test_rerun_of_a_run_by_the_clock_leaves_it_open(command, results):
    command("run", *SMALL, "solver=scgd", "budget.steps=null", "budget.seconds=0.05", f"results={results}")
    (folder,) = records_in(results)
    ended = command("rerun", folder.name, "--results", results)
    assert ended.code == 1
    assert "its budget is in seconds" in ended.out


@pytest.mark.parametrize(("solver", "said"), [("leaving", "SystemExit: 0"), ("exiting", "os._exit: 3")])
def test_a_solver_that_tries_to_end_the_program_is_a_recorded_failure(command, misbehaving, results, solver, said):
    ended = command("run", *SMALL, f"solver={solver}", f"results={results}")
    assert ended.code == 1, ended
    assert f"tried to end the program ({said})" in ended.err
    (folder,) = records_in(results)
    assert said in ResultStore(results).read(folder.name).reason


@pytest.mark.parametrize(
    ("way", "said"), [("exit", "SystemExit: 0"), ("exit at once", "os._exit: 0"), ("no memory", "MemoryError")]
)
def test_a_dataset_that_fails_is_named_without_a_traceback(command, misbehaving, results, way, said):
    ended = command("run", *SMALL[4:], "dataset=odd", f"dataset.way='{way}'", f"results={results}")
    assert ended.code == 1, ended
    assert "The dataset 'odd' could not be loaded" in ended.err
    assert said in ended.err
    assert "Traceback" not in ended.err
    assert len(records_in(results)) == 1


def test_runs_of_a_multirun_are_stored_in_one_place_wherever_a_solver_goes(command, misbehaving, results):
    ended = command("run", "-m", *SMALL, "solver=wandering", "seed=0,1", f"results={results.name}")
    assert ended.code == 0, ended
    assert len(records_in(results)) == 2


@pytest.mark.parametrize("others", [("--cfg", "job"), ("--info", "all"), ("--run",)])
def test_two_flags_of_hydra_that_exclude_each_other_are_refused_by_name(command, others):
    outcome = command("run", "--multirun", *others)
    assert outcome.code == 2
    assert "--multirun" in outcome.err
    assert others[0] in outcome.err

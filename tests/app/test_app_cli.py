"""The command line: quick help, Hydra's own flags, multirun, exit codes and messages."""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from app_samples import SMALL, configured, forget_module, records_in, write_package

from drobench.app import cli
from drobench.registry import load_catalogue
from drobench.results.store import ResultStore

HEAVY = ("torch", "hydra", "omegaconf", "pytorch_lightning", "polars", "numpy", "rich", "drobench_plugins")


def commands():
    (subparsers,) = [
        action for action in cli._parser()._actions if isinstance(action, argparse._SubParsersAction)
    ]  # fmt: skip
    return list(subparsers.choices)


def python(*words, **settings):
    return subprocess.run([sys.executable, *map(str, words)], capture_output=True, text=True, check=False, **settings)


def test_the_documented_commands_exist():
    assert {"run", "sweep", "leaderboard", "plugins", "doctor", "show", "rerun"} <= set(commands())


def test_help_loads_no_plugin_and_nothing_heavy():
    code = (
        "import sys\n"
        "from drobench.app.cli import main\n"
        "try:\n    main(['--help'])\n"
        "except SystemExit as ended:\n    assert ended.code == 0\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)\n"
    )
    ended = python("-c", code)
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.strip() == "[]"
    assert "drobench sweep quickstart" in ended.stdout


def test_help_is_quick():
    script = Path(sys.executable).parent / "drobench"
    times = []
    for _ in range(3):
        began = time.perf_counter()
        ended = python(script, "--help")
        times.append(time.perf_counter() - began)
        assert ended.returncode == 0
    assert min(times) < 1.5


@pytest.mark.parametrize("name", commands())
def test_every_command_has_help_with_an_example(command, name):
    shown = command(name, "--help")
    assert shown.code == 0
    assert "xample" in shown.out
    assert f"drobench {name}" in shown.out.split("xample")[1]


def test_help_names_every_command(command):
    shown = command("--help")
    assert shown.code == 0
    listed = [line.split()[0] for line in shown.out.splitlines() if line.startswith("    ") and line[4] != " "]
    assert listed == commands()


def test_the_version_is_that_of_the_package(command):
    from importlib import metadata

    assert command("--version").out.strip() == f"drobench {metadata.version('drobench')}"


@pytest.mark.parametrize("words", [[], ["leaderbord"], ["show"], ["leaderboard", "--format", "latex"]])
def test_a_wrong_command_line_is_refused_with_the_usage(command, words):
    ended = command(*words)
    assert ended.code == 2
    assert "usage:" in ended.err


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


def test_names_can_be_completed_by_the_shell(capfd, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["drobench-run", "-sc", "query=bash"])
    monkeypatch.setenv("COMP_LINE", "drobench-run solver=")
    monkeypatch.setenv("COMP_POINT", "20")
    with pytest.raises(SystemExit) as ended:
        cli.run_main()
    assert not ended.value.code
    completions = set(capfd.readouterr().out.split())
    assert {"solver=gcivr", "solver=scgd", "solver=unconstrained"} <= completions


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


def test_nothing_is_left_in_the_working_directory(command, results, tmp_path):
    assert command("run", *SMALL, "results=mine").code == 0
    assert [item.name for item in tmp_path.iterdir()] == ["mine"]


def test_a_run_that_failed_before_was_not_there_already(command, catalogue, results):
    from drobench.app.one_run import fail_cell

    fail_cell(configured(catalogue, results), catalogue, "bad luck")
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


def test_an_interrupted_run_ends_with_code_130(command, results, monkeypatch):
    from drobench.app import jobs

    def interrupted(*arguments, **settings):
        raise KeyboardInterrupt

    monkeypatch.setattr(jobs, "run_cell", interrupted)
    ended = command("run", *SMALL, f"results={results}")
    assert ended.code == 130
    assert "interrupted" in ended.err


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


def test_plugins_lists_what_is_installed_and_from_where(command):
    shown = command("plugins")
    assert shown.code == 0
    found = load_catalogue()
    for entries in (found.solvers, found.problems, found.datasets):
        for name, registered in entries.items():
            (line,) = [line for line in shown.out.splitlines() if line.split()[:1] == [name]]
            assert f"{registered.distribution} {registered.version}" in line


def test_plugins_reports_a_broken_one_and_shows_the_others(command, tmp_path, monkeypatch):
    source = "raise RuntimeError('this [plugin] is broken')"
    monkeypatch.syspath_prepend(str(write_package(tmp_path / "site", "broken_guest", source)))
    load_catalogue.cache_clear()
    try:
        shown = command("plugins")
        computed = command("run", *SMALL)
    finally:
        load_catalogue.cache_clear()
        forget_module("broken_guest")
    assert shown.code == 1
    assert "this [plugin] is broken" in shown.out
    assert "gcivr" in shown.out
    assert computed.code == 0
    assert "not used: plugin 'broken_guest' of stranger" in computed.err


def test_disabled_plugins_are_named(command, misbehaving, monkeypatch):
    monkeypatch.setenv("DROBENCH_DISABLE_PLUGINS", "misbehaving_guests")
    load_catalogue.cache_clear()
    shown = command("plugins")
    assert "disabled: misbehaving_guests" in shown.out
    assert "sleeping" not in shown.out


def test_the_doctor_says_what_works_here(command, results):
    shown = command("doctor", "--results", results)
    assert shown.code == 0, shown
    for subject in ("python", "torch", "processor", "memory", "GPU", "gloo", "threads", "results", "plugins"):
        assert f"  {subject} " in shown.out
    assert str(results) in shown.out
    assert f"{len(load_catalogue().solvers)} solvers" in shown.out


def test_the_doctor_finds_a_folder_that_cannot_be_written(command, tmp_path):
    (tmp_path / "file").touch()
    shown = command("doctor", "--results", tmp_path / "file" / "results")
    assert shown.code == 1
    (line,) = [line for line in shown.out.splitlines() if "  results " in line]
    assert line.startswith("no")
    assert str(tmp_path / "file" / "results") in line


def test_the_doctor_finds_a_broken_plugin(command, tmp_path, results, monkeypatch):
    monkeypatch.syspath_prepend(str(write_package(tmp_path / "site", "broken_guest", "raise RuntimeError('no')")))
    load_catalogue.cache_clear()
    try:
        shown = command("doctor", "--results", results)
    finally:
        load_catalogue.cache_clear()
        forget_module("broken_guest")
    assert shown.code == 1
    assert "broken_guest" in shown.out


def test_options_of_a_sweep_may_stand_before_its_overrides(command, results):
    words = ("quickstart", "--results", results, "--dry-run", "budget.passes=2")
    assert "9 to do" in command("sweep", *words[:1], words[4], *words[1:4]).out
    ended = command("sweep", *words)
    assert (ended.code, ended.err) == (0, "")
    assert "9 to do" in ended.out


@pytest.mark.parametrize("words", [["--help"], ["leaderboard", "--format", "csv"]])
def test_a_reader_who_has_seen_enough_causes_no_complaint(finished, words):
    folder, _ = finished
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    reading, writing = os.pipe()
    os.close(reading)
    code = "from drobench.app.cli import main; main()"
    with os.fdopen(writing, "wb") as sink:
        ended = subprocess.run(
            [sys.executable, "-c", code, *words], stdout=sink, stderr=subprocess.PIPE, text=True, check=False,
            env=environment | {"DROBENCH_RESULTS": str(folder)},
        )  # fmt: skip
    assert ended.stderr == ""
    assert ended.returncode == 0


@pytest.mark.parametrize("form", ["table", "markdown", "csv", "json"])
def test_the_leaderboard_has_four_formats(command, finished, form):
    folder, runs = finished
    shown = command("leaderboard", "--results", folder, "--format", form)
    assert (shown.code, shown.err) == (0, "")
    for solver in runs:
        assert solver in shown.out


def test_the_leaderboard_as_json_and_csv_can_be_parsed(command, finished):
    import csv

    folder, runs = finished

    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    parsed = json.loads(command("leaderboard", "--results", folder, "--format", "json").out, parse_constant=refuse)
    assert {row["name"] for board in parsed["boards"] for row in board["rows"]} == set(runs)
    rows = list(csv.DictReader(command("leaderboard", "--results", folder, "--format", "csv").out.splitlines()))
    assert len(rows) == len(runs)
    assert all(None not in row and None not in row.values() for row in rows)
    markdown = command("leaderboard", "--results", folder, "--format", "markdown").out
    assert sum(line.startswith("|") for line in markdown.splitlines()) == len(runs) + 2


@pytest.mark.parametrize("iterate", ["last", "best_feasible"])
def test_the_leaderboard_agrees_with_the_records(command, finished, iterate):
    folder, runs = finished
    shown = command("leaderboard", "--results", folder, "--format", "json", "--iterate", iterate)
    rows = [row for board in json.loads(shown.out)["boards"] for row in board["rows"]]
    gaps = {row["name"]: row["gap"]["median"] for row in rows}
    assert gaps == pytest.approx({name: getattr(record.iterates, iterate).gap for name, record in runs.items()})
    ranks = [row["rank"] for row in rows]
    assert ranks == sorted(ranks)


def test_the_leaderboard_looks_where_the_environment_says(command, finished, monkeypatch):
    folder, _ = finished
    monkeypatch.chdir("/")
    monkeypatch.setenv("DROBENCH_RESULTS", str(folder))
    assert "gcivr" in command("leaderboard").out


def test_a_leaderboard_of_nothing_is_refused_with_advice(command, results):
    ended = command("leaderboard", "--results", results)
    assert ended.code == 3
    assert "no results to compare" in ended.err
    assert "drobench sweep quickstart" in ended.err
    assert not results.exists()


def test_an_impossible_target_is_refused(command, finished):
    ended = command("leaderboard", "--results", finished[0], "--target-gap", "-1")
    assert ended.code == 2
    assert "target_gap" in ended.err


def test_a_damaged_record_is_reported_and_the_others_are_shown(command, finished):
    folder, runs = finished
    file = folder / runs["scgd"].run_id / "record.json"
    file.write_text(file.read_text()[:200])
    ended = command("leaderboard", "--results", folder, "--format", "json")
    assert ended.code == 0
    assert runs["scgd"].run_id[:12] in ended.err
    assert ".damaged" in ended.err
    assert {row["name"] for board in json.loads(ended.out)["boards"] for row in board["rows"]} == set(runs) - {"scgd"}
    (kept,) = (folder / ".damaged").iterdir()
    assert (kept / "record.json").stat().st_size == 200


def test_a_record_of_a_newer_version_is_reported_and_left_alone(command, finished):
    folder, runs = finished
    file = folder / runs["gcivr"].run_id / "record.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"schema": 2}))
    ended = command("leaderboard", "--results", folder)
    assert ended.code == 0
    assert "schema 2" in ended.err
    assert "scgd" in ended.out
    assert "gcivr" not in ended.out
    assert file.is_file()
    shown = command("show", runs["gcivr"].run_id, "--results", folder)
    assert shown.code == 2
    assert "Upgrade drobench" in shown.err


def test_show_prints_one_run_by_the_beginning_of_its_id(command, finished):
    folder, runs = finished
    record = runs["scgd"]
    shown = command("show", record.run_id[:6], "--results", folder)
    assert shown.code == 0
    assert record.run_id[:12] in shown.out
    assert "solver   scgd" in shown.out
    assert "batch=32" in shown.out
    assert "seed 4" in shown.out
    assert f"{record.iterates.last.objective:.6g}" in shown.out
    assert f"{record.optimum.value:.10g}" in shown.out
    assert "certified, exact_convex" in shown.out
    # With the metrics that only this problem has.
    for name, value in record.iterates.last.extra.items():
        assert re.search(rf"{name.replace('_', ' ')} +{re.escape(f'{value:.6g}')} ", shown.out), name


def test_show_prints_the_record_as_it_is_stored(command, finished):
    folder, runs = finished
    record = runs["gcivr"]
    shown = command("show", record.run_id[:10], "--json", "--results", folder)
    assert shown.out == (folder / record.run_id / "record.json").read_text()


def test_show_tells_why_there_is_no_optimum_and_why_a_run_failed(command, misbehaving, results):
    command("run", *SMALL, "problem.loss=sigmoid", f"results={results}")
    command("run", *SMALL, "solver=raising", f"results={results}")
    for record in ResultStore(results).records().records:
        shown = command("show", record.run_id, "--results", results)
        assert shown.code == 0
        expected = (
            "the guest has had enough" if record.solver.name == "raising" else "unknown (the problem is not convex)"
        )
        assert expected in shown.out


@pytest.mark.parametrize(
    ("prefix", "mentioned"), [("ffffffff", "no run 'ffffffff'"), ("ab", "at least 4 digits"), ("zz/../x", "no run")]
)
def test_an_unknown_run_is_refused(command, finished, prefix, mentioned):
    for name in ("show", "rerun"):
        ended = command(name, prefix, "--results", finished[0])
        assert ended.code == 2
        assert mentioned in ended.err


@pytest.mark.parametrize("solver", ["gcivr", "scgd", "unconstrained"])
def test_rerun_finds_the_same_to_the_last_bit(command, finished, solver):
    folder, runs = finished
    record = runs[solver]
    stored = folder / record.run_id / "record.json"
    before = stored.stat().st_ino
    ended = command("rerun", record.run_id[:8], "--results", folder)
    assert ended.code == 0, ended
    assert "The objective is the same as before, to the last bit." in ended.out
    assert stored.stat().st_ino != before
    assert len(records_in(folder)) == len(runs)


def test_rerun_says_when_the_result_is_another(command, finished):
    folder, runs = finished
    file = folder / runs["scgd"].run_id / "record.json"
    payload = json.loads(file.read_text())
    payload["iterates"]["last"]["objective"] = 0.123
    file.write_text(json.dumps(payload))
    ended = command("rerun", runs["scgd"].run_id, "--results", folder)
    assert "The objective was 0.123 and is now" in ended.out
    assert "last bit" not in ended.out


def test_rerun_writes_where_the_run_is_now(command, finished, tmp_path):
    folder, runs = finished
    moved = tmp_path / "moved"
    folder.rename(moved)
    assert command("rerun", runs["scgd"].run_id, "--results", moved).code == 0
    assert not folder.exists()


def test_rerun_of_a_failed_run_compares_how_it_ended(command, misbehaving, results):
    command("run", *SMALL, "solver=raising", f"results={results}")
    (folder,) = records_in(results)
    ended = command("rerun", folder.name, "--results", results)
    assert ended.code == 1
    assert "Before: failed (ValueError: the guest has had enough); now: failed." in ended.out

"""The command line as a whole: quick help, every command, exit codes and messages."""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from app_samples import SMALL

from drobench.app import cli

HEAVY = ("torch", "hydra", "omegaconf", "pytorch_lightning", "polars", "numpy", "rich", "drobench_plugins")


def commands():
    (subparsers,) = [
        action for action in cli.build_parser()._actions if isinstance(action, argparse._SubParsersAction)
    ]  # fmt: skip
    return list(subparsers.choices)


def python(*words, **settings):
    return subprocess.run([sys.executable, *map(str, words)], capture_output=True, text=True, check=False, **settings)


def test_the_documented_commands_exist():
    assert {"run", "sweep", "leaderboard", "plugins", "doctor", "show", "rerun"} <= set(commands())


@pytest.mark.process
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


@pytest.mark.process
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


def test_names_can_be_completed_by_the_shell(capfd, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["drobench-run", "-sc", "query=bash"])
    monkeypatch.setenv("COMP_LINE", "drobench-run solver=")
    monkeypatch.setenv("COMP_POINT", "20")
    with pytest.raises(SystemExit) as ended:
        cli.run_main()
    assert not ended.value.code
    completions = set(capfd.readouterr().out.split())
    assert {"solver=gcivr", "solver=scgd", "solver=unconstrained"} <= completions


def test_an_interrupted_run_ends_with_code_130(command, results, monkeypatch):
    def interrupted(*arguments, **settings):
        raise KeyboardInterrupt

    monkeypatch.setattr("drobench.app.cell.run_cell", interrupted)
    ended = command("run", *SMALL, f"results={results}")
    assert ended.code == 130
    assert "interrupted" in ended.err


@pytest.mark.process
def test_options_of_a_sweep_may_stand_before_its_overrides(command, results):
    words = ("quickstart", "--results", results, "--dry-run", "budget.passes=2")
    assert "21 to do" in command("sweep", *words[:1], words[4], *words[1:4]).out
    ended = command("sweep", *words)
    assert (ended.code, ended.err) == (0, "")
    assert "21 to do" in ended.out


@pytest.mark.parametrize("words", [["--help"], ["leaderboard", "--format", "csv"]])
@pytest.mark.process
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

"""`drobench completion`: scripts for shells, and what they are answered."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from drobench.app.commands.completion import SCRIPTS


@pytest.mark.parametrize("shell", SCRIPTS)
def test_the_script_of_a_shell_is_printed(command, shell):
    shown = command("completion", shell)
    assert (shown.code, shown.err) == (0, "")
    assert shown.out == SCRIPTS[shell]
    assert "drobench completion --query" in shown.out


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("drobench lea", ["leaderboard"]),
        ("drobench run solver=gciv", ["solver=gcivr", "solver=gcivr_authors"]),
        ("/usr/bin/drobench completion ", ["bash", "fish", "zsh"]),
        ("drobench run 'seed=", []),
        ("", []),
    ],
)
def test_a_line_is_answered_with_one_word_on_each(command, line, found):
    shown = command("completion", "--query", line)
    assert (shown.code, shown.err) == (0, "")
    if line:
        assert shown.out.split() == found


@pytest.mark.parametrize("shell", SCRIPTS)
def test_the_script_is_one_of_its_shell(shell):
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    done = subprocess.run([program, "-n"], input=SCRIPTS[shell], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.process
@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize(
    ("line", "replies"),
    [
        ("drobench lea", ["leaderboard"]),
        # bash has taken the word apart at the equals sign.
        ("drobench run solver=gciv", ["gcivr", "gcivr_authors"]),
        ("drobench run solver=scgd solver.del", ["solver.delay=", "[no space]"]),
    ],
)
def test_bash_is_given_what_it_needs(tmp_path, line, replies):
    program = tmp_path / "drobench"
    program.write_text(f"#!/bin/sh\nexec {sys.executable} -c 'from drobench.app.cli import main; main()' \"$@\"\n")
    program.chmod(0o755)
    script = f"""
compopt() {{ echo '[no space]'; }}
eval "$(drobench completion bash)"
COMP_WORDBREAKS=$' \\t\\n=:' COMP_LINE='{line}' COMP_POINT={len(line)}
_drobench
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "XDG_CACHE_HOME": str(tmp_path)}
    done = subprocess.run(
        ["bash", "-c", script], env={**environment, "PYTHONPATH": path}, capture_output=True, text=True, check=True,
        cwd=Path(tmp_path),
    )  # fmt: skip
    assert sorted(done.stdout.split("\n")[:-1]) == sorted(replies)

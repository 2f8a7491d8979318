"""What may stand next on a command line."""

import pytest

from drobench.app.cli import build_parser
from drobench.app.completing import candidates
from drobench.registry import load_catalogue


def after(*words):
    return candidates(words, build_parser())


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["ru"], ["run", "runs"]),
        (["leaderboard", "--form"], ["--format"]),
        (["leaderboard", "--format", ""], ["csv", "html", "json", "markdown", "table"]),
        (["leaderboard", "--format", "m"], ["markdown"]),
        (["completion", ""], ["bash", "fish", "zsh"]),
        (["data", "f"], ["fetch"]),
        (["sweep", "quick"], ["quickstart"]),
        (["sweep", "quickstart", "budget.pas"], ["budget.passes="]),
        (["help", "sol"], ["solver"]),
        (["help", "solver", "gciv"], ["gcivr", "gcivr_authors"]),
        (["help", "budget", "st"], ["steps"]),
        (["check", "unc"], ["unconstrained"]),
        (["run", "solver=gciv"], ["solver=gcivr", "solver=gcivr_authors"]),
        (["run", "-m", "solver=scgd,newt"], ["solver=scgd,newton"]),
        (["run", "solver=scgd", "solver.de"], ["solver.decay=", "solver.delay="]),
        (["run", "solver.recov"], ["solver.recovery="]),  # of the default solver
        (["run", "solver.monotone="], ["solver.monotone=false", "solver.monotone=true"]),
        (["run", "trainer=ddp"], ["trainer=ddp", "trainer=ddp_cpu"]),
        (["run", "se"], ["seed="]),
        (["run", "--m"], ["--multirun"]),
        (["run", "seed="], []),
        (["nothing_such", ""], []),
        (["completion", "bash", ""], []),
    ],
)
def test_the_last_word_is_completed_from_what_there_is(words, found):
    assert after(*words) == found


def test_all_choices_of_a_group_are_known():
    assert after("run", "solver=") == sorted(f"solver={name}" for name in load_catalogue().solvers)


def test_an_empty_line_has_all_commands():
    from drobench.app.cli import FAMILIES

    assert {"run", "help", "completion"} <= set(after(""))
    assert len(after("")) >= len(FAMILIES)


def test_runs_are_completed_from_the_folder_that_is_meant(finished, monkeypatch):
    folder, runs = finished
    monkeypatch.chdir(folder / ".optima")
    ids = sorted(record.short_id for record in runs.values())
    assert after("show", "") == []
    assert after("show", "--results", str(folder), "") == ids
    assert after("diff", ids[0], "--results", str(folder), ids[1][:4]) == [ids[1]]
    monkeypatch.setenv("DROBENCH_RESULTS", str(folder))
    assert after("remove", ids[0], "") == ids
    assert after("export", "") == ids

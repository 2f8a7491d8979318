"""Runs that are stopped from outside: Ctrl-C, and a kill that leaves no time for anything."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import polars
import pytest
import torch

CELL = [
    "dataset=synthetic",
    "dataset.rows=2000",
    "problem=kl_classification",
    "solver=gcivr",
    "solver.average=true",
    "budget.passes=200",
    "evaluation.every_passes=2",
    "seed=5",
]


def ctrl_c(row):
    if row["step"] > 0:
        raise KeyboardInterrupt


def test_ctrl_c_in_a_run_arrives_as_such_and_leaves_no_record(tmp_path):
    from drobench import run

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        run("dataset=synthetic", "dataset.rows=200", "budget.passes=20", results=tmp_path, on_evaluation=ctrl_c)
    assert signal.getsignal(signal.SIGINT) is before
    assert not list(tmp_path.glob("*/record.json"))


def drobench(*words: str, cwd: Path) -> subprocess.Popen:
    environment = {name: value for name, value in os.environ.items() if name != "DROBENCH_RESULTS"}
    program = Path(sys.executable).with_name("drobench")
    return subprocess.Popen(
        [program, "run", *words], cwd=cwd, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def rows_saved(folder: Path) -> int:
    """Return how many evaluations the checkpoint in `folder` holds; it is replaced as a whole, so it can be read."""
    files = list(folder.glob("results/.work/*/last.ckpt"))
    return len(torch.load(files[0], weights_only=True)["drobench"]["curve"]) if files else 0


@pytest.fixture(scope="module")
def killed(tmp_path_factory, wait_until):
    """A run that was killed as soon as its checkpoint held some evaluations, and was then started again."""
    folder = tmp_path_factory.mktemp("killed")
    words = [*CELL, "trainer.checkpoint_steps=1"]
    process = drobench(*words, cwd=folder)
    try:
        assert wait_until(lambda: process.poll() is not None or rows_saved(folder) >= 4, seconds=120)
        assert process.poll() is None, process.communicate()[0]
    finally:
        process.kill()
        process.communicate()
    (checkpoint,) = folder.glob("results/.work/*/last.ckpt")
    saved = torch.load(checkpoint, weights_only=True)["drobench"]
    left = sorted(path.name for path in (folder / "results").iterdir() if not path.name.startswith("."))
    again = drobench(*words, cwd=folder)
    output, _ = again.communicate(timeout=200)
    return {
        "results": folder / "results",
        "run_id": checkpoint.parent.name,
        "saved": saved,
        "left": left,
        "code": again.returncode,
        "output": output,
    }


@pytest.mark.process
def test_a_killed_run_leaves_no_record_and_the_same_command_finishes_it(killed):
    assert killed["left"] == []
    assert killed["code"] == 0, killed["output"]
    assert [path.parent.name for path in killed["results"].glob("*/record.json")] == [killed["run_id"]]
    assert not (killed["results"] / ".work" / killed["run_id"]).exists()


@pytest.mark.process
def test_a_killed_run_ends_as_one_that_was_left_alone_bit_for_bit(killed, tmp_path):
    from drobench import run
    from drobench.results.store import ResultStore

    assert killed["code"] == 0, killed["output"]
    undisturbed = run(*CELL, results=tmp_path)
    assert undisturbed.run_id == killed["run_id"]
    stores = [ResultStore(root) for root in (killed["results"], tmp_path)]
    resumed, straight = (store.read(undisturbed.run_id) for store in stores)
    assert resumed.status == straight.status == "budget_spent"
    assert resumed.iterates == straight.iterates
    assert resumed.iterates.average is not None
    assert resumed.oracle == straight.oracle
    curves = [store.curve(undisturbed.run_id) for store in stores]
    assert curves[0].drop("solver_seconds").equals(curves[1].drop("solver_seconds"))
    solutions = [store.solution(undisturbed.run_id) for store in stores]
    assert solutions[0].keys() == solutions[1].keys()
    assert all((solutions[0][name] == solutions[1][name]).all() for name in solutions[0])


@pytest.mark.process
def test_a_killed_run_went_on_from_its_checkpoint_and_not_from_the_beginning(killed):
    """The times of the first part are those of the process that was killed: no other has the same."""
    from drobench.results.store import ResultStore

    curve = ResultStore(killed["results"]).curve(killed["run_id"])
    before = polars.DataFrame(killed["saved"]["curve"], infer_schema_length=None)
    assert 4 <= before.height < curve.height
    assert curve.head(before.height)["solver_seconds"].to_list() == before["solver_seconds"].to_list()

"""Cells with one and with several processes under every launcher: one record each, and the same result."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from drobench.results.store import ResultStore

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("breakable")]
CELL = (
    "dataset=synthetic",
    "dataset.rows=300",
    "problem=kl_classification",
    "solver=breakable",
    "budget.passes=null",
    "budget.steps=40",
    "trainer=ddp_cpu",
)
# As in the second of two tasks of a job of SLURM, with what other launchers may have left besides.
FOREIGN = {
    "SLURM_JOB_ID": "4711",
    "SLURM_JOB_NAME": "cells",
    "SLURM_NTASKS": "2",
    "SLURM_NTASKS_PER_NODE": "2",
    "SLURM_NNODES": "1",
    "SLURM_NODELIST": "nowhere.invalid",
    "SLURM_PROCID": "1",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "0",
    "RANK": "1",
    "LOCAL_RANK": "1",
    "WORLD_SIZE": "4",
    "MASTER_ADDR": "nowhere.invalid",
    "MASTER_PORT": "1",
}


def drobench(folder, *words, **variables):
    """Run a command in a folder; return its code and what it printed."""
    done = subprocess.run(
        [Path(sys.executable).with_name("drobench"), *words],
        cwd=folder,
        env={**os.environ, "TMPDIR": str(folder), **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=240,
    )
    return done.returncode, done.stdout


def cells(folder):
    """Return the records by number of processes and fault; there is one for each."""
    scan = ResultStore(folder / "results").records()
    assert scan.troubles == []
    found = {(record.environment.world_size, record.solver.config["fault"]): record for record in scan.records}
    assert len(found) == len(scan.records)
    return found


def check_equal(folder, found):
    """One process and two have found the same."""
    one, two = found[1, "none"], found[2, "none"]
    for record in (one, two):
        assert (record.status, record.reason) == ("budget_spent", "steps 40 of 40")
    assert two.iterates.last.objective == pytest.approx(one.iterates.last.objective, rel=0, abs=1e-12)
    assert two.optimum == one.optimum
    assert one.optimum is not None
    points = [ResultStore(folder / "results").solution(record.run_id)["last"] for record in (one, two)]
    np.testing.assert_allclose(points[1], points[0], rtol=0, atol=1e-12)
    assert np.abs(points[0]).max() > 0.01


def check_tidy(folder, left_behind):
    """Nothing is left running, and no second multirun has begun anywhere."""
    # The process in which submitit runs a job takes a while to end after its result is there.
    assert left_behind(folder, seconds=30.0) == {}
    assert len(list((folder / "results").glob(".hydra/*"))) <= 1
    assert len(list(folder.rglob("multirun.yaml"))) <= 1
    assert not list(folder.glob("drobench-*"))
    assert not (folder / "multirun").exists()
    assert not (folder / "outputs").exists()


@pytest.fixture(scope="module")
def multirun(tmp_path_factory):
    """Four cells, of which one loses a rank, in what looks like a task of SLURM."""
    folder = tmp_path_factory.mktemp("multirun")
    words = (*CELL, "trainer.devices=1,2", "solver.fault=none,die", "logger=csv", "results=results")
    return folder, *drobench(folder, "run", "-m", *words, **FOREIGN)


def test_hydra_computes_cells_of_one_and_of_two_processes(multirun, left_behind):
    folder, _, output = multirun
    found = cells(folder)
    assert set(found) == {(1, "none"), (2, "none"), (1, "die"), (2, "die")}, output
    check_equal(folder, found)
    check_tidy(folder, left_behind)


def test_a_rank_that_dies_costs_its_cell_alone(multirun):
    folder, code, output = multirun
    found = cells(folder)
    failed = found[2, "die"]
    assert (failed.status, failed.reason) == ("failed", "rank 1 was killed by signal 9 (SIGKILL)")
    assert failed.iterates.last is None
    # Where there is no rank 1, nobody dies.
    assert found[1, "die"].iterates.last == found[1, "none"].iterates.last
    assert code == 1
    assert "rank 1 was killed by signal 9" in output


def test_variables_of_slurm_make_no_process_believe_that_it_is_another(multirun):
    """Lightning writes nothing on what it takes for rank 1."""
    folder, _, _ = multirun
    for record in cells(folder).values():
        if record.status != "failed":
            lines = (folder / "results" / ".logs" / record.run_id / "metrics.csv").read_text().splitlines()
            assert len(lines) > 2


SWEEP = """
title: processes
overrides: [{overrides}]
parts:
  - grid: {{trainer.devices: [1, 2]}}
  - overrides: [trainer.devices=2, solver.fault=die]
"""


def test_a_sweep_computes_cells_of_one_and_of_two_processes_and_survives_a_rank(tmp_path, left_behind):
    (tmp_path / "processes.yaml").write_text(SWEEP.format(overrides=", ".join(CELL)))
    code, output = drobench(tmp_path, "sweep", "processes.yaml", "--results", "results", **FOREIGN)
    found = cells(tmp_path)
    assert set(found) == {(1, "none"), (2, "none"), (2, "die")}, output
    check_equal(tmp_path, found)
    assert found[2, "die"].reason == "rank 1 was killed by signal 9 (SIGKILL)"
    assert code == 1
    check_tidy(tmp_path, left_behind)


@pytest.mark.parametrize(
    ("package", "words"),
    [
        ("hydra_joblib_launcher", ["hydra/launcher=joblib", "hydra.launcher.n_jobs=2"]),
        ("hydra_submitit_launcher", ["hydra/launcher=submitit_local"]),
    ],
    ids=["joblib", "submitit"],
)
def test_other_launchers_compute_cells_of_one_and_of_two_processes(tmp_path, left_behind, package, words):
    if (
        importlib.util.find_spec("hydra_plugins") is None
        or importlib.util.find_spec(f"hydra_plugins.{package}") is None
    ):
        pytest.skip(f"{package} is not installed: pip install 'drobench[launchers]'")
    code, output = drobench(tmp_path, "run", "-m", *words, *CELL, "trainer.devices=1,2", "results=results")
    assert code == 0, output
    found = cells(tmp_path)
    assert set(found) == {(1, "none"), (2, "none")}
    check_equal(tmp_path, found)
    check_tidy(tmp_path, left_behind)

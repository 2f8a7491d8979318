"""Sweeps at work: every cell in a process of its own, none at the expense of another."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from app_samples import SMALL, configured, records_in

from drobench.app import sweep_pool
from drobench.app.cell import run_cell
from drobench.app.prepare import prepare
from drobench.app.sweep_plan import Cell
from drobench.registry import load_catalogue
from drobench.results.store import ResultStore

pytestmark = pytest.mark.process

# In the foreground, whatever the tests themselves were started in: a background process ignores Ctrl-C.
FOREGROUND = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from drobench.app.cli import main
main()
"""


def statuses(results):
    """Return the status and reason of every recorded run by solver and seed."""
    records = ResultStore(results).records().records
    return {(record.solver.name, record.seed): (str(record.status), record.reason) for record in records}


def test_two_jobs_run_at_the_same_time(misbehaving, tmp_path, results, monkeypatch):
    gate = tmp_path / "gate"
    other = tmp_path / "other"
    for file in (gate, other):
        file.touch()
    catalogue = load_catalogue()
    cells = []
    for file in (gate, other):
        config = configured(catalogue, results, "solver=waiting", f"solver.gate={file}", "timeout=60")
        cells.append(Cell(file.name, prepare(config, catalogue)))
    opened = []

    def open_gates(seconds):
        time.sleep(seconds)
        if gate.with_suffix(".pid").exists() and other.with_suffix(".pid").exists():
            # Both workers are inside their solver now; with one job the second would never have got there.
            opened.append(True)
            gate.unlink(missing_ok=True)
            other.unlink(missing_ok=True)

    class Clock:
        sleep = staticmethod(open_gates)
        monotonic = staticmethod(time.monotonic)

    monkeypatch.setattr(sweep_pool, "time", Clock)
    done = []
    sweep_pool.execute(cells, 2, lambda cell, record: done.append((cell.label, str(record.status))))
    assert opened
    assert sorted(done) == [("gate", "budget_spent"), ("other", "budget_spent")]


def test_bad_solvers_fail_alone_each_with_its_reason(command, sweep_file, misbehaving, results, monkeypatch):
    # What ignores a polite request is killed after a grace period, which need not be long here.
    monkeypatch.setattr(sweep_pool, "_GRACE_SECONDS", 1.0)
    file = sweep_file(
        "parts:\n"
        "  - {overrides: [timeout=4], grid: {solver: [sleeping, spinning]}}\n"
        "  - {grid: {solver: [exiting, leaving, vanishing, crashing, stopping, shouting, raising, sound]}}\n"
    )
    ended = command("sweep", file, "--results", results, "--jobs", 3)
    assert ended.code == 1, ended
    found = {solver: outcome for (solver, _), outcome in statuses(results).items()}
    assert found["sound"][0] == "budget_spent"
    assert {status for name, (status, _) in found.items() if name != "sound"} == {"failed"}
    assert found["sleeping"][1].startswith("timed out after 4 s")
    assert found["spinning"][1].startswith("timed out after 4 s")
    assert found["exiting"][1] == "`misbehaving_guests` tried to end the program (os._exit: 3)"
    assert found["leaving"][1] == "`misbehaving_guests` tried to end the program (SystemExit: 0)"
    assert found["vanishing"][1].startswith("its process ended with code 0 without a record; output in")
    assert found["crashing"][1].startswith("its process was killed by signal 11 (SIGSEGV); output in")
    assert found["stopping"][1] == "StrayStop: the solver or its problem raised StopIteration"
    assert found["shouting"][1].startswith("ValueError: \\udc80\\x1b[2Jxxx")
    assert found["shouting"][1].endswith("... (cut, 1000017 characters)")
    assert found["raising"][1] == "ValueError: the guest has had enough"
    assert "Computed: 1 budget_spent, 9 failed." in ended.out
    assert len(ended.out) < 50_000
    assert all(file.stat().st_size < 50_000 for file in (results / ".logs").glob("*.txt"))
    assert "the guest has had enough" in ended.out
    logs = "".join(file.read_text() for file in (results / ".logs").glob("*.txt"))
    assert "ValueError: the guest has had enough" in logs
    # All of it is in the leaderboard: a failure counts, the sound one stands first.
    again = command("sweep", file, "--results", results, "--dry-run")
    assert "10 cells, 1 finished before, 9 to do" in again.out


def test_a_dataset_that_cannot_be_had_fails_its_own_cells_only(command, misbehaving, results, tmp_path):
    parts = [{"overrides": [*SMALL, "solver=scgd"]}, {"overrides": [*SMALL[4:], "dataset=unavailable", "solver=scgd"]}]
    file = tmp_path / "mixed.yaml"
    file.write_text(json.dumps({"parts": parts}))
    ended = command("sweep", file, "--results", results)
    assert ended.code == 1, ended
    records = {record.dataset.name: record for record in ResultStore(results).records().records}
    assert str(records["synthetic"].status) == "budget_spent"
    assert str(records["unavailable"].status) == "failed"
    assert "Fetch them first" in records["unavailable"].reason


def test_a_solver_that_goes_elsewhere_leaves_its_result_here(command, sweep_file, misbehaving, results):
    # From another folder the relative path would lead elsewhere.
    ended = command("sweep", sweep_file("grid: {solver: [wandering, sound]}"), "--results", results.name)
    assert ended.code == 0, ended
    assert "Computed: 2 budget_spent." in ended.out
    assert len(records_in(results)) == 2


def test_a_full_disk_ends_the_sweep_with_a_message_and_is_no_failure_of_the_solver(
    command, sweep_file, misbehaving, results
):
    file = sweep_file("grid: {solver: [sound, filling, raising]}")
    ended = command("sweep", file, "--results", results)
    assert ended.code == 2, ended
    assert "No space left on device" in ended.err
    assert "Traceback" not in ended.err
    assert set(statuses(results)) == {("sound", 0)}


def test_a_skipped_cell_says_why_in_its_line(command, sweep_file, results):
    ended = command("sweep", sweep_file("grid: {problem: [ranking_fairness]}"), "--results", results)
    assert "skipped" in ended.out
    assert "does not provide" in " ".join(ended.out.split())


def test_a_cell_that_another_process_computes_is_waited_for(command, sweep_file, catalogue, results):
    first, second = (
        prepare(configured(catalogue, results, "solver=scgd", f"seed={seed}"), catalogue) for seed in (0, 1)
    )
    elsewhere_results = results.with_name("elsewhere")
    run_cell(configured(catalogue, elsewhere_results, "solver=scgd", "seed=1"), catalogue)
    store = ResultStore(results)
    held = threading.Event()

    def compute_elsewhere():
        with store.lock(first.run_id), store.lock(second.run_id):
            held.set()
            assert wait_for(lambda: ("scgd", 2) in statuses(results))
            time.sleep(1.5)
            # The second is finished, the first is given up.
            shutil.copytree(elsewhere_results / second.run_id, results / second.run_id)

    elsewhere = threading.Thread(target=compute_elsewhere)
    elsewhere.start()
    assert held.wait(60)
    ended = command("sweep", sweep_file("grid: {solver: [scgd], seed: [0, 1, 2]}"), "--results", results)
    elsewhere.join()
    assert ended.code == 0, ended
    assert "Computed: 3 budget_spent." in ended.out
    names = f"{first.run_id[:12]}, {second.run_id[:12]}"
    assert f"waiting for 2 cells that another process computes: {names}" in " ".join(ended.out.split())
    assert len(records_in(results)) == 3
    assert store.read(second.run_id) == ResultStore(elsewhere_results).read(second.run_id)


def test_a_trainer_that_this_machine_lacks_is_named_in_the_reason(command, sweep_file, results):
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    ended = command("sweep", sweep_file("grid: {trainer: [gpu], seed: [0]}"), "--results", results)
    assert ended.code == 1
    assert "CUDA GPU" in statuses(results)["gcivr", 0][1]


def wait_for(condition, seconds=120):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False


def alive(process):
    """Whether a process runs; one that has ended and only waits to be fetched does not."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def sweep_command(misbehaving, file, results):
    """Start a sweep in a process, and a session, of its own."""
    path = os.pathsep.join(filter(None, (str(misbehaving), os.environ.get("PYTHONPATH"))))
    return subprocess.Popen(
        [sys.executable, "-c", FOREGROUND, "sweep", str(file), "--results", str(results)],
        env=os.environ | {"PYTHONPATH": path, "COLUMNS": "200"},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


needs_proc = pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks at processes in /proc")


@needs_proc
def test_a_killed_sweep_leaves_no_process_and_is_taken_up_again(command, sweep_file, misbehaving, results, tmp_path):
    gate = tmp_path / "gate"
    gate.touch()
    file = sweep_file(f"grid: {{solver: [waiting], solver.gate: ['{gate}']}}")
    process = sweep_command(misbehaving, file, results)
    try:
        assert wait_for(lambda: gate.with_suffix(".pid").exists() or process.poll() is not None)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate(timeout=30)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    assert wait_for(lambda: not members_of(process.pid), 10), members_of(process.pid)
    assert records_in(results) == []
    gate.unlink()
    again = command("sweep", file, "--results", results)
    assert again.code == 0, again
    assert "Computed: 1 budget_spent." in again.out


def test_sweeps_in_one_folder_all_end_with_all_cells(sweep_file, misbehaving, results):
    file = sweep_file("grid: {solver: [sound, scgd], seed: [0, 1]}")
    sweeps = [sweep_command(misbehaving, file, results) for _ in range(3)]
    for process in sweeps:
        out, err = process.communicate(timeout=180)
        assert (process.returncode, err) == (0, "")
        assert "skipped" not in out
        # The board has both solvers with both seeds.
        rows = [line.split() for line in out.splitlines() if line.strip().startswith("1=")]
        assert sorted((row[1], row[2]) for row in rows) == [("scgd", "2"), ("sound", "2")]
    assert len(records_in(results)) == 4


@needs_proc
def test_ctrl_c_keeps_what_is_done_and_leaves_no_process(command, sweep_file, misbehaving, results, tmp_path):
    gate = tmp_path / "gate"
    gate.touch()
    file = sweep_file(f"grid: {{solver: [sound, waiting], solver.gate: ['{gate}']}}")
    note = gate.with_suffix(".pid")
    process = sweep_command(misbehaving, file, results)
    try:
        assert wait_for(lambda: (note.exists() and note.read_text()) or process.poll() is not None)
        assert process.poll() is None, process.communicate()
        assert len(records_in(results)) == 1
        worker = int(note.read_text())
        assert alive(worker)
        # As a terminal does it: to everything in the foreground.
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    assert process.returncode == 130, (out, err)
    assert "interrupted" in err
    assert "Traceback" not in err
    assert wait_for(lambda: not alive(worker), 5)
    session = process.pid
    assert wait_for(lambda: not members_of(session), 20), members_of(session)
    assert statuses(results) == {("sound", 0): ("budget_spent", "steps 5 of 5")}
    gate.unlink()
    again = command("sweep", file, "--results", results)
    assert again.code == 0, again
    assert "2 cells, 1 finished before, 1 to do" in again.out
    assert {solver for solver, _ in statuses(results)} == {"sound", "waiting"}


def members_of(session):
    """Return the living processes of a session."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == session and fields[0] != "Z":
                found.append((entry.name, (entry / "cmdline").read_text().replace("\0", " ")))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found

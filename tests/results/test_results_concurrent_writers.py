"""Real processes that write into, replace in, and read from one folder at the same time."""

import multiprocessing
from pathlib import Path

import numpy
import pytest
from result_samples import CONFIG, make_curve, make_record

from drobench.results.store import ResultStore, RunBusy

pytestmark = pytest.mark.process

WRITERS = 3
ROUNDS = 12


def write_own_and_shared(root: str, writer: int) -> None:
    """Write some runs that nobody else writes, and one, again and again, that all others write too."""
    store = ResultStore(Path(root))
    for number in range(ROUNDS):
        own = make_record(solver=f"writer{writer}", seed=number)
        store.write(own, make_curve([float(writer)]), {"last": numpy.full(3, writer)}, CONFIG)
        shared = make_record(solver="shared", hardware=writer)
        # A large array makes writing slow enough for the writers to meet.
        store.write(shared, make_curve([float(writer)]), {"last": numpy.full(50_000, writer)}, str(writer))


def count_while_holding(root: str, attempts: int) -> None:
    """Add one to a number in a file, which loses additions unless the lock keeps others out."""
    store = ResultStore(Path(root))
    file = Path(root) / "number.txt"
    for _ in range(attempts):
        with store.lock("c" * 64, timeout=60):
            file.write_text(str(int(file.read_text()) + 1))


def start(function, *arguments):
    process = multiprocessing.get_context("spawn").Process(target=function, args=arguments)
    process.start()
    return process


def join(processes):
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0] * len(processes)


def test_several_processes_write_and_every_run_is_whole(tmp_path):
    store = ResultStore(tmp_path)
    shared = make_record(solver="shared").run_id
    processes = [start(write_own_and_shared, str(tmp_path), writer) for writer in range(WRITERS)]
    scans = 0
    while any(process.is_alive() for process in processes):
        scan = store.records()
        assert scan.troubles == []
        scans += bool(scan.records)
    join(processes)
    assert scans, "the reader never met a writer"

    scan = store.records()
    assert scan.troubles == []
    own = {(f"writer{writer}", number) for writer in range(WRITERS) for number in range(ROUNDS)}
    assert {(record.solver.name, record.seed) for record in scan.records} == own | {("shared", 0)}
    winner = store.read(shared).environment.hardware
    assert store.curve(shared)["objective"].to_list() == [float(winner)]
    assert store.config(shared) == str(winner)
    assert (store.solution(shared)["last"] == winner).all()
    assert list((tmp_path / ".writing").iterdir()) == []
    assert not (tmp_path / ".damaged").exists()


def test_the_lock_keeps_other_processes_out(tmp_path):
    (tmp_path / "number.txt").write_text("0")
    join([start(count_while_holding, str(tmp_path), 20) for _ in range(WRITERS)])
    assert (tmp_path / "number.txt").read_text() == str(20 * WRITERS)


def test_a_lock_ends_with_its_process(tmp_path):
    store = ResultStore(tmp_path)
    process = start(hold_forever, str(tmp_path))
    while not (tmp_path / "held").exists():
        assert process.is_alive()
    try:
        with store.lock("c" * 64):
            raise AssertionError("two holders")
    except RunBusy:
        pass
    process.kill()
    process.join(60)
    with store.lock("c" * 64, timeout=10):
        pass


def hold_forever(root: str) -> None:
    """Hold a run until the process is killed."""
    with ResultStore(Path(root)).lock("c" * 64):
        (Path(root) / "held").touch()
        multiprocessing.Event().wait()

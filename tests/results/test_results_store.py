import dataclasses
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy
import polars
import pytest
from polars.testing import assert_frame_equal
from result_samples import CONFIG, SOLUTION, make_curve, make_record

from drobench.errors import DrobenchError
from drobench.results import folders
from drobench.results.record import DamagedRecord, NewerSchema, Status
from drobench.results.store import ResultStore, RunBusy, StoreUnusable, UnknownRun

FILES = ("record.json", "curve.parquet", "solution.safetensors", "config.yaml")


@pytest.fixture
def store(tmp_path):
    return ResultStore(tmp_path / "results")


def put(store, record, curve=None, solution=SOLUTION):
    store.write(record, make_curve([2.0, 1.0]) if curve is None else curve, solution, CONFIG)
    return record


def change_json(store, record, change):
    file = store.root / record.run_id / "record.json"
    payload = json.loads(file.read_text())
    change(payload)
    file.write_text(json.dumps(payload))


def temporaries(store):
    return list((store.root / ".writing").iterdir())


def test_making_a_store_touches_nothing(store):
    assert not store.root.exists()
    assert store.records().records == []
    assert not store.finished("a" * 64)
    assert not store.root.exists()


def test_a_run_survives_the_round_trip(store):
    record = put(store, make_record(seed=5))
    assert sorted(path.name for path in (store.root / record.run_id).iterdir()) == sorted(FILES)
    assert store.read(record.run_id) == record
    assert_frame_equal(store.curve(record.run_id), make_curve([2.0, 1.0]))
    assert store.config(record.run_id) == CONFIG
    solution = store.solution(record.run_id)
    assert set(solution) == set(SOLUTION)
    for name, array in SOLUTION.items():
        numpy.testing.assert_array_equal(solution[name], array)
    assert temporaries(store) == []


def test_arrays_keep_shape_type_and_order(store):
    matrix = numpy.arange(6, dtype=numpy.float32).reshape(2, 3)
    arrays = {"turned": matrix.T, "gaps": numpy.arange(6)[::2], "number": numpy.array(3.0), "empty": numpy.zeros(0)}
    record = put(store, make_record(), solution=arrays)
    for name, array in store.solution(record.run_id).items():
        assert array.dtype == arrays[name].dtype
        assert array.shape == arrays[name].shape
        numpy.testing.assert_array_equal(array, arrays[name])


def test_a_failed_run_without_curve_and_solution_is_stored(store):
    record = put(store, make_record(status=Status.FAILED, reason="no data"), polars.DataFrame(), {})
    assert store.records().records == [record]
    assert store.curve(record.run_id).is_empty()
    assert store.solution(record.run_id) == {}


@pytest.mark.parametrize("status", list(Status))
def test_failed_and_skipped_runs_are_tried_again(store, status):
    record = put(store, make_record(status=status))
    assert store.finished(record.run_id) is (status not in (Status.FAILED, Status.SKIPPED))


def test_a_retried_run_replaces_the_failed_one(store):
    record = make_record()
    put(store, dataclasses.replace(record, status=Status.FAILED, reason="out of memory"), polars.DataFrame(), {})
    put(store, record)
    assert store.read(record.run_id).status is Status.BUDGET_SPENT
    assert store.curve(record.run_id).height == 2
    assert len(store.records().records) == 1
    assert temporaries(store) == []


def test_a_run_is_replaced_even_where_folders_cannot_be_exchanged(store, monkeypatch):
    monkeypatch.setattr(folders, "_exchange", lambda *_: False)
    record = make_record()
    put(store, dataclasses.replace(record, status=Status.FAILED))
    put(store, record)
    assert store.read(record.run_id) == record
    assert temporaries(store) == []


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux exchanges two folders in one step")
def test_while_a_run_is_replaced_it_is_never_missing(store, monkeypatch):
    record = put(store, make_record(status=Status.FAILED))
    monkeypatch.setattr(folders, "_move_aside", pytest.fail)
    put(store, record)
    assert store.read(record.run_id) == record


def test_an_error_while_writing_leaves_nothing(store):
    with pytest.raises(TypeError):
        put(store, make_record(config={"what": object()}))
    assert list(store.records().records) == []
    assert temporaries(store) == []


def test_an_error_while_replacing_leaves_the_older_run(store, monkeypatch):
    record = put(store, make_record(status=Status.FAILED))

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("drobench.results.contents.safetensors.numpy.save_file", interrupted)
    with pytest.raises(KeyboardInterrupt):
        put(store, dataclasses.replace(record, status=Status.CONVERGED))
    assert store.read(record.run_id) == record
    assert temporaries(store) == []


@pytest.mark.process
@pytest.mark.parametrize("place", ["contents.safetensors.numpy.save_file", "store.install"])
def test_a_killed_writer_leaves_no_visible_run(store, place):
    """The process ends without any clean-up, in the middle of the files or just before the rename."""
    script = f"""
import os, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from pathlib import Path
import drobench.results.store
from result_samples import CONFIG, SOLUTION, make_curve, make_record
drobench.results.{place} = lambda *_: os._exit(9)
store = drobench.results.store.ResultStore(Path(sys.argv[1]))
store.write(make_record(), make_curve([2.0, 1.0]), SOLUTION, CONFIG)
"""
    assert subprocess.run([sys.executable, "-c", script, str(store.root)], check=False).returncode == 9
    scan = store.records()
    assert (scan.records, scan.troubles) == ([], [])
    assert not store.finished(make_record().run_id)
    (leftover,) = temporaries(store)
    store.prepare()
    assert temporaries(store) == [leftover], "a fresh leftover may belong to a living writer"
    age(leftover)
    store.prepare()
    assert temporaries(store) == []


def age(folder):
    two_days_ago = time.time() - 2 * folders.DAY
    os.utime(folder, (two_days_ago, two_days_ago))


def test_old_temporaries_of_living_processes_stay(store):
    store.prepare()
    mine = store.root / ".writing" / folders.temporary_name()
    theirs = store.root / ".writing" / f"other-host-{os.getpid()}-abc"
    strange = store.root / ".writing" / "notes"
    for folder in (mine, theirs, strange):
        folder.mkdir()
        age(folder)
    store.prepare()
    assert sorted(temporaries(store)) == sorted([mine, strange])


def test_an_unusable_folder_is_explained(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    store = ResultStore(tmp_path / "file" / "results")
    calls = [
        store.prepare,
        lambda: put(store, make_record()),
        lambda: store.lock("a" * 64).__enter__(),
        store.records,
    ]
    for call in calls:
        with pytest.raises(StoreUnusable, match="DROBENCH_RESULTS") as caught:
            call()
        assert str(store.root) in str(caught.value)
        assert "results=DIR" in str(caught.value)


def test_records_come_in_the_order_of_their_start_then_of_their_id(store):
    starts = [f"2024-05-{day:02}T00:00:00+00:00" for day in (9, 1, 7, 7, 3, 5)]
    made = [put(store, make_record(seed=seed, started_at=start)) for seed, start in enumerate(starts)]
    twins = sorted(made[2:4], key=lambda record: record.run_id)
    expected = [made[1], made[4], made[5], *twins, made[0]]
    assert expected != sorted(made, key=lambda record: record.run_id), "the ids alone would give the same order"
    assert store.records().records == expected


def truncate(file):
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


@pytest.mark.parametrize("name", [name for name in FILES if name != "config.yaml"])
def test_a_truncated_file_is_set_aside_and_the_others_are_read(store, name):
    good, bad = put(store, make_record(seed=1)), put(store, make_record(seed=2))
    truncate(store.root / bad.run_id / name)
    remains = (store.root / bad.run_id / name).read_bytes()
    assert not store.finished(bad.run_id)

    scan = store.records()
    assert scan.records == [good]
    (trouble,) = scan.troubles
    assert name in trouble.message
    assert trouble.path.parent == store.root / ".damaged"
    assert trouble.path.name.startswith(bad.run_id + "-20")
    assert (trouble.path / name).read_bytes() == remains
    assert not (store.root / bad.run_id).exists()
    assert store.records().troubles == [], "what was set aside is not reported again"


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_makes_a_run_damaged(store, name):
    record = put(store, make_record())
    (store.root / record.run_id / name).unlink()
    assert not store.finished(record.run_id)
    (trouble,) = store.records().troubles
    assert name in trouble.message
    assert trouble.path.is_dir()


def test_a_record_with_a_missing_field_is_set_aside(store):
    record = put(store, make_record())
    change_json(store, record, lambda payload: payload.pop("seed"))
    with pytest.raises(DamagedRecord, match="seed"):
        store.read(record.run_id)
    assert (store.root / record.run_id).is_dir(), "reading one run moves nothing"
    (trouble,) = store.records().troubles
    assert "`seed`" in trouble.message


def test_a_record_in_the_folder_of_another_run_is_not_read(store):
    record = put(store, make_record())
    (store.root / record.run_id).rename(store.root / ("f" * 64))
    scan = store.records()
    assert scan.records == []
    assert "run_id" in scan.troubles[0].message


def test_folders_that_are_no_runs_are_left_alone(store):
    put(store, make_record())
    (store.root / "figures").mkdir()
    (store.root / "report.html").write_text("")
    scan = store.records()
    assert (len(scan.records), scan.troubles) == (1, [])
    assert (store.root / "figures").is_dir()


def test_a_damaged_run_that_somebody_works_on_stays(store):
    record = put(store, make_record())
    truncate(store.root / record.run_id / "record.json")
    with store.lock(record.run_id):
        (trouble,) = store.records().troubles
        assert trouble.path == store.root / record.run_id
        assert trouble.path.is_dir()
    assert ".damaged" in str(store.records().troubles[0].path)


def test_a_damaged_run_in_a_folder_that_cannot_be_written_stays(store):
    record = put(store, make_record())
    truncate(store.root / record.run_id / "record.json")
    (store.root / ".damaged").write_text("a file where a folder should be made")
    (trouble,) = store.records().troubles
    assert trouble.path == store.root / record.run_id
    assert "left in place" in trouble.message
    assert trouble.path.is_dir()


def test_a_damaged_run_that_is_replaced_is_kept(store):
    record = put(store, make_record())
    truncate(store.root / record.run_id / "record.json")
    put(store, record)
    assert store.read(record.run_id) == record
    assert len(list((store.root / ".damaged").iterdir())) == 1
    assert temporaries(store) == []


def test_a_newer_record_is_reported_and_never_replaced(store):
    record, good = put(store, make_record(seed=1)), put(store, make_record(seed=2))
    change_json(store, record, lambda payload: payload.update(schema=2, seed="nine"))
    scan = store.records()
    assert scan.records == [good]
    (trouble,) = scan.troubles
    assert "Upgrade" in trouble.message
    assert trouble.path == store.root / record.run_id
    assert trouble.path.is_dir()
    with pytest.raises(NewerSchema):
        store.finished(record.run_id)
    with pytest.raises(NewerSchema):
        put(store, record)
    assert json.loads((trouble.path / "record.json").read_text())["seed"] == "nine"


def named(store, run_id):
    record = dataclasses.replace(make_record(), run_id=run_id)
    return put(store, record).run_id


def test_a_run_is_found_by_a_unique_beginning(store):
    first, second = named(store, "abcd1" + "0" * 59), named(store, "abcd2" + "0" * 59)
    assert store.resolve("abcd1") == first
    assert store.read("ABCD2").run_id == second
    assert store.config(first[:12]) == CONFIG


def test_an_ambiguous_beginning_lists_the_candidates(store):
    names = [named(store, "abcd1" + "0" * 59), named(store, "abcd2" + "0" * 59), named(store, "ffff" + "0" * 60)]
    with pytest.raises(UnknownRun, match="2 runs begin with 'abcd'") as caught:
        store.read("abcd")
    assert names[0][:12] in str(caught.value)
    assert names[1][:12] in str(caught.value)
    assert names[2][:12] not in str(caught.value)


@pytest.mark.parametrize("unknown", ["abce", "abcdf", "abcd1" + "1" * 59])
def test_an_unknown_run_lists_near_ones(store, unknown):
    near, far = named(store, "abcd1" + "0" * 59), named(store, "ffff" + "0" * 60)
    with pytest.raises(UnknownRun, match="no run") as caught:
        store.curve(unknown)
    assert near[:12] in str(caught.value)
    assert far[:12] not in str(caught.value)


@pytest.mark.parametrize("typed", ["abc", "", "../x"])
def test_a_beginning_that_is_too_short_or_no_id_is_refused(store, typed):
    named(store, "abcd1" + "0" * 59)
    with pytest.raises(DrobenchError):
        store.read(typed)


def test_an_empty_store_says_where_it_looked(store):
    with pytest.raises(UnknownRun, match="holds no runs") as caught:
        store.read("abcd")
    assert str(store.root) in str(caught.value)


@pytest.mark.parametrize("name", ["../outside", "A" * 64, "abc"])
def test_only_a_full_id_names_a_folder(store, name):
    with pytest.raises(DrobenchError, match="64"):
        store.write(dataclasses.replace(make_record(), run_id=name), make_curve([1.0]), {}, "")
    assert not store.root.exists()


@pytest.mark.process
def test_a_held_run_is_busy_until_it_is_released(store):
    run = make_record().run_id
    script = f"""
from pathlib import Path
from drobench.results.store import ResultStore, RunBusy
try:
    with ResultStore(Path({str(store.root)!r})).lock({run!r}):
        print("free")
except RunBusy:
    print("busy")
"""
    command = [sys.executable, "-c", script]

    def answer():
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    with store.lock(run):
        assert answer() == "busy"
        with pytest.raises(RunBusy, match=run[:12]), store.lock(run):
            pytest.fail("held twice")
        with store.lock("b" * 64):
            assert (store.root / ".locks" / f"{run}.lock").exists()
    assert answer() == "free"


def test_an_error_while_holding_a_run_passes_unchanged_and_frees_it(store):
    run = make_record().run_id
    with pytest.raises(OSError, match="no route"), store.lock(run):
        raise OSError("no route")
    with store.lock(run):
        pass


def test_a_run_that_vanishes_while_all_are_read_is_no_trouble(store, monkeypatch):
    record = put(store, make_record())
    listed = store._run_folders()
    shutil.rmtree(store.root / record.run_id)
    monkeypatch.setattr(store, "_run_folders", lambda: listed)
    scan = store.records()
    assert (scan.records, scan.troubles) == ([], [])

"""The four files of a run: written, read back, and suspected."""

import json
import os

import numpy
import pytest
from result_samples import CONFIG, SOLUTION, make_curve, make_record, unsealed

from drobench.results import contents
from drobench.results.fields import DamagedRecord

FILES = (contents.RECORD, contents.CURVE, contents.SOLUTION, contents.CONFIG)
RECORD = make_record()
CURVE = make_curve([3.0, 2.0, 1.0], 0.5)


@pytest.fixture
def folder(tmp_path):
    contents.write_contents(tmp_path, RECORD, CURVE, SOLUTION, CONFIG)
    return tmp_path


def test_what_is_written_is_read_back(folder):
    assert {file.name for file in folder.iterdir()} == set(FILES)
    assert contents.read_record(folder, RECORD.run_id) == contents.check_contents(folder, RECORD.run_id) == RECORD
    assert contents.read_curve(folder).equals(CURVE)
    assert contents.read_config(folder) == CONFIG
    found = contents.read_solution(folder)
    assert {name: array.tolist() for name, array in found.items()} == {
        name: array.tolist() for name, array in SOLUTION.items()
    }


def test_a_view_with_gaps_is_laid_out_before_it_is_stored(tmp_path):
    grid = numpy.arange(12.0).reshape(3, 4)
    contents.write_contents(tmp_path, RECORD, CURVE, {"last": grid.T[::2]}, CONFIG)
    assert contents.read_solution(tmp_path)["last"].tolist() == grid.T[::2].tolist()


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_missing_is_named(folder, name):
    (folder / name).unlink()
    with pytest.raises(DamagedRecord, match=f"{name}.*no such file"):
        contents.check_contents(folder, RECORD.run_id)


@pytest.mark.parametrize("name", [contents.RECORD, contents.CURVE, contents.SOLUTION])
def test_a_file_that_is_cut_short_is_named(folder, name):
    file = folder / name
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(DamagedRecord, match=name):
        contents.check_contents(folder, RECORD.run_id)


def test_text_that_is_no_text_is_named(folder):
    (folder / contents.CONFIG).write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(DamagedRecord, match=r"config\.yaml.*UTF-8 text.*UnicodeDecodeError"):
        contents.read_config(folder)


@pytest.mark.parametrize("name", [contents.CURVE, contents.CONFIG])
def test_a_file_that_was_changed_is_named(folder, name):
    file = folder / name
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(DamagedRecord, match=rf"{name}: the file should be what was written, with the sha256"):
        contents.check_contents(folder, RECORD.run_id)


def test_a_changed_solution_is_named_when_it_is_read(folder):
    file = folder / contents.SOLUTION
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    record = contents.check_contents(folder, RECORD.run_id)
    with pytest.raises(DamagedRecord, match="solution"):
        contents.check_file(folder, contents.SOLUTION, record)


def test_a_record_of_a_version_that_did_not_seal_is_read(folder):
    unsealed(folder)
    assert contents.check_contents(folder, RECORD.run_id).files == {}


def test_a_record_belongs_to_its_folder(folder):
    with pytest.raises(DamagedRecord, match="the name of its folder") as caught:
        contents.read_record(folder, "b" * 64)
    assert caught.value.field == "run_id"


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_too_large_is_not_read(folder, name, monkeypatch):
    size = (folder / name).stat().st_size
    monkeypatch.setitem(contents.LARGEST, name, size - 1)
    with pytest.raises(DamagedRecord, match=rf"{name}.*at most {size - 1} bytes; found {size}"):
        contents.check_contents(folder, RECORD.run_id)


def test_the_limits_leave_room_for_real_runs():
    assert contents.LARGEST == {
        contents.RECORD: 4 << 20,
        contents.CURVE: 256 << 20,
        contents.SOLUTION: 512 << 20,
        contents.CONFIG: 1 << 20,
    }


@pytest.mark.parametrize("name", FILES)
def test_what_is_no_file_is_not_waited_for(folder, name):
    (folder / name).unlink()
    os.mkfifo(folder / name)
    with pytest.raises(DamagedRecord, match=rf"{name}.*a plain file; found a folder, a pipe or a device"):
        contents.check_contents(folder, RECORD.run_id)


def test_a_solution_of_numbers_that_numpy_does_not_have_is_damaged(folder):
    head = json.dumps({"last": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}}).encode()
    (folder / contents.SOLUTION).write_bytes(len(head).to_bytes(8, "little") + head + bytes(4))
    with pytest.raises(DamagedRecord, match=r"solution\.safetensors.*numpy does not have"):
        contents.read_solution(folder)

"""The four files of a run: written, read back, and suspected."""

import numpy
import pytest
from result_samples import CONFIG, SOLUTION, make_curve, make_record

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
        contents.check_contents(folder, RECORD.run_id)


def test_a_record_belongs_to_its_folder(folder):
    with pytest.raises(DamagedRecord, match="the name of its folder") as caught:
        contents.read_record(folder, "b" * 64)
    assert caught.value.field == "run_id"

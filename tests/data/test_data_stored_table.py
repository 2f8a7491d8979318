"""Tables on disk: what is written comes back, and what is damaged is named."""

import json
import os
import pickle
import stat

import numpy as np
import pytest

from drobench.data.dataset import DataError
from drobench.data.stored_table import MANIFEST, open_table, store_table, verify_table
from drobench.files import file_sha256

ROWS, COLUMNS = 57, ("a", "b", "c")


def content(rows: int = ROWS, dtype: str = "float32"):
    generator = np.random.default_rng(2)
    return generator.normal(size=(rows, 3)).astype(dtype), (np.arange(rows) % 2).astype(np.uint8)


def store(folder, dtype: str = "float32", rows: int = ROWS, announced: int | None = None, piece: int = 20):
    features, labels = content(rows)
    pieces = ((features[i : i + piece], labels[i : i + piece]) for i in range(0, rows, piece))
    store_table(folder, pieces, rows=announced or rows, columns=COLUMNS, classes=["no", "yes"], dtype=dtype)
    return folder


@pytest.fixture
def table(tmp_path):
    return store(tmp_path / "table")


def damaged(folder) -> str:
    with pytest.raises(DataError) as caught:
        open_table(folder)
    assert str(folder) in str(caught.value)
    return str(caught.value)


def change_manifest(folder, **values):
    manifest = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps({**manifest, **values}))


def replace_file(folder, name: str, write) -> None:
    """Put another array in the place of a file, with a manifest that knows its size."""
    with (folder / name).open("wb") as stream:
        write(stream)
    manifest = json.loads((folder / MANIFEST).read_text())
    manifest["files"][name]["bytes"] = (folder / name).stat().st_size
    (folder / MANIFEST).write_text(json.dumps(manifest))


@pytest.mark.parametrize(("dtype", "piece"), [("float32", 1), ("float64", 20), ("float64", 100)])
def test_pieces_come_back_as_one_table_that_numpy_can_read_too(tmp_path, dtype, piece):
    folder = store(tmp_path / "deep" / "table", dtype, piece=piece)
    features, labels = content()
    table = open_table(folder)
    assert table.features.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(table.features, features.astype(dtype))
    np.testing.assert_array_equal(np.load(folder / "features.npy", allow_pickle=False), features.astype(dtype))
    np.testing.assert_array_equal(table.labels, labels)
    assert (table.rows, table.columns, table.classes) == (ROWS, COLUMNS, ("no", "yes"))
    assert verify_table(folder).checksums == table.checksums


def test_the_arrays_are_mapped_and_cannot_be_written(table):
    features = open_table(table).features
    assert isinstance(features, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        features[0] = 1.0


def test_a_folder_without_write_permission_is_as_good_as_any(table):
    for file in table.iterdir():
        file.chmod(0o444)
    table.chmod(0o555)
    try:
        before = sorted(file.name for file in table.iterdir())
        assert verify_table(table).rows == ROWS
        assert sorted(file.name for file in table.iterdir()) == before
    finally:
        table.chmod(0o755)


def test_a_table_is_readable_for_those_who_may_read_other_files(tmp_path):
    mask = os.umask(0o022)
    try:
        assert stat.S_IMODE(store(tmp_path / "table").stat().st_mode) == 0o755
    finally:
        os.umask(mask)


def test_nothing_is_replaced(table):
    with pytest.raises(DataError, match="must not exist yet"):
        store(table)


@pytest.mark.parametrize("announced", [ROWS - 1, ROWS + 1])
def test_another_number_of_rows_than_announced_leaves_nothing_behind(tmp_path, announced):
    with pytest.raises(DataError, match=f"{announced} rows were announced, and {ROWS} came"):
        store(tmp_path / "table", announced=announced)
    assert list(tmp_path.iterdir()) == []


def test_an_interruption_leaves_nothing_behind(tmp_path):
    def pieces():
        yield content(20)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store_table(tmp_path / "table", pieces(), rows=40, columns=COLUMNS, classes=[0, 1], dtype="float32")
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be written"):
        store(tmp_path / "file" / "table")


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(DataError, match="There is no folder"):
        open_table(tmp_path / "none")


@pytest.mark.parametrize("name", ["features.npy", "labels.npy"])
def test_a_truncated_or_missing_file_is_found_at_once(table, name):
    path = table / name
    size = path.stat().st_size
    with path.open("r+b") as stream:
        stream.truncate(size - 1)
    assert f"{name} must have {size} bytes, and has {size - 1}" in damaged(table)
    path.unlink()
    assert "and has 0" in damaged(table)


def test_a_changed_byte_is_found_by_reading_everything(table):
    with (table / "features.npy").open("r+b") as stream:
        stream.seek(-3, 2)
        stream.write(b"\x55")
    open_table(table)
    with pytest.raises(DataError, match=r"features.npy is not what was written"):
        verify_table(table)


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (np.zeros((ROWS, 2), np.float32), r"shape \(57, 2\)"),
        (np.zeros((ROWS, 3), np.int32), "type <i4"),
        (np.zeros((ROWS, 3), ">f4"), "type >f4"),
        (np.asfortranarray(np.ones((ROWS, 3), np.float32)), "column by column"),
    ],
)
def test_an_array_of_another_kind_is_refused(table, array, said):
    replace_file(table, "features.npy", lambda stream: np.save(stream, array))
    with pytest.raises(DataError, match=said):
        open_table(table)


class Trap:
    """Creates a file when it is unpickled."""

    def __init__(self, path) -> None:
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("features.npy", "objects"),
        ("labels.npy", "objects"),
        ("features.npy", "bare pickle"),
        ("labels.npy", "archive"),
    ],
)
def test_pickled_content_is_refused_and_never_run(table, tmp_path, name, kind):
    trap = Trap(tmp_path / "sprung")
    writers = {
        "objects": lambda stream: np.save(stream, np.array([[trap] * 3] * ROWS, dtype=object), allow_pickle=True),
        "bare pickle": lambda stream: pickle.dump(trap, stream),
        "archive": lambda stream: np.savez(stream, a=np.array([trap], dtype=object)),
    }
    replace_file(table, name, writers[kind])
    assert f"{name} cannot be opened as a plain array" in damaged(table)
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"format": 2}, "not of format 1"),
        ({"rows": 0}, "must name rows"),
        ({"rows": "57"}, "must name rows"),
        ({"rows": 56}, r"shape \(56, 3\)"),
        ({"columns": []}, "must name rows"),
        ({"columns": [1, 2, 3]}, "must name rows"),
        ({"classes": ["only"]}, "must name rows"),
        ({"files": {}}, "must name rows"),
        ({"files": {"features.npy": 1, "labels.npy": 2}}, "must name rows"),
    ],
)
def test_a_manifest_that_makes_no_sense_is_refused(table, values, said):
    change_manifest(table, **values)
    with pytest.raises(DataError, match=said):
        open_table(table)


@pytest.mark.parametrize("text", ["", "{", "[]", "\xff"])
def test_a_manifest_that_is_none_is_refused(table, text):
    (table / MANIFEST).write_bytes(text.encode("latin-1"))
    assert MANIFEST in damaged(table)


def test_the_header_is_hashed_like_the_rest(table):
    known = open_table(table).checksums["features.npy"]
    assert file_sha256(table / "features.npy") == known

"""The four files of a stored run."""

import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy
import polars
import safetensors
import safetensors.numpy

from drobench.files import file_sha256, sync
from drobench.results.fields import DamagedRecord, describe
from drobench.results.record import Record
from drobench.results.sealing import check_seal, check_sealed, sealed

RECORD = "record.json"
CURVE = "curve.parquet"
SOLUTION = "solution.safetensors"
CONFIG = "config.yaml"
LARGEST = {RECORD: 1 << 22, CURVE: 1 << 28, SOLUTION: 1 << 29, CONFIG: 1 << 20}
"""How many bytes are read of each file; a stranger's may be made to fill the memory."""
MOST_CELLS = 20_000_000
"""Of a curve: a few bytes in a file may stand for any number of them."""
_PARQUET_MARK = b"PAR1"

# Polars stops at some damaged pages with a panic, which is no `Exception`.
_UNREADABLE = (
    UnicodeDecodeError,
    polars.exceptions.PolarsError,
    polars.exceptions.PanicException,
    safetensors.SafetensorError,
)

Array = numpy.ndarray[Any, Any]
Content = TypeVar("Content")


def write_contents(
    folder: Path, record: Record, curve: polars.DataFrame, solution: Mapping[str, Array], config_yaml: str
) -> None:
    """Write the four files, the record with the checksums of all, and wait until they are on the disk."""
    curve.write_parquet(folder / CURVE)
    # The format stores plain memory: an array that is a view with gaps has to be laid out first.
    arrays = {name: numpy.asarray(array, order="C") for name, array in solution.items()}
    safetensors.numpy.save_file(arrays, folder / SOLUTION)
    (folder / CONFIG).write_text(config_yaml, encoding="utf-8")
    checksums = {name: file_sha256(folder / name) for name in (CURVE, SOLUTION, CONFIG)}
    (folder / RECORD).write_text(sealed(record, checksums), encoding="utf-8")
    for name in (RECORD, CURVE, SOLUTION, CONFIG):
        sync(folder / name)
    sync(folder)


def read_record(folder: Path, run_id: str) -> Record:
    """Read `record.json`, which must belong to the run its folder is named after, and be as it was written."""
    file = folder / RECORD
    text = _read(file, "UTF-8 text", _read_text)
    check_seal(text, file)
    record = Record.from_json(text, file)
    check_sealed(record, text, file)
    if record.run_id != run_id:
        raise DamagedRecord(file, "run_id", f"the name of its folder, {run_id}", describe(record.run_id))
    return record


def read_curve(folder: Path) -> polars.DataFrame:
    """Read `curve.parquet`, whose columns are numbers or booleans."""
    return _read(folder / CURVE, "a complete Parquet file", _read_parquet)


def is_of_numbers(kind: polars.DataType) -> bool:
    """Whether a column of a curve may be of this type; one without any value has none."""
    return kind.is_integer() or kind.is_float() or kind in (polars.Boolean, polars.Null)


def read_solution(folder: Path) -> dict[str, Array]:
    """Read `solution.safetensors`."""
    return _read(folder / SOLUTION, "a complete safetensors file", _load_solution)


def read_config(folder: Path) -> str:
    """Read `config.yaml`."""
    return _read(folder / CONFIG, "UTF-8 text", _read_text)


def check_contents(folder: Path, run_id: str) -> Record:
    """Read the record, and of the large files only what shows that they are there and not cut short.

    Raises:
        DamagedRecord: If one of the four files is missing or cannot be read.
        NewerSchema: If a later version of drobench wrote the record.
        OSError: If the system refuses to read, which says nothing about the files.
    """
    record = read_record(folder, run_id)
    # Of the two large files only the curve: it is what comparisons read. A solution is checked when it is read.
    for name in (CURVE, CONFIG):
        check_file(folder, name, record)
    _read(folder / CURVE, "a complete Parquet file", _check_ends)
    _read(folder / SOLUTION, "a complete safetensors file", _open_solution)
    read_config(folder)
    return record


def check_file(folder: Path, name: str, record: Record) -> None:
    """Raise unless a file is what the record says was written; older records say nothing.

    Raises:
        DamagedRecord: It was changed.
    """
    expected = record.files.get(name)
    if expected is None:
        return
    found = _read(folder / name, "a file", file_sha256)
    if found != expected:
        raise DamagedRecord(folder / name, None, f"what was written, with the sha256 {expected}", f"one with {found}")


def _read(file: Path, expected: str, reader: Callable[[Path], Content]) -> Content:
    try:
        _check_size(file)
        return reader(file)
    except FileNotFoundError:
        raise DamagedRecord(file, None, expected, "no such file") from None
    except _UNREADABLE as error:
        raise DamagedRecord(file, None, expected, f"{type(error).__name__}: {error}") from None


def _check_size(file: Path) -> None:
    """Refuse pipes, which never end, and too large files; a file that may not be read is an `OSError`.

    Asked first, because the libraries report a file that may not be read in words of their own.
    """
    # To open a pipe for reading would wait for a writer.
    descriptor = os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    try:
        found = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise DamagedRecord(file, None, "a plain file", "a folder, a pipe or a device")
    if found.st_size > LARGEST[file.name]:
        raise DamagedRecord(file, None, f"at most {LARGEST[file.name]} bytes", str(found.st_size))


def _read_text(file: Path) -> str:
    return file.read_text(encoding="utf-8")


def _read_parquet(file: Path) -> polars.DataFrame:
    # A folder may have a name with brackets or stars in it, which are no pattern here.
    scan = polars.scan_parquet(file, glob=False, hive_partitioning=False)
    # What follows is known before anything is decoded.
    columns = scan.collect_schema()
    for name, kind in columns.items():
        if not is_of_numbers(kind):
            raise DamagedRecord(file, None, "columns of numbers", f"{name[:80]!a} of type {str(kind)[:80]}")
    rows = scan.select(polars.len()).collect().item() if columns else 0
    if rows * len(columns) > MOST_CELLS:
        raise DamagedRecord(file, None, f"at most {MOST_CELLS} values", f"{rows} rows of {len(columns)}")
    return scan.collect()


def _check_ends(file: Path) -> None:
    """A Parquet file begins and ends with the same mark, and before the last one stands how long its description is.

    To have polars parse the description of thousands of files takes longer than everything else a scan does.
    """
    with file.open("rb") as stream:
        begin = stream.read(len(_PARQUET_MARK))
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, size - 8))
        end = stream.read()
    described = int.from_bytes(end[:4], "little")
    if begin != _PARQUET_MARK or end[4:] != _PARQUET_MARK or described + 12 > size:
        raise polars.exceptions.ComputeError("the marks of a Parquet file are not where they should be")


def _load_solution(file: Path) -> dict[str, Array]:
    try:
        arrays: dict[str, Array] = safetensors.numpy.load_file(file)
    except (TypeError, AttributeError) as error:
        raise safetensors.SafetensorError(f"a kind of number that numpy does not have: {error}") from None
    for name, array in arrays.items():
        if array.dtype.kind not in "biuf":
            raise safetensors.SafetensorError(f"{name[:80]!a} of type {array.dtype}, not of real numbers")
    return arrays


def _open_solution(file: Path) -> None:
    # Opening compares the header with the size of the file and reads none of the arrays.
    with safetensors.safe_open(file, framework="numpy"):
        pass

"""The four files of a stored run."""

import os
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
    """Read `curve.parquet`."""
    return _read(folder / CURVE, "a complete Parquet file", _read_parquet)


def read_solution(folder: Path) -> dict[str, Array]:
    """Read `solution.safetensors`."""
    return _read(folder / SOLUTION, "a complete safetensors file", safetensors.numpy.load_file)


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
        # Asked first, because the libraries report a file that may not be read in words of their own.
        os.close(os.open(file, os.O_RDONLY))
        return reader(file)
    except FileNotFoundError:
        raise DamagedRecord(file, None, expected, "no such file") from None
    except _UNREADABLE as error:
        raise DamagedRecord(file, None, expected, f"{type(error).__name__}: {error}") from None


def _read_text(file: Path) -> str:
    return file.read_text(encoding="utf-8")


def _read_parquet(file: Path) -> polars.DataFrame:
    # A folder may have a name with brackets or stars in it, which are no pattern here.
    return polars.read_parquet(file, glob=False)


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


def _open_solution(file: Path) -> None:
    # Opening compares the header with the size of the file and reads none of the arrays.
    with safetensors.safe_open(file, framework="numpy"):
        pass

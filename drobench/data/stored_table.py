"""A table on disk that can be mapped into memory: rows at random, without reading the rest.

One folder:

    features.npy    float32 or float64, row by row
    labels.npy      uint8: for each row the position of its class in the manifest's list
    manifest.json   format, rows, names of the columns, classes, and size and checksum of the two files

The folder is built under another name and renamed, so it is there whole or not at all. Opening it looks at sizes and
headers only; `verify_table` reads every byte.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from drobench.data.dataset import DataError
from drobench.files import file_sha256, whole_folder

MANIFEST = "manifest.json"
MOST_CLASSES = 256
DTYPES = ("float32", "float64")
_FORMAT = 1
_FEATURES, _LABELS = "features.npy", "labels.npy"
Label = int | float | str | bool


@dataclass(frozen=True, eq=False)
class StoredTable:
    """An open table. The arrays are mapped read-only: writing to them is an error, not a change of the files.

    Attributes:
        folder: Where it is.
        features: `(rows, columns)`.
        labels: `(rows,)`, class numbers.
        columns: One name per feature.
        classes: What the class numbers stand for.
        checksums: SHA-256 of each file, as it was when the table was written.
    """

    folder: Path
    features: NDArray[Any]
    labels: NDArray[np.uint8]
    columns: tuple[str, ...]
    classes: tuple[Label, ...]
    checksums: dict[str, str]

    @property
    def rows(self) -> int:
        """Number of samples."""
        return int(self.features.shape[0])


def store_table(
    folder: Path,
    pieces: Iterable[tuple[NDArray[Any], NDArray[Any]]],
    *,
    rows: int,
    columns: Sequence[str],
    classes: Sequence[Label],
    dtype: str,
) -> None:
    """Write a table piece by piece; only one piece is in memory.

    Args:
        folder: Where it goes; must not exist.
        pieces: Features `(n, columns)` and class numbers `(n,)`, in order.
        rows: How many rows there will be, which the files say at their beginning.
        columns: One name per feature.
        classes: What the class numbers stand for.
        dtype: `float32` or `float64`.

    Raises:
        DataError: The folder exists or cannot be written, or the pieces have another number of rows.
    """
    refuse_existing(folder)
    try:
        with whole_folder(folder) as built:
            files = _write_arrays(built, pieces, np.dtype(dtype).newbyteorder("<"), (rows, len(columns)))
            manifest = {
                "format": _FORMAT,
                "rows": rows,
                "columns": list(columns),
                "classes": list(classes),
                "files": files,
            }
            (built / MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")
    except OSError as error:
        raise DataError(
            f"The table {folder} cannot be written: {error}. Check the folder's permissions and the free space."
        ) from error


def _write_arrays(
    folder: Path, pieces: Iterable[tuple[NDArray[Any], NDArray[Any]]], dtype: np.dtype[Any], shape: tuple[int, int]
) -> dict[str, dict[str, Any]]:
    """Write both files and return what the manifest says of them."""
    with (
        _NpyFile(folder / _FEATURES, dtype, shape) as features,
        _NpyFile(folder / _LABELS, np.dtype(np.uint8), shape[:1]) as labels,
    ):
        for some_features, some_labels in pieces:
            features.append(some_features)
            labels.append(some_labels)
    return {file.path.name: file.description() for file in (features, labels)}


def refuse_existing(folder: Path) -> None:
    """Raise where a table would replace something."""
    if folder.exists():
        raise DataError(f"The table's folder must not exist yet; found {folder}. Delete it, or choose another name.")


class _NpyFile:
    """An .npy file that is written from its beginning to its end, and hashed on the way."""

    def __init__(self, path: Path, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
        self.path = path
        self.dtype = dtype
        self.shape = shape
        self.written = 0
        self.digest = hashlib.sha256()

    def __enter__(self) -> "_NpyFile":
        self.stream: IO[bytes] = self.path.open("wb")
        header = {"descr": np.lib.format.dtype_to_descr(self.dtype), "fortran_order": False, "shape": self.shape}
        np.lib.format.write_array_header_1_0(self, header)
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        with self.stream:
            if kind is not None:
                return
            if self.written != self.shape[0]:
                raise DataError(
                    f"{self.path.name}: {self.shape[0]} rows were announced, and {self.written} came. Did the source "
                    "change meanwhile? Start again."
                )

    def write(self, content: Any) -> int:
        """Write and hash bytes."""
        self.digest.update(content)
        return self.stream.write(content)

    def append(self, rows: NDArray[Any]) -> None:
        """Write further rows."""
        assert rows.shape[1:] == self.shape[1:]
        self.write(np.ascontiguousarray(rows, dtype=self.dtype).data)
        self.written += rows.shape[0]

    def description(self) -> dict[str, Any]:
        """What the manifest says of the file."""
        return {"bytes": self.path.stat().st_size, "sha256": self.digest.hexdigest()}


def open_table(folder: Path) -> StoredTable:
    """Map a table into memory, after a look at sizes and headers.

    Raises:
        DataError: There is no table, or it is damaged.
    """
    if not folder.is_dir():
        raise DataError(f"There is no folder {folder.resolve()}. `drobench data convert` makes one of Parquet files.")
    manifest = _read_manifest(folder)
    rows, columns, files = manifest["rows"], manifest["columns"], manifest["files"]
    for name, known in files.items():
        path = folder / name
        size = path.stat().st_size if path.is_file() else 0
        if size != known["bytes"]:
            raise _damaged(folder, f"{name} must have {known['bytes']} bytes, and has {size}")
    features = _mapped(folder, _FEATURES, [f"<{kind}" for kind in ("f4", "f8")], (rows, len(columns)))
    labels = _mapped(folder, _LABELS, ["|u1"], (rows,))
    return StoredTable(
        folder,
        features,
        labels,
        tuple(columns),
        tuple(manifest["classes"]),
        {name: known["sha256"] for name, known in files.items()},
    )


def verify_table(folder: Path) -> StoredTable:
    """Read every byte of a table again and compare checksums.

    Raises:
        DataError: There is no table, or it is damaged.
    """
    table = open_table(folder)
    for name, known in table.checksums.items():
        if file_sha256(folder / name) != known:
            raise _damaged(folder, f"{name} is not what was written (its SHA-256 is not {known})")
    return table


def _mapped(folder: Path, name: str, kinds: list[str], shape: tuple[int, ...]) -> NDArray[Any]:
    try:
        # Neither pickled objects nor archives: this opens plain arrays and nothing else.
        array = np.lib.format.open_memmap(folder / name, mode="r")
    except (OSError, ValueError, EOFError) as error:
        raise _damaged(folder, f"{name} cannot be opened as a plain array ({error})") from error
    if array.dtype.str not in kinds or array.shape != shape or not array.flags.c_contiguous:
        order = "row by row" if array.flags.c_contiguous else "column by column"
        raise _damaged(
            folder,
            f"{name} must be of type {' or '.join(kinds)} and shape {shape}, row by row, and is of type "
            f"{array.dtype.str} and shape {array.shape}, {order}",
        )
    return array


def _read_manifest(folder: Path) -> dict[str, Any]:
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise _damaged(folder, f"{MANIFEST} cannot be read ({error})") from error
    if not isinstance(manifest, dict) or manifest.get("format") != _FORMAT:
        raise _damaged(folder, f"{MANIFEST} is not of format {_FORMAT}")
    if not _sound(manifest):
        raise _damaged(folder, f"{MANIFEST} must name rows, columns, classes and the two files")
    return manifest


def _sound(manifest: dict[str, Any]) -> bool:
    rows, columns, classes, files = (manifest.get(key) for key in ("rows", "columns", "classes", "files"))
    return (
        isinstance(rows, int)
        and rows > 0
        and isinstance(columns, list)
        and len(columns) > 0
        and all(isinstance(name, str) for name in columns)
        and isinstance(classes, list)
        and 2 <= len(classes) <= MOST_CLASSES
        and isinstance(files, dict)
        and sorted(files) == [_FEATURES, _LABELS]
        and all(isinstance(known, dict) and {"bytes", "sha256"} <= set(known) for known in files.values())
    )


def _damaged(folder: Path, found: str) -> DataError:
    return DataError(f"The table {folder} is damaged: {found}. Write it again with `drobench data convert`.")

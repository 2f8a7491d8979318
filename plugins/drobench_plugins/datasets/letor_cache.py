"""Learning-to-rank data in binary form, which is mapped into memory instead of being parsed.

One folder per text file:

    features.bin    float64, row by row
    relevance.bin   int64
    queries.bin     int64
    contents.json   number of rows, the checksum of the text it was made of, the checksums of the three

The folder is built under another name and renamed, so it is there whole or not at all.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from drobench.data.cache import DownloadError, State
from drobench.files import file_sha256, whole_folder
from drobench_plugins.datasets.letor_text import FEATURES, LetorTable, read_blocks

_FORMAT = 1
_CONTENTS = "contents.json"
_ITEM = 8
_WIDTHS = {"features": FEATURES, "relevance": 1, "queries": 1}


def store(stream: IO[bytes], name: str, folder: Path, stamp: Mapping[str, Any] | None = None) -> int:
    """Parse a text into a folder, which is replaced if it exists; return the number of documents.

    Args:
        stream: The text.
        name: What messages and the folder's contents call it.
        folder: Where the binary form goes.
        stamp: Further facts about the source, by which it can be recognised.
    """
    # What is mapped by another process stays readable for it, under no name.
    with whole_folder(folder, replace=True) as built:
        contents = {"format": _FORMAT, "source": name, **(stamp or {}), **_write(stream, name, built)}
        (built / _CONTENTS).write_text(json.dumps(contents, indent=1), encoding="utf-8")
    return int(contents["rows"])


def _write(stream: IO[bytes], name: str, folder: Path) -> dict[str, Any]:
    source = _Hashed(stream)
    rows = 0
    files = {part: (folder / f"{part}.bin").open("wb") for part in _WIDTHS}
    try:
        for table in read_blocks(source, name):
            rows += len(table.relevance)
            for part, target in files.items():
                array = getattr(table, part)
                target.write(np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).data)
    finally:
        for target in files.values():
            target.close()
    sums = {f"{part}.bin": file_sha256(folder / f"{part}.bin") for part in _WIDTHS}
    return {"rows": rows, "source_sha256": source.digest.hexdigest(), "sha256": sums}


class _Hashed:
    """A stream that hashes what is read from it."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.digest = hashlib.sha256()

    def read(self, size: int) -> bytes:
        """Return at most `size` bytes."""
        block = self._stream.read(size)
        self.digest.update(block)
        return block


def load(folder: Path) -> LetorTable:
    """Map a stored table into memory.

    Raises:
        DownloadError: The folder is damaged.
    """
    contents = read_contents(folder)
    rows = contents["rows"]
    arrays = {}
    for part, width in _WIDTHS.items():
        path = folder / f"{part}.bin"
        size = path.stat().st_size if path.is_file() else 0
        if size != rows * width * _ITEM:
            raise _damaged(folder, f"{path.name} must have {rows * width * _ITEM} bytes, and has {size}")
        kind = "<f8" if part == "features" else "<i8"
        arrays[part] = np.memmap(path, dtype=kind, mode="r", shape=(rows, width) if width > 1 else (rows,))
    return LetorTable(**arrays)


def state(folder: Path, thorough: bool) -> State:
    """What a folder holds; only with `thorough` is every byte read."""
    if not folder.is_dir():
        return State.ABSENT
    try:
        contents = read_contents(folder)
        load(folder)
    except DownloadError:
        return State.DAMAGED
    if thorough and any(file_sha256(folder / name) != known for name, known in contents["sha256"].items()):
        return State.DAMAGED
    return State.VERIFIED


def read_contents(folder: Path) -> dict[str, Any]:
    """Return what a folder says about itself.

    Raises:
        DownloadError: It cannot be read, or says nothing sensible.
    """
    try:
        contents = json.loads((folder / _CONTENTS).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise _damaged(folder, f"{_CONTENTS} cannot be read ({error})") from error
    sums = contents.get("sha256") if isinstance(contents, dict) else None
    sound = (
        isinstance(sums, dict)
        and sorted(sums) == sorted(f"{part}.bin" for part in _WIDTHS)
        and contents.get("format") == _FORMAT
        and isinstance(contents.get("rows"), int)
        and contents["rows"] > 0
    )
    if not sound:
        raise _damaged(folder, f"{_CONTENTS} is not of format {_FORMAT}")
    return dict(contents)


def _damaged(folder: Path, found: str) -> DownloadError:
    return DownloadError(
        f"The stored data in {folder} are damaged: {found}. Run `drobench data fetch mslr --from DIR` again, or delete "
        "the folder."
    )

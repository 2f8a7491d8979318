"""Reading what wandb leaves on the disk when it works offline.

A `.wandb` file has a header of seven bytes, then blocks of 32 KiB with LevelDB's framing: each piece has a checksum, a
length and a kind (whole, first, middle or last piece of a record). A record is one protobuf message.
"""

import json
import struct
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wandb.proto import wandb_internal_pb2

_HEADER = struct.Struct("<4sHB")
_PIECE = struct.Struct("<IHB")
_BLOCK = 32 * 1024
_PATIENCE = 20.0
_PADDING, _WHOLE, _FIRST, _MIDDLE, _LAST = range(5)


@dataclass
class OfflineRun:
    """The content of one file."""

    identity: str = ""
    name: str = ""
    project: str = ""
    group: str = ""
    job_type: str = ""
    tags: list[str] = field(default_factory=list)
    config: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    summary: dict[str, Any] = field(default_factory=dict)
    step_metrics: dict[str, str] = field(default_factory=dict)
    """The axis by the name or pattern of the metric."""
    artifacts: list[Any] = field(default_factory=list)
    exit_codes: list[int] = field(default_factory=list)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The history without what wandb adds for itself."""
        return [{key: value for key, value in row.items() if not key.startswith("_")} for row in self.history]


def runs_in(folder: Path) -> list[OfflineRun]:
    """Return the runs below a folder, in the order in which they were started."""
    files = [file for file in folder.rglob("*.wandb") if "latest-run" not in file.parts]
    # The process that writes the file may take a moment longer than the one that finished the run.
    deadline = time.monotonic() + _PATIENCE
    while True:
        runs = [read_run(file) for file in sorted(files, key=lambda file: (file.stat().st_mtime, file.name))]
        if all(run.exit_codes for run in runs) or time.monotonic() > deadline:
            return runs
        time.sleep(0.01)


def only_run_in(folder: Path) -> OfflineRun:
    """Return the one run below a folder."""
    (run,) = runs_in(folder)
    return run


def read_run(path: Path) -> OfflineRun:
    """Return the content of a file."""
    run = OfflineRun()
    for data in _records(path.read_bytes()):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        _take(run, record)
    return run


def _take(run: OfflineRun, record: Any) -> None:
    kind = record.WhichOneof("record_type")
    if kind == "run":
        said = record.run
        run.identity, run.name, run.project = said.run_id, said.display_name, said.project
        run.group, run.job_type, run.tags = said.run_group, said.job_type, list(said.tags)
        run.config |= _values(said.config.update)
    elif kind == "config":
        run.config |= _values(record.config.update)
    elif kind == "history":
        run.history.append(_values(record.history.item))
    elif kind == "summary":
        run.summary |= _values(record.summary.update)
    elif kind == "metric":
        run.step_metrics[record.metric.name or record.metric.glob_name] = record.metric.step_metric
    elif kind == "artifact":
        run.artifacts.append(record.artifact)
    elif kind == "exit":
        run.exit_codes.append(record.exit.exit_code)


def _values(items: Any) -> dict[str, Any]:
    return {item.key or ".".join(item.nested_key): json.loads(item.value_json) for item in items}


def _records(content: bytes) -> Iterator[bytes]:
    if len(content) < _HEADER.size:
        return
    identity, magic, _ = _HEADER.unpack_from(content)
    assert (identity, magic) == (b":W&B", 0xBEE1)
    at, parts = _HEADER.size, b""
    while at + _PIECE.size <= len(content):
        left = _BLOCK - at % _BLOCK
        if left < _PIECE.size:
            at += left
            continue
        checksum, length, kind = _PIECE.unpack_from(content, at)
        if kind == _PADDING:
            at += left
            continue
        piece = content[at + _PIECE.size : at + _PIECE.size + length]
        if len(piece) < length:
            return  # it is still being written
        assert zlib.crc32(piece, zlib.crc32(bytes([kind]))) == checksum
        at += _PIECE.size + length
        parts = piece if kind in (_WHOLE, _FIRST) else parts + piece
        if kind in (_WHOLE, _LAST):
            yield parts

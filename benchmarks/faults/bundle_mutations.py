"""Mutations of a bundle: damaged, cut, exchanged or forged on the way, drawn from a seed.

Most of them have right checksums, so that what is inside is looked at.
"""

import contextlib
import hashlib
import io
import json
import random
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy
import polars
import safetensors.numpy

from drobench.results.bundle import MANIFEST

DEEP = "[" * 100_000 + "]" * 100_000
VALUES = (
    None, True, False, 0, -1, 1, 2**63, 10**400, 1.5, -0.0, 1e308, "", "x", "a" * 5000,
    "\x1b[2J\x1b[1;1Hall confirmed", "\ud800", "\u202e", "<script>alert(1)</script>", "=cmd()", "../../x",
    "${oc.env:HOME}", "2024-01-01", "0001-01-01T00:00:00", "9999-12-31T23:59:59-14:00", [], {}, [1], ["a", None],
    {"a": {"b": [1, {"c": 2}]}}, {"name": "x"}, [[[[[1]]]]], "gcivr",
)  # fmt: skip
"""Values of other kinds than the one that belongs somewhere."""

COLUMNS = (
    ["a", "b"], [{"x": 1}, {"x": 2}], [[1], [2]], [b"a", b"b"], [None, None], [True, False], [2**62, -1],
    [float("nan")] * 2, [float("inf"), -1e308], [1e-320, 0.0],
)  # fmt: skip

POINTS = (
    numpy.zeros(0), numpy.ones(7), numpy.ones((2, 2)), numpy.array(1 + 2j, dtype=numpy.complex64),
    numpy.full(4, numpy.nan), numpy.array(3),
)  # fmt: skip
NAMES = ("../x", "/etc/x", "runs/x/record.json", "\x1b[2J", "", "ü" * 300, "setup.py", "manifest.json/x")

Files = dict[str, bytes]


class Mutator:
    """Draws mutations of one bundle.

    Args:
        bundle: The sound one.
        seed: Of the draws.
    """

    def __init__(self, bundle: Path, seed: int) -> None:
        self.sound = bundle.read_bytes()
        with zipfile.ZipFile(bundle) as archive:
            self.files: Files = {name: archive.read(name) for name in archive.namelist()}
        self.random = random.Random(seed)

    def mutations(self, count: int) -> Iterator[tuple[str, bytes]]:
        """Yield so many archives, each with what was done to it."""
        inside: list[Callable[[Files], str]] = [
            self._record_value, self._record_value, self._record_value, self._record_value, self._record_text,
            self._manifest_value, self._config_value, self._config_value, self._config_text, self._curve_column,
            self._curve_column, self._solution, self._exchange, self._flip_inside, self._cut_inside,
        ]  # fmt: skip
        outside = [self._flip, self._cut, self._duplicate, self._rename, self._drop, self._size]
        for _ in range(count):
            if self.random.random() < 0.75:
                files = dict(self.files)
                done = "; ".join(self.random.choice(inside)(files) for _ in range(self.random.choice((1, 1, 2))))
                yield done, archived(files)
            else:
                yield self.random.choice(outside)()

    def _one(self, ending: str = "") -> str:
        return self.random.choice([name for name in self.files if name.endswith(ending)])

    def _replaced(self, content: object) -> tuple[str, object]:
        """Put another value somewhere into nested ones; returns where."""
        if not isinstance(content, dict | list) or not content or self.random.random() < 0.1:
            return "", self.random.choice(VALUES)
        key = self.random.choice(list(content) if isinstance(content, dict) else range(len(content)))
        pick = self.random.random()
        if pick < 0.08 and isinstance(content, dict):
            del content[key]
            return f".{key} gone", content
        if pick < 0.12 and isinstance(content, dict):
            content[str(self.random.choice(VALUES))] = content[key]
            return f".{key} doubled", content
        place, content[key] = self._replaced(content[key])
        return f".{key}{place}", content

    def _json_value(self, files: Files, name: str) -> str:
        place, content = self._replaced(json.loads(self.files[name]))
        files[name] = json.dumps(content).encode()
        return f"{name[-30:]}: {place}"

    def _record_value(self, files: Files) -> str:
        return self._json_value(files, self._one("record.json"))

    def _manifest_value(self, files: Files) -> str:
        place, content = self._replaced(json.loads(self.files[MANIFEST]))
        files[MANIFEST] = json.dumps(content).encode()
        return f"manifest: {place}"

    def _record_text(self, files: Files) -> str:
        name = self._one("record.json")
        sound = self.files[name]
        deep = b'"config": {"deep": ' + b"[" * 700 + b"]" * 700 + b","
        texts = (
            b"", b"{", b"null", b"[]", DEEP.encode(), b'{"schema": 99}', b'{"schema": NaN}', b"\xff\xfe",
            b"0" * 5_000_000, sound.replace(b'"config": {', deep, 1), sound + b" " * 5_000_000,
            sound.replace(b'"reason": ', b'"x": 1e999, "reason": ', 1),
        )  # fmt: skip
        files[name] = self.random.choice(texts)
        return f"{name[-30:]}: text {files[name][:20]!r}"

    def _config_text(self, files: Files) -> str:
        name = self._one("config.yaml")
        bomb = "a0: &a0 [1,1]\n" + "".join(f"a{n}: &a{n} [*a{n - 1},*a{n - 1}]\n" for n in range(1, 60))
        cycle = "solver: &s {name: gcivr, x: *s}\n"
        texts = (
            bomb,
            cycle,
            DEEP,
            "",
            "x",
            "- 1\n",
            "a: !!python/name:os.system\n",
            "\x00",
            "a: b: c",
            "x" * 2_000_000,
        )
        files[name] = self.random.choice(texts).encode()
        return f"config: {files[name][:30]!r}"

    def _config_value(self, files: Files) -> str:
        name = self._one("config.yaml")
        lines = self.files[name].decode().splitlines()
        number = self.random.randrange(len(lines))
        value = self.random.choice((*VALUES, "~/x", "???"))
        lines[number] = f"{lines[number].split(':')[0]}: {json.dumps(value)}"
        files[name] = "\n".join(lines).encode()
        return f"config: {lines[number][:80]!r}"

    def _curve_column(self, files: Files) -> str:
        name = self._one("curve.parquet")
        curve = polars.read_parquet(io.BytesIO(self.files[name])).head(2)
        column, values = self.random.choice([*curve.columns, "further"]), self.random.choice(COLUMNS)
        if self.random.random() < 0.1:
            curve = polars.select(step=polars.repeat(1.0, 30_000_000), objective=polars.repeat(1.0, 30_000_000))
            column, values = "all", "30 million rows"
        else:
            curve = curve.with_columns(polars.Series(column, values, strict=False))
        sink = io.BytesIO()
        curve.write_parquet(sink)
        files[name] = sink.getvalue()
        return f"curve: {column} {values}"

    def _solution(self, files: Files) -> str:
        name = self._one("solution.safetensors")
        points = safetensors.numpy.load(self.files[name])
        key = self.random.choice(list(points))
        points[key] = self.random.choice(POINTS)
        if self.random.random() < 0.3:
            del points[key]
        files[name] = safetensors.numpy.save(points)
        if self.random.random() < 0.2:
            files[name] = files[name].replace(b'"F64"', b'"F16"')
        return f"solution: {key}"

    def _exchange(self, files: Files) -> str:
        ending = self.random.choice(("record.json", "curve.parquet", "solution.safetensors", "config.yaml"))
        first, second = [name for name in files if name.endswith(ending)][:2]
        files[first], files[second] = files[second], files[first]
        return f"{ending} exchanged"

    def _flip_inside(self, files: Files) -> str:
        name = self._one()
        files[name] = self._flipped(self.files[name])
        return f"{name[-30:]}: bytes changed"

    def _cut_inside(self, files: Files) -> str:
        name = self._one()
        files[name] = self.files[name][: self.random.randrange(len(self.files[name]))]
        return f"{name[-30:]}: cut"

    def _flipped(self, content: bytes) -> bytes:
        changed = bytearray(content)
        for _ in range(self.random.choice((1, 1, 3, 20))):
            changed[self.random.randrange(len(changed))] = self.random.randrange(256)
        return bytes(changed)

    def _flip(self) -> tuple[str, bytes]:
        return "bytes of the archive changed", self._flipped(self.sound)

    def _cut(self) -> tuple[str, bytes]:
        return "the archive cut", self.sound[: self.random.randrange(len(self.sound))]

    def _duplicate(self) -> tuple[str, bytes]:
        name = self._one()
        return f"{name[-30:]} twice", archived(self.files, twice=name)

    def _rename(self) -> tuple[str, bytes]:
        name = self._one()
        other = self.random.choice((*NAMES, name.upper(), f"{name}\x00", f"{name}/x"))
        files = {(other if found == name else found): content for found, content in self.files.items()}
        return f"{name[-30:]} renamed {other[:40]!a}", archived(files)

    def _drop(self) -> tuple[str, bytes]:
        name = self._one()
        kept = {found: content for found, content in self.files.items() if found != name}
        return f"{name[-30:]} gone", archived(kept, rehash=self.random.random() < 0.5)

    def _size(self) -> tuple[str, bytes]:
        """Say another size in the list of the archive than there is."""
        content = bytearray(archived(self.files))
        begin = content.index(b"PK\x01\x02")
        for _ in range(self.random.randrange(len(self.files))):
            begin = content.index(b"PK\x01\x02", begin + 4)
        at = begin + self.random.choice((16, 20, 24, 28, 30, 42))
        content[at : at + 4] = self.random.choice((b"\x00" * 4, b"\xff" * 4, b"\x01\x00\x00\x00", b"\xff\xff\xff\x7f"))
        return f"a number in the list of the archive forged at {at - begin}", bytes(content)


def archived(files: Files, *, rehash: bool = True, twice: str | None = None) -> bytes:
    """Return an archive of the files, whose manifest has their checksums unless it says something odd of files."""
    files = {name: resealed(name, content, files) for name, content in files.items()}
    with contextlib.suppress(ValueError, RecursionError, KeyError):
        manifest = json.loads(files[MANIFEST])
        if rehash and isinstance(manifest, dict) and isinstance(manifest.get("files"), dict):
            sound = {name: content for name, content in files.items() if name != MANIFEST}
            odd = {name: entry for name, entry in manifest["files"].items() if name in sound and not _is_usual(entry)}
            hashed = {name: {"sha256": hashlib.sha256(content).hexdigest()} for name, content in sound.items()}
            files[MANIFEST] = json.dumps({**manifest, "files": {**hashed, **odd}}).encode()
    sink = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        warnings.simplefilter("ignore")
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
        if twice is not None:
            archive.writestr(zipfile.ZipInfo(twice), files[twice])
    return sink.getvalue()


def resealed(name: str, content: bytes, files: Files) -> bytes:
    """Return a record with the checksums of the files beside it and of itself; anything else as it is.

    A seal shows damage, not fraud: whoever changes a run on purpose can seal it again.
    """
    if not name.endswith("record.json"):
        return content
    try:
        record = json.loads(content)
        record["files"] = {
            beside: hashlib.sha256(files[name.replace("record.json", beside)]).hexdigest() for beside in record["files"]
        }
        record["checksum"] = "0" * 64
    except (ValueError, RecursionError, KeyError, TypeError):
        return content
    text = json.dumps(record, indent=2) + "\n"
    seal = hashlib.sha256(text.encode()).hexdigest()
    return text.replace(f'\n  "checksum": "{"0" * 64}"', f'\n  "checksum": "{seal}"', 1).encode()


def _is_usual(entry: object) -> bool:
    return isinstance(entry, dict) and isinstance(entry.get("sha256"), str) and len(entry["sha256"]) == 64

"""Results as one file that can be handed to others, and read without trusting who made it.

A bundle is a zip archive:

```
manifest.json                        checksums of all other files, plugins with hashes, data checksums, environments
runs/<run_id>/record.json            as stored, beside curve.parquet, solution.safetensors, config.yaml
```

The same results make the same bytes. A reader accepts these names and no others, never more bytes than its limits allow
(counted as they come, whatever the archive says), and nothing that its checksum does not confirm. No file is a program
or a pickle. A checksum shows damage, not fraud: `verify` computes the results again.
"""

import hashlib
import json
import re
import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from drobench.errors import DrobenchError
from drobench.results import contents
from drobench.results.folders import temporary_name
from drobench.results.record import Record

FORMAT = 1
MANIFEST = "manifest.json"
FILES = (contents.RECORD, contents.CURVE, contents.SOLUTION, contents.CONFIG)

_NAME = re.compile(rf"runs/[0-9a-f]{{64}}/({'|'.join(map(re.escape, FILES))})")
_CHUNK = 1 << 20
# Of the first day zip archives know: real times would make the same results another file.
_MOMENT = (1980, 1, 1, 0, 0, 0)


class BadBundle(DrobenchError):
    """A file that is no bundle, or one that was changed."""

    exit_code = 1


@dataclass(frozen=True)
class Limits:
    """How much a reader puts up with."""

    files: int = 400_000
    file_bytes: int = 1 << 29
    total_bytes: int = 1 << 33


@dataclass(frozen=True)
class Plugin:
    """A package whose plugins took part.

    Attributes:
        sha256: Of its source files as they were installed when the bundle was made; `None` if they were not.
    """

    distribution: str
    version: str | None
    sha256: str | None


def pack(root: Path, records: Sequence[Record], plugins: Iterable[Plugin], output: Path) -> int:
    """Write a bundle of the runs; it appears complete or not at all.

    Args:
        root: The folder of results.
        records: The runs to put in.
        plugins: The packages they were made with.
        output: The file to write.

    Returns:
        Its size in bytes.
    """
    if not records:
        raise DrobenchError(f"There is no run in {root} to pack. `drobench run` or `drobench sweep` makes some.")
    output.parent.mkdir(parents=True, exist_ok=True)
    built = output.with_name(f".{temporary_name()}")
    checksums: dict[str, dict[str, Any]] = {}
    try:
        with zipfile.ZipFile(built, "x", zipfile.ZIP_DEFLATED) as archive:
            for record in sorted(records, key=lambda record: record.run_id):
                for name in FILES:
                    content = (root / record.run_id / name).read_bytes()
                    inside = f"runs/{record.run_id}/{name}"
                    checksums[inside] = {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
                    _add(archive, inside, content)
            _add(archive, MANIFEST, json.dumps(_manifest(records, plugins, checksums), indent=1).encode())
        built.replace(output)
    finally:
        built.unlink(missing_ok=True)
    return output.stat().st_size


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    entry = zipfile.ZipInfo(name, _MOMENT)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    archive.writestr(entry, content)


def _manifest(
    records: Sequence[Record], plugins: Iterable[Plugin], checksums: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    datasets = {
        (record.dataset.name, record.dataset.sha256): {
            "name": record.dataset.name,
            "sha256": record.dataset.sha256,
            "rows": record.dataset.rows,
            "twin": record.dataset.twin,
        }
        for record in records
    }
    environments = {json.dumps(asdict(record.environment), sort_keys=True): None for record in records}
    return {
        "format": FORMAT,
        "runs": len(records),
        "plugins": [asdict(plugin) for plugin in sorted(plugins, key=lambda plugin: plugin.distribution)],
        "datasets": [datasets[key] for key in sorted(datasets, key=str)],
        "environments": [json.loads(text) for text in sorted(environments)],
        "files": dict(sorted(checksums.items())),
    }


def unpack(bundle: Path, root: Path, limits: Limits = Limits()) -> dict[str, Any]:  # noqa: B008  # immutable
    """Take a bundle apart into a folder of results.

    Args:
        bundle: The file.
        root: An empty folder.
        limits: How much to put up with.

    Returns:
        The manifest.

    Raises:
        BadBundle: If anything about the file is not as it must be; `root` is then not to be used.
    """
    try:
        with zipfile.ZipFile(bundle) as archive:
            return _unpack(archive, bundle, root, limits)
    except FileNotFoundError:
        raise BadBundle(f"There is no file {bundle}.") from None
    # What zipfile raises for damaged archives, and for compressions it does not know.
    except (zipfile.BadZipFile, zipfile.LargeZipFile, NotImplementedError, EOFError, OSError, zlib.error) as error:
        raise BadBundle(f"{bundle} must be a zip archive made by `drobench pack`; found: {error}.") from error


def _unpack(archive: zipfile.ZipFile, bundle: Path, root: Path, limits: Limits) -> dict[str, Any]:
    entries = archive.infolist()
    if len(entries) > limits.files:
        raise BadBundle(f"{bundle} has {len(entries)} files; more than {limits.files} are not read.")
    names = [entry.filename for entry in entries]
    _check_names(bundle, entries, names)
    left = limits.total_bytes
    manifest = _parsed(bundle, _content(archive, MANIFEST, bundle, min(limits.file_bytes, left)))
    expected = manifest["files"]
    missing, extra = sorted(set(expected) - set(names)), sorted(set(names) - set(expected) - {MANIFEST})
    if missing or extra:
        raise BadBundle(
            f"{bundle} must hold just the files of its manifest; missing: {_listed(missing)}; too many: "
            f"{_listed(extra)}. It was changed after it was packed."
        )
    for name in sorted(expected):
        content = _content(archive, name, bundle, min(limits.file_bytes, left))
        left -= len(content)
        found = hashlib.sha256(content).hexdigest()
        if found != expected[name].get("sha256"):
            raise BadBundle(
                f"{bundle}: {name} must have the sha256 {str(expected[name].get('sha256'))[:64]}; found {found}. It "
                "was changed after it was packed."
            )
        _, run_id, file = name.split("/")
        (root / run_id).mkdir(parents=True, exist_ok=True)
        (root / run_id / file).write_bytes(content)
    return manifest


def _check_names(bundle: Path, entries: Sequence[zipfile.ZipInfo], names: Sequence[str]) -> None:
    """Refuse every name but those a bundle has: no other folder, no way out of this one, no link, no second file."""
    if MANIFEST not in names:
        raise BadBundle(f"{bundle} must hold {MANIFEST}; found none. `drobench pack` makes bundles.")
    if len(set(names)) < len(names):
        twice = next(name for position, name in enumerate(names) if name in names[:position])
        raise BadBundle(f"{bundle} holds {twice[:200]!r} twice.")
    for entry in entries:
        kind = entry.external_attr >> 28
        if entry.filename != MANIFEST and not _NAME.fullmatch(entry.filename):
            raise BadBundle(
                f"{bundle}: names are {MANIFEST} and runs/RUN_ID/FILE with one of {', '.join(FILES)}; found "
                f"{entry.filename[:200]!r}."
            )
        if kind not in (0, 0o10) or entry.flag_bits & 1:
            raise BadBundle(f"{bundle}: {entry.filename} must be a plain file; found a link, a device or a secret.")


def _content(archive: zipfile.ZipFile, name: str, bundle: Path, most: int) -> bytes:
    """Return a file, reading no more than is allowed: what the archive says of its size is not believed."""
    parts, size = [], 0
    with archive.open(name) as source:
        while chunk := source.read(_CHUNK):
            size += len(chunk)
            if size > most:
                raise BadBundle(f"{bundle}: {name} has more than the {most} bytes that are read of it.")
            parts.append(chunk)
    return b"".join(parts)


def _parsed(bundle: Path, content: bytes) -> dict[str, Any]:
    try:
        manifest = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise BadBundle(f"{bundle}: {MANIFEST} must be JSON; found {error}.") from None
    if not isinstance(manifest, dict) or not isinstance(manifest.get("format"), int):
        raise BadBundle(f"{bundle}: {MANIFEST} must be an object with a `format`.")
    if manifest["format"] != FORMAT:
        raise BadBundle(
            f"{bundle} has format {manifest['format']}; this version of drobench reads format {FORMAT}. Upgrade "
            "drobench to read it."
        )
    files = manifest.get("files")
    if not isinstance(files, dict) or not all(isinstance(entry, dict) for entry in files.values()):
        raise BadBundle(f"{bundle}: {MANIFEST} must list its `files` with their checksums.")
    return manifest


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(name[:120] for name in names[:3])
    return f"{shown} and {len(names) - 3} more" if len(names) > 3 else shown or "none"

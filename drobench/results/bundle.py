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
import reprlib
import zipfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from drobench.archives import ARCHIVE_ERRORS, MOST_FILES, UnsafeArchive, check_member, members, read_member
from drobench.errors import DrobenchError
from drobench.files import whole_file
from drobench.results import contents
from drobench.results.record import Record

FORMAT = 1
MANIFEST = "manifest.json"
FILES = (contents.RECORD, contents.CURVE, contents.SOLUTION, contents.CONFIG)

# Of the manifest: what it says of itself and of environments, and what it says of each file.
_MANIFEST_BYTES, _MANIFEST_BYTES_A_FILE = 1 << 20, 1 << 11
# A list of empty lists takes thirty times its length in memory; no manifest has so many parts.
_MANIFEST_PARTS, _MANIFEST_PARTS_A_FILE = 20_000, 100
_SHA256 = re.compile(r"[0-9a-f]{64}")
_NAME = re.compile(rf"runs/[0-9a-f]{{64}}/({'|'.join(map(re.escape, FILES))})")
# Of the first day zip archives know: real times would make the same results another file.
_MOMENT = (1980, 1, 1, 0, 0, 0)


class BadBundle(DrobenchError):
    """A file that is no bundle, or one that was changed."""

    exit_code = 1


@dataclass(frozen=True)
class Limits:
    """How much a reader puts up with."""

    files: int = MOST_FILES
    file_bytes: int = 1 << 29
    total_bytes: int = 1 << 33


@dataclass(frozen=True)
class Plugin:
    """A package that took part.

    Attributes:
        code: Checksums of the files of it that made the runs, as their records say; empty for older records.
    """

    distribution: str
    version: str | None
    code: tuple[str, ...]


def pack(root: Path, records: Sequence[Record], output: Path) -> int:
    """Write a bundle of the runs; it appears complete or not at all.

    Args:
        root: The folder of results.
        records: The runs to put in.
        output: The file to write.

    Returns:
        Its size in bytes.
    """
    if not records:
        raise DrobenchError(f"There is no run in {root} to pack. `drobench run` or `drobench sweep` makes some.")
    if output.is_dir():
        raise DrobenchError(f"A bundle is a file; {output} is a folder. Name a file in it: {output / 'bundle.zip'}.")
    checksums: dict[str, dict[str, Any]] = {}
    with whole_file(output) as stream, zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for record in sorted(records, key=lambda record: record.run_id):
            for name in FILES:
                content = (root / record.run_id / name).read_bytes()
                inside = f"runs/{record.run_id}/{name}"
                checksums[inside] = {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
                _add(archive, inside, content)
        _add(archive, MANIFEST, json.dumps(_manifest(records, checksums), indent=1).encode())
    return output.stat().st_size


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    entry = zipfile.ZipInfo(name, _MOMENT)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    archive.writestr(entry, content)


def packages_of(records: Sequence[Record]) -> list[Plugin]:
    """Return the packages that these runs were made with."""
    found: dict[tuple[str, str | None], set[str]] = {}
    for record in records:
        for part in (record.solver, record.problem, record.dataset):
            if part.distribution is not None:
                code = found.setdefault((part.distribution, part.version), set())
                code |= {record.code[part.distribution]} if part.distribution in record.code else set()
    return [Plugin(name, version, tuple(sorted(code))) for (name, version), code in sorted(found.items(), key=str)]


def _manifest(records: Sequence[Record], checksums: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
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
        "plugins": [asdict(plugin) for plugin in packages_of(records)],
        "datasets": [datasets[key] for key in sorted(datasets, key=str)],
        "environments": [json.loads(text) for text in sorted(environments)],
        "files": dict(sorted(checksums.items())),
    }


def unpack(bundle: Path, root: Path, limits: Limits = Limits()) -> dict[str, Any]:
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
        if not bundle.exists():
            raise BadBundle(f"There is no file {bundle}.")
        if not bundle.is_file():
            # A device or a pipe may never end.
            raise BadBundle(f"{bundle} must be a file made by `drobench pack`; found a folder, a pipe or a device.")
        with zipfile.ZipFile(bundle) as archive:
            return _unpack(archive, bundle, root, limits)
    except UnsafeArchive as error:
        raise BadBundle(str(error)) from error
    except (*ARCHIVE_ERRORS, OSError) as error:
        raise BadBundle(f"{bundle} must be a zip archive made by `drobench pack`; found: {error}.") from error


def _unpack(archive: zipfile.ZipFile, bundle: Path, root: Path, limits: Limits) -> dict[str, Any]:
    entries = {entry.filename: entry for entry in members(archive, limits.files)}
    _check_names(bundle, entries)
    for entry in entries.values():
        check_member(archive, entry)
    left = limits.total_bytes
    most = min(limits.file_bytes, left, _MANIFEST_BYTES + _MANIFEST_BYTES_A_FILE * len(entries))
    manifest = _parsed(bundle, read_member(archive, entries[MANIFEST], most), len(entries))
    expected = manifest["files"]
    _check_complete(bundle, set(entries) - {MANIFEST}, set(expected))
    for name in sorted(expected):
        _, run_id, file = name.split("/")
        content = read_member(archive, entries[name], min(limits.file_bytes, left, contents.LARGEST[file]))
        left -= len(content)
        found = hashlib.sha256(content).hexdigest()
        if found != expected[name]["sha256"]:
            raise BadBundle(
                f"{bundle}: {name} must have the sha256 {expected[name]['sha256']}; found {found}. It was changed "
                "after it was packed."
            )
        (root / run_id).mkdir(parents=True, exist_ok=True)
        (root / run_id / file).write_bytes(content)
    return manifest


def _check_names(bundle: Path, names: Collection[str]) -> None:
    """Refuse every name but those a bundle has."""
    if MANIFEST not in names:
        raise BadBundle(f"{bundle} must hold {MANIFEST}; found none. `drobench pack` makes bundles.")
    for name in names:
        if name != MANIFEST and not _NAME.fullmatch(name):
            raise BadBundle(
                f"{bundle}: names are {MANIFEST} and runs/RUN_ID/FILE with one of {', '.join(FILES)}; found "
                f"{name[:200]!r}."
            )


def _check_complete(bundle: Path, found: set[str], expected: set[str]) -> None:
    missing, extra = sorted(expected - found), sorted(found - expected)
    if missing or extra:
        raise BadBundle(
            f"{bundle} must hold just the files of its manifest; missing: {_listed(missing)}; too many: "
            f"{_listed(extra)}. It was changed after it was packed."
        )


def _parsed(bundle: Path, content: bytes, files: int) -> dict[str, Any]:
    if sum(content.count(sign) for sign in b"[{,") > _MANIFEST_PARTS + _MANIFEST_PARTS_A_FILE * files:
        raise BadBundle(f"{bundle}: {MANIFEST} has far more parts than {files} files need. Do not use this archive.")
    try:
        manifest = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise BadBundle(f"{bundle}: {MANIFEST} must be JSON; found {error}.") from None
    if not isinstance(manifest, dict) or type(manifest.get("format")) is not int:
        raise BadBundle(f"{bundle}: {MANIFEST} must be an object with a `format`.")
    if manifest["format"] != FORMAT:
        raise BadBundle(
            f"{bundle} has format {reprlib.repr(manifest['format'])}; this version of drobench reads format {FORMAT}. "
            "Upgrade drobench to read it."
        )
    _check_files(bundle, manifest.get("files"))
    _check_plugins(bundle, manifest.get("plugins"))
    return manifest


def _check_files(bundle: Path, files: Any) -> None:
    sound = isinstance(files, dict) and all(
        isinstance(entry, dict) and isinstance(entry.get("sha256"), str) and _SHA256.fullmatch(entry["sha256"])
        for entry in files.values()
    )
    if not sound:
        raise BadBundle(f"{bundle}: {MANIFEST} must list its `files` with their checksums, 64 hexadecimal digits each.")


def _check_plugins(bundle: Path, plugins: Any) -> None:
    """What is said of plugins is there to be read by people and programs."""
    sound = isinstance(plugins, list) and all(
        isinstance(plugin, dict)
        and isinstance(plugin.get("distribution"), str)
        and isinstance(plugin.get("version"), str | None)
        for plugin in plugins
    )
    if not sound:
        raise BadBundle(
            f"{bundle}: {MANIFEST} must list its `plugins`, each an object with the texts `distribution` and "
            f"`version`; found {reprlib.repr(plugins)}."
        )


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(name[:120] for name in names[:3])
    return f"{shown} and {len(names) - 3} more" if len(names) > 3 else shown or "none"

"""What the catalogue follows from, as one checksum: the interpreter, what is installed, and the content of plugins.

Nothing is imported for it. Of drobench and of every package that has an entry point all files count: those of Python by
their content, others by size and time. Other packages count by name and version, as installers write them.
"""

import hashlib
import importlib.metadata
import importlib.util
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from drobench.registry.plugins import DISABLE_VARIABLE

_METADATA = (".dist-info", ".egg-info", ".egg-link", ".pth")
OWN_PACKAGE = "drobench"


def packages_of(points: Iterable[importlib.metadata.EntryPoint]) -> list[str]:
    """Return the packages that hold the plugins of these entry points, by their top names."""
    return sorted({point.value.partition(":")[0].partition(".")[0].strip() for point in points})


def installed_state(points: Iterable[importlib.metadata.EntryPoint]) -> str:
    """Return a checksum that changes whenever the catalogue may.

    Args:
        points: The entry points that it is read from.
    """
    points = list(points)
    digest = hashlib.sha256()

    def count(*words: object) -> None:
        digest.update("\0".join(map(str, words)).encode("utf-8", "surrogateescape") + b"\n")

    count("python", sys.version, sys.prefix)
    count("disabled", os.environ.get(DISABLE_VARIABLE, ""))
    for name in _installed():
        count("installed", name)
    for point in sorted(points, key=lambda point: (point.name, point.value)):
        count("entry point", point.name, point.value)
    for package in dict.fromkeys([OWN_PACKAGE, *packages_of(points)]):
        for place in _places(package):
            count("package", package, place)
            for file in _files(place):
                if file.suffix == ".py":
                    count(file, hashlib.sha256(file.read_bytes()).hexdigest())
                else:
                    found = file.stat()
                    count(file, found.st_size, found.st_mtime_ns)
    return digest.hexdigest()


def _installed() -> Iterator[str]:
    """Return what installers have left on the path: names and versions of packages, in the order that decides."""
    for folder in sys.path:
        try:
            names = [entry.name for entry in Path(folder or ".").iterdir()]
        except OSError:
            continue  # an archive, or a folder that is not there
        yield from (f"{folder}:{name}" for name in sorted(names) if name.endswith(_METADATA))


def _places(package: str) -> list[Path]:
    try:
        found = importlib.util.find_spec(package)
    except (ImportError, AttributeError, ValueError):
        return []  # it cannot be imported either, which is a trouble and is not stored
    if found is None:
        return []
    if found.submodule_search_locations is not None:
        return [Path(folder) for folder in found.submodule_search_locations]
    return [Path(found.origin)] if found.has_location and found.origin else []


def _files(place: Path) -> Iterator[Path]:
    if not place.is_dir():
        yield place
        return
    for folder, folders, names in os.walk(place):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        yield from (Path(folder, name) for name in sorted(names))

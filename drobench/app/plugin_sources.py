"""Which packages the parts of runs come from, and the checksums of their sources."""

import hashlib
import importlib.util
from collections.abc import Sequence
from pathlib import Path

from drobench.registry import Catalogue
from drobench.results.bundle import Plugin
from drobench.results.record import Record


def plugins_of(records: Sequence[Record], catalogue: Catalogue) -> list[Plugin]:
    """Return the packages that the parts of these runs come from, each with the checksum of its source here."""
    used = {
        (part.distribution, part.version)
        for record in records
        for part in (record.solver, record.problem, record.dataset)
        if part.distribution is not None
    }
    found = sorted(used, key=str)
    return [Plugin(name, version, source_checksum(name, catalogue)) for name, version in found]


def source_checksum(distribution: str, catalogue: Catalogue) -> str | None:
    """Return the sha256 of all Python files of the packages that a distribution's plugins live in."""
    shelves = (catalogue.solvers, catalogue.problems, catalogue.datasets)
    packages = {
        found.entry.factory.__module__.partition(".")[0]
        for shelf in shelves
        for found in shelf.values()
        if found.distribution == distribution
    }
    if not packages:
        return None
    digest = hashlib.sha256()
    for package in sorted(packages):
        specification = importlib.util.find_spec(package)
        assert specification is not None  # its plugin was imported a moment ago
        for folder in specification.submodule_search_locations or []:
            for file in sorted(Path(folder).rglob("*.py")):
                digest.update(f"{package}/{file.relative_to(folder).as_posix()}\0".encode())
                digest.update(hashlib.sha256(file.read_bytes()).digest())
        if specification.submodule_search_locations is None and specification.origin is not None:
            digest.update(Path(specification.origin).read_bytes())
    return digest.hexdigest()

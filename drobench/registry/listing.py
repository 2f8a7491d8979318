"""The catalogue as a list: what is installed and how it is configured, at the price of reading one file.

To read the plugins is to import them, torch and all. What came of it is therefore kept in the user's cache, under a
checksum of everything that it follows from, and commands that only need names and settings take it from there. A list
builds nothing. Where plugins have troubles, or settings that cannot be written down, no list is kept, and every command
asks the plugins themselves: a trouble may pass without any file having changed.
"""

import hashlib
import importlib.metadata
import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from drobench.files import write_atomically
from drobench.registry.catalogue import (
    ENTRY_POINT_GROUP,
    Catalogue,
    InstalledPlugin,
    Registered,
    check_environment,
    load_catalogue,
)
from drobench.registry.installed_state import OWN_PACKAGE, installed_state, packages_of
from drobench.registry.listed import NotListable, listed, unlisted

_KEPT = 8


def list_catalogue() -> Catalogue:
    """Return the catalogue, whose entries may be without what they stand for."""
    if load_catalogue.cache_info().currsize:
        return load_catalogue()
    check_environment()
    try:
        points = list(importlib.metadata.entry_points(group=ENTRY_POINT_GROUP))
        state = installed_state(points)
    except Exception:  # damaged metadata, files that cannot be read: whoever reads the plugins says which
        return load_catalogue()
    file = list_folder() / f"{state}.json"
    found = _read(file)
    if found is not None:
        return found
    # What was imported earlier may be from before an edit, and would be kept as if it were from after it.
    fresh = not {package for package in packages_of(points) if package != OWN_PACKAGE} & set(sys.modules)
    catalogue = load_catalogue()
    if fresh and not catalogue.troubles:
        with suppress(NotListable, OSError):  # a cache that cannot be written to costs time and nothing else
            _keep(file, catalogue)
    return catalogue


def list_folder() -> Path:
    """Return where lists are kept: beside the data, under a name that no dataset has."""
    import platformdirs  # noqa: PLC0415  # not needed where the catalogue is loaded already

    return Path(platformdirs.user_cache_dir("drobench", appauthor=False)) / ".lists"


def _keep(file: Path, catalogue: Catalogue) -> None:
    content = json.dumps(_values(catalogue), separators=(",", ":"))
    write_atomically(file, f"{_checksum(content)}\n{content}")
    by_age = sorted(file.parent.glob("*.json"), key=lambda other: other.stat().st_mtime_ns, reverse=True)
    for older in by_age[_KEPT:]:
        older.unlink(missing_ok=True)


def _read(file: Path) -> Catalogue | None:
    """Return the list in a file; none where there is none, or it is not as it was written."""
    try:
        checksum, _, content = file.read_text(encoding="utf-8").partition("\n")
        return _catalogue(json.loads(content)) if checksum == _checksum(content) else None
    except (OSError, ValueError):
        return None  # it is made again


def _checksum(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()


def _values(catalogue: Catalogue) -> dict[str, Any]:
    shelves = {
        plural: [
            {**listed(found.entry), "from": [found.plugin, found.distribution, found.version]}
            for found in entries.values()
        ]
        for plural, entries in catalogue.of_kinds().items()
    }
    plugins = [[it.plugin, it.distribution, it.version, it.api, it.entries] for it in catalogue.plugins]
    return {"shelves": shelves, "plugins": plugins, "disabled": list(catalogue.disabled)}


def _catalogue(values: dict[str, Any]) -> Catalogue:
    # By their kinds these entries are not what the catalogue of builders has; nobody who lists asks for more.
    shelves: dict[str, Any] = {
        plural: {item["name"]: Registered(unlisted(item), *item["from"]) for item in items}
        for plural, items in values["shelves"].items()
    }
    plugins = tuple(InstalledPlugin(*plugin) for plugin in values["plugins"])
    return Catalogue(**shelves, plugins=plugins, disabled=tuple(values["disabled"]))

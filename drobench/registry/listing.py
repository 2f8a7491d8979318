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
from typing import Any, NamedTuple

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


class Listing(NamedTuple):
    """A catalogue, whose entries may be without what they stand for.

    Attributes:
        catalogue: The catalogue.
        state: The checksum of everything that it and the code of its plugins follow from; none: it is not known, or
            what was read may be of another time.
    """

    catalogue: Catalogue
    state: str | None


def list_catalogue() -> Catalogue:
    """Return the catalogue, whose entries may be without what they stand for."""
    return find_listing().catalogue


def find_listing() -> Listing:
    """Return the catalogue as a list, and what it follows from."""
    if load_catalogue.cache_info().currsize:
        return Listing(load_catalogue(), None)
    check_environment()
    # What was imported earlier may be from before an edit, and would be kept as if it were from after it.
    imported = set(sys.modules)
    state = state_here()
    if state is None:
        return Listing(load_catalogue(), None)
    file = list_folder() / f"{state}.json"
    found = _read(file)
    if found is not None:
        return Listing(found, state)
    fresh = not {package for package in packages_of(_points()) if package != OWN_PACKAGE} & imported
    catalogue = load_catalogue()
    if not fresh or catalogue.troubles:
        return Listing(catalogue, None)
    with suppress(NotListable, OSError):  # a cache that cannot be written to costs time and nothing else
        _keep(file, catalogue)
    return Listing(catalogue, state)


def state_here() -> str | None:
    """Return the checksum of everything that a catalogue would follow from now; none where it cannot be taken."""
    try:
        return installed_state(_points())
    except Exception:  # damaged metadata, files that cannot be read: whoever reads the plugins says which
        return None


def packages_here() -> set[str]:
    """Return the packages whose files `state_here` is made of."""
    return {OWN_PACKAGE, *packages_of(_points())}


def _points() -> list[importlib.metadata.EntryPoint]:
    return list(importlib.metadata.entry_points(group=ENTRY_POINT_GROUP))


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

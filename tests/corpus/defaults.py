"""The defaults of all settings, and the version of what they mean; run as a program, it writes them down."""

import json
from pathlib import Path
from typing import Any

from drobench.app.config import REGISTRY_GROUPS, RunConfig
from drobench.app.identity import OWN_CONFIG_CHANGES, OWN_GROUPS, default_settings
from drobench.registry import Catalogue, load_catalogue

FILE = Path(__file__).with_name("defaults.json")


def defaults_of(catalogue: Catalogue) -> dict[str, Any]:
    """The defaults of our plugins by kind and name, and those of the framework's own groups."""
    shelves = {kind: getattr(catalogue, f"{kind}s") for kind in REGISTRY_GROUPS}
    plugins = {
        kind: {
            name: {"version": found.entry.config_version, "defaults": default_settings(found.entry.config)}
            for name, found in shelf.items()
            if found.distribution == "drobench"
        }
        for kind, shelf in shelves.items()
    }
    annotations = RunConfig.__annotations__
    own = {
        name: {"version": 1 + len(OWN_CONFIG_CHANGES), "defaults": default_settings(annotations[name])}
        for name in OWN_GROUPS
        if name not in shelves
    }
    return {**plugins, "own": own}


if __name__ == "__main__":
    FILE.write_text(json.dumps(defaults_of(load_catalogue()), indent=1, sort_keys=True) + "\n")

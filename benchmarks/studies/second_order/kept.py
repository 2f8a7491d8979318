"""Measurements that are no runs of a sweep, kept beside them so that tables can be made again."""

import json
from pathlib import Path
from typing import Any

from drobench.files import write_atomically
from drobench.results.record import content_id

FOLDER = ".second_order"


class Kept:
    """Measurements by what was asked for and the code that answered; other code finds none of them."""

    def __init__(self, results: Path) -> None:
        self.folder = results / FOLDER

    def get(self, asked: dict[str, Any]) -> dict[str, Any] | None:
        """Return what was measured, or `None`."""
        file = self._file(asked)
        if not file.is_file():
            return None
        found: dict[str, Any] = json.loads(file.read_text())["measured"]
        return found

    def put(self, asked: dict[str, Any], measured: dict[str, Any]) -> None:
        """Keep a measurement; what is infinite is kept as such."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write_atomically(self._file(asked), json.dumps({"asked": asked, "measured": measured}, indent=1))

    def _file(self, asked: dict[str, Any]) -> Path:
        return self.folder / f"{content_id(asked)}.json"

"""Which run answers a configuration, noted when it was run, so that it can be shown again without importing anything.

To know the id of a run takes its data, and to know that it is not stale takes the plugins. Both follow from what is
installed (one checksum), from the configuration, and from the files of the data. Where all of these are as they were
when the run was last asked for, the answer is the same; where anything is not, or is not known, the long way is gone.
"""

import hashlib
import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from drobench.app.config import NO_LOGGER
from drobench.app.results_folder import at_home
from drobench.files import write_atomically
from drobench.results.record import Record, is_run_id
from drobench.results.store import ResultStore

FOLDER = ".known"
"""Where notes lie in a folder of results."""
# Where and how long, which is no part of what is asked.
_ELSEWHERE = ("results", "logger", "timeout", "trust")
_PLACES = (("logger", "name"), ("trainer", "name"), ("trust",))

Stamps = list[list[Any]]
"""Files with what tells whether they were written since."""


@dataclass(frozen=True)
class KnownRuns:
    """The notes of one folder of results, about one configuration.

    Attributes:
        store: The folder.
        file: The note, which may be there or not.
    """

    store: ResultStore
    file: Path

    @classmethod
    def of(cls, composed: DictConfig, state: str | None) -> "KnownRuns | None":
        """Return where the answer to a configuration is noted; none where the long way must be gone.

        Args:
            composed: The configuration, as Hydra has made it.
            state: The checksum of what is installed; none: it is not known.
        """
        if state is None:
            return None
        try:
            values: Any = OmegaConf.to_container(composed, resolve=True)
            home = str(Path("~").expanduser())
        except (OmegaConfBaseException, RuntimeError):
            return None  # something is filled in that is not there, or nobody is at home
        if [_part(values, *place) for place in _PLACES] != [NO_LOGGER, "cpu", "same"]:
            return None
        asked = {name: value for name, value in values.items() if name not in _ELSEWHERE}
        # Files of the data may be named from here, or from the home folder.
        text = json.dumps([state, str(Path.cwd()), home, asked], sort_keys=True)
        store = ResultStore(at_home(Path(values["results"])).absolute())
        return cls(store, store.root / FOLDER / f"{hashlib.sha256(text.encode()).hexdigest()}.json")

    def record(self) -> Record | None:
        """Return the run, if it is known, stored and sound.

        Raises:
            RunBusy: If another process works on it.
        """
        try:
            note = json.loads(self.file.read_text(encoding="utf-8"))
            run_id, code, stamps = note["run_id"], note["code"], note["files"]
            if not is_run_id(run_id) or _stamped(stamp[0] for stamp in stamps) != stamps:
                return None
        except (OSError, ValueError, KeyError, TypeError, IndexError):
            return None  # no note, or none that can be read: it is written again
        self.store.prepare()
        with self.store.lock(run_id):
            record = self.store.finished_record(run_id)
        return record if record is not None and record.code == code else None

    def note(self, record: Record, stamps: Stamps) -> None:
        """Note the answer, where the run is finished and its files are as they were before it began."""
        if self.store.finished_record(record.run_id) is None or stamps != _stamped(stamp[0] for stamp in stamps):
            return
        with suppress(OSError):  # without a note the next one goes the long way
            content = {"run_id": record.run_id, "code": record.code, "files": stamps}
            write_atomically(self.file, json.dumps(content))


def stamps_of(entry: Any, settings: Any) -> Stamps | None:
    """Return the files of a dataset as they are now; none where it does not say which, or they are not there.

    Args:
        entry: The dataset.
        settings: Those of this run.
    """
    if entry.reads is None:
        return None
    try:
        return _stamped(str(Path(file).absolute()) for file in entry.reads(settings))
    except OSError:
        return None


def _part(values: Any, *place: str) -> Any:
    for name in place:
        values = values.get(name) if isinstance(values, dict) else None
    return values


def _stamped(files: Iterable[str]) -> Stamps:
    found = ((file, Path(file).stat()) for file in files)
    return [[file, it.st_size, it.st_mtime_ns, it.st_ctime_ns, it.st_ino] for file, it in found]

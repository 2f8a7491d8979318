"""The folder of results: one folder per run, written in one move, read with suspicion.

```
<root>/<run_id>/         record.json  curve.parquet  solution.safetensors  config.yaml
<root>/.locks/           one lock file per run that is being computed
<root>/.writing/         folders under construction
<root>/.damaged/         runs that could not be read, set aside with the time
<root>/.older/           finished runs that were computed again because their code had changed, with the time
<root>/.reruns/          runs that were done again to be compared, each in a folder of results of its own
<root>/.optima/          certified optima, one file per instance of a problem, shared by all runs on it
<root>/.work/<run_id>/   checkpoints of a run that is being computed, gone when it is finished
<root>/.known/           which run answers a configuration, as long as neither code nor data change
<root>/.logs/            what loggers and the workers of a sweep wrote
```
"""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import filelock
import polars

from drobench.errors import DrobenchError
from drobench.files import sync, temporary_name, whole_folder
from drobench.results import contents
from drobench.results.contents import Array
from drobench.results.fields import DamagedRecord
from drobench.results.folders import install, remove_leftovers
from drobench.results.lookup import UnknownRun, only_match
from drobench.results.record import NewerSchema, Record, Status, is_run_id, short_id

__all__ = ["ResultStore", "RunBusy", "Scan", "StoreUnusable", "Trouble", "UnknownRun"]

_TRIED_AGAIN = (Status.FAILED, Status.SKIPPED)


class StoreUnusable(DrobenchError):
    """The folder of results cannot be used."""


class RunBusy(DrobenchError):
    """Another process is computing this run."""


@dataclass(frozen=True)
class Trouble:
    """A stored run that could not be read.

    Attributes:
        path: Where its folder is now.
        message: What is wrong, and what was done about it.
    """

    path: Path
    message: str


@dataclass(frozen=True)
class Scan:
    """Everything found in a folder of results: what can be read, and what cannot."""

    records: list[Record]
    troubles: list[Trouble]


class ResultStore:
    """The runs kept under one folder. Making the object touches nothing on the disk.

    Several processes may use the same folder. Each run has one writer at a time if every writer holds `lock(run_id)`.

    Args:
        root: The folder of results.
    """

    def __init__(self, root: Path) -> None:
        self.root = Path(root)
        self._writing = self.root / ".writing"
        self._damaged = self.root / ".damaged"
        self._locks = self.root / ".locks"

    def prepare(self) -> None:
        """Create the folder, make sure that it can be written to, and remove what dead writers left behind.

        Raises:
            StoreUnusable: If the folder cannot be created or written to.
        """
        with self._explained("written to"):
            probe = self._temporary_folder()
            probe.rmdir()
            remove_leftovers(self._writing)

    def write(self, record: Record, curve: polars.DataFrame, solution: Mapping[str, Array], config_yaml: str) -> Path:
        """Store a run; it appears complete or not at all, in place of an older one with the same id.

        An older one that was finished is kept in `.older`, and a damaged one in `.damaged`.

        Args:
            record: The record.
            curve: One row per evaluation; a run that failed early may have none.
            solution: Arrays by the name of the iterate; may be empty.
            config_yaml: The resolved config.

        Returns:
            The folder of the run.

        Raises:
            NewerSchema: If a later version of drobench has stored this run already.
            StoreUnusable: If the folder cannot be written to.
        """
        target = self._folder(record.run_id)
        self._refuse_to_replace_newer(target)
        with self._explained("written to"):
            built = self._temporary_folder()
            try:
                contents.write_contents(built, record, curve, solution, config_yaml)
                self._keep_finished(record.run_id)
                older = install(built, target)
                sync(self.root)
                if older is not None:
                    self._discard(older, record.run_id)
            finally:
                shutil.rmtree(built, ignore_errors=True)
        return target

    def read(self, run_id: str) -> Record:
        """The record of a run, by its id or a unique beginning of it.

        Raises:
            UnknownRun: If no run, or several, have such an id.
            DamagedRecord: If the record cannot be read.
            NewerSchema: If a later version of drobench wrote it.
        """
        folder = self._folder(self.resolve(run_id))
        with self._explained("read"):
            return contents.read_record(folder, folder.name)

    def set_aside(self, run_id: str) -> Path:
        """Move a damaged run out of the way and return where it is now; nothing is deleted.

        Raises:
            RunBusy: If another process works on it.
            StoreUnusable: If the folder cannot be written to.
        """
        with self.lock(run_id), self._explained("written to"):
            return self._set_aside(self._folder(run_id), run_id)

    def remove(self, run_id: str) -> None:
        """Remove a run, whatever it is, and nothing that other runs use; what `.older` keeps of it stays there.

        Args:
            run_id: The full id.

        Raises:
            RunBusy: If another process works on it.
            StoreUnusable: If the folder cannot be written to.
        """
        with self.lock(run_id), self._explained("written to"):
            # Under another name first, so that nobody finds half of it.
            self._writing.mkdir(exist_ok=True)
            shutil.rmtree(self._folder(run_id).rename(self._writing / temporary_name()))

    def curve(self, run_id: str) -> polars.DataFrame:
        """The evaluations of a run; raises as `read` does."""
        with self._explained("read"):
            return contents.read_curve(self._folder(self.resolve(run_id)))

    def solution(self, run_id: str) -> dict[str, Array]:
        """The flat iterates of a run by name; raises as `read` does."""
        folder = self._folder(self.resolve(run_id))
        with self._explained("read"):
            contents.check_file(folder, contents.SOLUTION, contents.read_record(folder, folder.name))
            return contents.read_solution(folder)

    def config(self, run_id: str) -> str:
        """The resolved config of a run as YAML; raises as `read` does."""
        with self._explained("read"):
            return contents.read_config(self._folder(self.resolve(run_id)))

    def finished(self, run_id: str) -> bool:
        """Whether a run is stored, readable, and neither failed nor skipped; raises as `finished_record` does."""
        return self.finished_record(run_id) is not None

    def finished_record(self, run_id: str) -> Record | None:
        """The record of a run that is stored, readable, and neither failed nor skipped; `None` if there is none.

        Args:
            run_id: The full id.

        Raises:
            NewerSchema: If a later version of drobench stored it; computing it again would replace what we cannot read.
        """
        folder = self._folder(run_id)
        with self._explained("read"):
            try:
                record = contents.check_contents(folder, run_id)
            except DamagedRecord:
                return None
        return None if record.status in _TRIED_AGAIN else record

    def rerun_folder(self, run_id: str) -> Path:
        """A new folder of results for doing this run again, beside the stored one and never in its place."""
        return self.root / ".reruns" / f"{short_id(run_id)}-{_now()}"

    def records(self) -> Scan:
        """Read every record, oldest first, and set aside what is damaged.

        Nothing is deleted. A damaged run moves to `.damaged/`, unless another process works on it or the folder cannot
        be written to; a run of a newer schema stays where it is. All of them are reported.
        """
        found: list[Record] = []
        troubles: list[Trouble] = []
        for folder in self._run_folders():
            outcome = self._examine(folder)
            if isinstance(outcome, Record):
                found.append(outcome)
            elif outcome is not None:
                troubles.append(outcome)
        found.sort(key=lambda record: (record.started, record.run_id))
        return Scan(found, troubles)

    def resolve(self, run_id: str) -> str:
        """The full id of the one stored run whose id begins with the given text.

        Raises:
            UnknownRun: If there is none or more than one; the message lists those that come near.
        """
        if is_run_id(run_id) and self._folder(run_id).is_dir():
            return run_id  # reading a thousand curves by their full ids must not list the folder a thousand times
        stored = [folder.name for folder in self._run_folders() if is_run_id(folder.name)]
        return only_match(run_id, stored, self.root)

    @contextmanager
    def lock(self, run_id: str, timeout: float = 0) -> Iterator[None]:
        """Hold a run while it is computed and written.

        Args:
            run_id: The full id.
            timeout: Seconds to wait for another holder.

        Raises:
            RunBusy: If another process holds the run.
        """
        with self._explained("written to"):
            self._locks.mkdir(parents=True, exist_ok=True)
            guard = filelock.FileLock(self._locks / f"{run_id}.lock")
            try:
                guard.acquire(timeout=timeout)
            except filelock.Timeout:
                raise RunBusy(
                    f"Run {short_id(run_id)} in {self.root} is being computed by another process. "
                    "Wait for it to end, or compute another run."
                ) from None
        # Outside the explanation above: an error of the caller's block is not one of the folder.
        try:
            yield
        finally:
            guard.release()

    def _examine(self, folder: Path) -> Record | Trouble | None:
        try:
            return contents.check_contents(folder, folder.name)
        except NewerSchema as error:
            return Trouble(folder, str(error))
        except OSError as error:
            return Trouble(folder, f"{folder} cannot be read ({error}); it was left in place.")
        except DamagedRecord:
            return self._examine_alone(folder)

    def _examine_alone(self, folder: Path) -> Record | Trouble | None:
        """Look again while nobody writes: what seemed damaged may have been replaced just now."""
        try:
            with self.lock(folder.name):
                if not folder.is_dir():
                    return None
                try:
                    return contents.check_contents(folder, folder.name)
                except DamagedRecord as error:
                    place = self._set_aside(folder, folder.name)
                    return Trouble(place, f"{error} Its folder was moved to {place}.")
        except RunBusy as error:
            return Trouble(folder, f"{folder} is incomplete; it was left in place. {error}")
        except (OSError, DrobenchError) as error:
            return Trouble(folder, f"{folder} is damaged and cannot be moved ({error}); it was left in place.")

    def _set_aside(self, folder: Path, name: str) -> Path:
        self._damaged.mkdir(parents=True, exist_ok=True)
        place = self._damaged / f"{name}-{_now()}"
        folder.rename(place)
        return place

    def _keep_finished(self, run_id: str) -> None:
        """Copy a finished run before its name goes to a new result: there is no moment without it."""
        if not self.finished(run_id):
            return
        place = self.root / ".older" / f"{run_id}-{_now()}"
        with whole_folder(place) as copy:
            for file in self._folder(run_id).iterdir():
                shutil.copy2(file, copy / file.name)

    def _discard(self, older: Path, run_id: str) -> None:
        """Remove a replaced run, but keep what was damaged: somebody may want to know how."""
        try:
            contents.check_contents(older, run_id)
        except (DamagedRecord, NewerSchema, OSError):
            self._set_aside(older, run_id)
        else:
            shutil.rmtree(older, ignore_errors=True)

    def _refuse_to_replace_newer(self, target: Path) -> None:
        try:
            contents.read_record(target, target.name)
        except (DamagedRecord, OSError):
            return

    def _temporary_folder(self) -> Path:
        folder = self._writing / temporary_name()
        folder.mkdir(parents=True)
        return folder

    def _folder(self, run_id: str) -> Path:
        if not is_run_id(run_id):
            raise UnknownRun(f"A run id is 64 hexadecimal digits in lower case; found {run_id!r}.")
        return self.root / run_id

    def _run_folders(self) -> list[Path]:
        """Folders that are, or claim to be, a run; others in the same place are none of our business."""
        with self._explained("read"):
            try:
                entries = sorted(self.root.iterdir())
            except FileNotFoundError:
                return []
            return [
                entry
                for entry in entries
                if not entry.name.startswith(".")
                and entry.is_dir()
                and (is_run_id(entry.name) or (entry / contents.RECORD).exists())
            ]

    @contextmanager
    def _explained(self, verb: str) -> Iterator[None]:
        """Turn a refusal of the system into a message that says which folder is meant and how to choose another."""
        try:
            yield
        except OSError as error:
            raise StoreUnusable(
                f"The results folder {self.root} cannot be {verb} ({error}). "
                "Set `results=DIR` or the variable DROBENCH_RESULTS to a folder that you may write to."
            ) from error


def _now() -> str:
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}"

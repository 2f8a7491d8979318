"""Loading the data of a sweep while it is planned: in a process of its own, since a dataset may do anything to it.

One process goes through the datasets and tells what it has found of each. If it dies or takes too long, the cells on
the dataset that it was loading are lost, and another process goes on with the rest.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from drobench.app.config import RunConfig, from_yaml, register, to_yaml
from drobench.app.guard import become_guarded
from drobench.app.loading import DataFacts, DatasetFailed, Loader, data_key, load_dataset
from drobench.app.sweep_server import how_it_ended, redirect_output, start_server
from drobench.errors import DrobenchError
from drobench.reasons import reason_of
from drobench.registry import Catalogue, NeedsNotMet, load_catalogue

LOG = Path(".logs") / "planning.txt"
"""What datasets print while a sweep is planned, in the folder of results."""
_LOAD_SECONDS = 600.0
# It has nothing to bring to an end.
_GRACE_SECONDS = 1.0


class LoaderDied(DatasetFailed):
    """Loading the data ended the process that did it, or took too long: nobody should try again here."""


@dataclass(frozen=True)
class _Refused:
    """Why data could not be loaded, as the process that tried has told it."""

    reason: str
    kind: type[DrobenchError] = DrobenchError


_Found = DataFacts | _Refused
_BEGINS = _Refused("not tried yet")
Look = Callable[[Sequence[RunConfig], Path], Loader]


class KnownData:
    """What is known of the data of all cells."""

    def __init__(self, found: dict[str, _Found]) -> None:
        self._found = found

    def load(self, config: RunConfig, catalogue: Catalogue) -> DataFacts:
        """Return what is known of the data of a run, or raise why they cannot be had."""
        found = self._found[data_key(config)]
        if isinstance(found, _Refused):
            raise found.kind(found.reason)
        return found


def look_at_data(configs: Sequence[RunConfig], results: Path) -> KnownData:
    """Load the data of each run once, in other processes, and return what was found."""
    distinct: dict[str, RunConfig] = {}
    limits: dict[str, float] = {}
    for config in configs:
        key = data_key(config)
        distinct.setdefault(key, config)
        limits[key] = max(limits.get(key, 0.0), config.timeout or _LOAD_SECONDS)
    found: dict[str, _Found] = {}
    while len(found) < len(distinct):
        rest = {key: config for key, config in distinct.items() if key not in found}
        found.update(_look_until_it_dies(rest, limits, results / LOG))
    return KnownData(found)


def _look_until_it_dies(rest: dict[str, RunConfig], limits: dict[str, float], log: Path) -> dict[str, _Found]:
    """Return what one process finds, in order; the last may be that it died of it."""
    context = start_server()
    answers, told = context.Pipe(duplex=False)
    texts = [to_yaml(config) for config in rest.values()]
    process = context.Process(target=look, args=(texts, str(log), told))
    process.start()
    told.close()
    found: dict[str, _Found] = {}
    try:
        for key, config in rest.items():
            name, limit = config.dataset.name, limits[key]
            try:
                # The first word is that it begins: what comes before is not for the dataset to answer for.
                _told(answers, _LOAD_SECONDS)
                found[key] = _told(answers, limit)
            except TimeoutError:
                reason = f"Loading the dataset {name!r} took longer than {limit:g} s. Set `timeout=` to more seconds."
                return {**found, key: _Refused(reason, LoaderDied)}
            except EOFError:
                process.join()
                ended = how_it_ended(process.exitcode)
                reason = f"The process that loaded the dataset {name!r} {ended}; output in {log}"
                return {**found, key: _Refused(reason, LoaderDied)}
    finally:
        process.terminate()
        process.join()
        answers.close()
    return found


def _told(answers: "Connection[_Found, _Found]", seconds: float) -> _Found:
    if not answers.poll(seconds):
        raise TimeoutError
    return answers.recv()


def look(texts: Sequence[str], log: str, answers: "Connection[_Found, _Found]") -> None:
    """Load the data of each of these runs and tell what was found; the program of the other process."""
    become_guarded(_GRACE_SECONDS)
    redirect_output(Path(log))
    catalogue = load_catalogue()
    register(catalogue)
    for text in texts:
        answers.send(_BEGINS)
        answers.send(_facts(text, catalogue))


def _facts(text: str, catalogue: Catalogue) -> _Found:
    try:
        dataset = load_dataset(from_yaml(text, catalogue), catalogue)
        return DataFacts(dataset.sha256, dataset.rows, frozenset(dataset.provides), dataset.twin)
    except NeedsNotMet as error:
        return _Refused(str(error), NeedsNotMet)
    except DrobenchError as error:
        return _Refused(str(error))
    except Exception as error:  # asking for the checksum computes it, from whatever the dataset is made of
        return _Refused(reason_of(error))

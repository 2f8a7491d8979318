"""Loading the data of a run, and keeping them for the next one."""

from dataclasses import asdict, dataclass
from typing import Protocol

from drobench.app.config import RunConfig
from drobench.app.stored_config import ScoredPart
from drobench.data.dataset import Dataset
from drobench.errors import DrobenchError
from drobench.reasons import reason_of
from drobench.registry import Catalogue
from drobench.registry.exits import AskedToEnd, attempt_to_end, exits_raise
from drobench.registry.time_limit import TimeLimitExpired
from drobench.results.record import canonical_json


class DatasetFailed(DrobenchError):
    """The code of a dataset went wrong, as opposed to data that are not here and settings that cannot be."""

    exit_code = 1


@dataclass(frozen=True)
class DataFacts:
    """What is known of data that another process has loaded; the attributes are those of a `Dataset`."""

    sha256: str
    rows: int
    provides: frozenset[str]
    twin: bool


class Loader(Protocol):
    """Where the data of a run come from, or what is known of them."""

    def load(self, config: RunConfig, catalogue: Catalogue) -> Dataset | DataFacts:
        """Return them, or raise why there are none."""
        ...


def load_dataset(config: RunConfig | ScoredPart, catalogue: Catalogue) -> Dataset:
    """Return the data of a run as its dataset gives them.

    Raises:
        DrobenchError: Whatever the dataset has to say to its user.
        DatasetFailed: If it raises anything else, or tries to end the program.
    """
    name = config.dataset.name
    factory = catalogue.dataset(name).entry.factory
    try:
        with exits_raise():
            dataset = factory(config.dataset)
    except (DrobenchError, KeyboardInterrupt, AskedToEnd, TimeLimitExpired):
        raise
    except SystemExit as error:
        raise DatasetFailed(f"The dataset {name!r} could not be loaded: {attempt_to_end(error)}.") from error
    except BaseException as error:  # some libraries raise outside `Exception`
        raise DatasetFailed(f"The dataset {name!r} could not be loaded: {reason_of(error)}") from error
    if not isinstance(dataset, Dataset):
        raise DatasetFailed(f"The dataset {name!r} must give a Dataset; found {type(dataset).__name__}.")
    return dataset


def data_key(config: RunConfig | ScoredPart) -> str:
    """Return what is equal for all runs on the same data."""
    return canonical_json(asdict(config.dataset))


class LastDataset:
    """Loads data and keeps the last: runs in a row, such as those of a multirun, are mostly on the same."""

    def __init__(self) -> None:
        self._key: str | None = None
        self._dataset: Dataset | None = None

    def load(self, config: RunConfig | ScoredPart, catalogue: Catalogue) -> Dataset:
        """Return the data of a run, those kept if they were loaded with the same settings."""
        key = data_key(config)
        if self._dataset is None or key != self._key:
            self._dataset = load_dataset(config, catalogue)
            self._key = key
        return self._dataset

"""Loading the data of a run, and keeping them for the next one."""

from dataclasses import asdict

from drobench.app.config import RunConfig
from drobench.app.stored_config import ScoredPart
from drobench.data.dataset import Dataset
from drobench.registry import Catalogue
from drobench.results.record import canonical_json


def load_dataset(config: RunConfig | ScoredPart, catalogue: Catalogue) -> Dataset:
    """Return the data of a run as its dataset gives them."""
    dataset: Dataset = catalogue.dataset(config.dataset.name).entry.factory(config.dataset)
    return dataset


class LastDataset:
    """Loads data and keeps the last: runs in a row, such as the cells of a sweep, are mostly on the same."""

    def __init__(self) -> None:
        self._key: str | None = None
        self._dataset: Dataset | None = None

    def load(self, config: RunConfig | ScoredPart, catalogue: Catalogue) -> Dataset:
        """Return the data of a run, those kept if they were loaded with the same settings."""
        key = canonical_json(asdict(config.dataset))
        if self._dataset is None or key != self._key:
            self._dataset = load_dataset(config, catalogue)
            self._key = key
        return self._dataset

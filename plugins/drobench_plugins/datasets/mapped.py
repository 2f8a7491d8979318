"""A table that may be larger than memory: a folder written once by `drobench data convert`, mapped, and read in pieces.

Problems that read pieces can use it: the divergence problems, with any model. The optimum of such a problem is not
computed. Rows are split in the order of the table: shuffle them before they are converted, unless their order means
something.
"""

from dataclasses import dataclass
from pathlib import Path

from drobench.data.dataset import DataError, Dataset, DatasetConfig
from drobench.data.mapped import map_dataset
from drobench.data.stored_table import open_table
from drobench.registry.entries import DatasetEntry


@dataclass
class MappedConfig(DatasetConfig):
    """Settings of a mapped table; `standardize` costs one more pass over the training rows."""

    path: str | None = None
    """The folder."""


def load_mapped_dataset(config: MappedConfig) -> Dataset:
    """Map the table."""
    if config.path is None:
        raise DataError(
            "Dataset 'mapped': a folder written by `drobench data convert` is needed; found none. Set "
            "`dataset.path=DIR`."
        )
    return map_dataset("mapped", open_table(Path(config.path)), config)


def entry() -> DatasetEntry:
    """Return the catalogue entry."""
    return DatasetEntry(
        name="mapped",
        summary="Data larger than memory: a folder from `drobench data convert`, dataset.path=DIR.",
        reference="files of the user's",
        config=MappedConfig,
        factory=load_mapped_dataset,
        # How many classes there are is seen only in the folder, and checked when it is loaded.
        provides=frozenset({"labels", "binary_labels"}),
    )

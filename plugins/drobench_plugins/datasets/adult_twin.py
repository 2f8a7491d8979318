"""A synthetic stand-in for `adult`: the same table in make, size and difficulty, from a seed and without any file.

A person is of one of a few dozen types (a latent class model, with types of its own for each of the three groups).
Given the type, the parts of a row are independent: race, family (marital status, relationship, sex), job (work class,
occupation), education, country, and the bins of age, hours, capital gain and loss. Within a bin the number is drawn as
often as it occurs in the real bin. The label is drawn from an additive logistic model of all the parts. The raw table
then takes the same way as the real one. How close the two are: docs/twins.md.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from drobench.data.dataset import Dataset
from drobench.errors import require_positive
from drobench.registry.entries import DatasetEntry, no_files
from drobench_plugins.datasets.adult import COLUMNS, INCOMES, AdultConfig, adult_dataset
from drobench_plugins.datasets.twin_parameters import draw_codes, from_quantiles, read_parameters, row_generator

if TYPE_CHECKING:
    import polars as pl

NAME = "adult_twin"


@dataclass
class AdultTwinConfig(AdultConfig):
    """Settings of `adult_twin`.

    Attributes:
        rows: Number of people; by default as many as in the real data.
    """

    rows: int = 48_842

    def __post_init__(self) -> None:
        """Refuse impossible values.

        Raises:
            SettingError: A setting is impossible.
        """
        super().__post_init__()
        require_positive(self, "rows")


def load_adult_twin(config: AdultTwinConfig) -> Dataset:
    """Draw the table that seed and rows fix."""
    return adult_dataset(NAME, draw_table(config.rows, config.seed), config, twin=True)


def draw_table(rows: int, seed: int) -> "pl.DataFrame":
    """Draw a raw table with the columns of the real one."""
    import polars as pl  # noqa: PLC0415

    parameters = read_parameters(NAME)
    generator = row_generator(seed)
    types = draw_codes(np.array([parameters["types"]]), np.zeros(rows, dtype=np.int64), generator)
    columns: dict[str, NDArray[Any]] = {}
    score = np.full(rows, float(parameters["intercept"]))
    for part in parameters["parts"]:
        codes = draw_codes(np.array(part["weights"]), types, generator)
        score += np.array(part["scores"])[codes]
        columns |= _numbers(part, codes, generator) if "counts" in part else _categories(part, codes)
    columns["fnlwgt"] = np.rint(from_quantiles(generator.random(rows), np.array(parameters["fnlwgt"]))).astype(np.int64)
    positive = generator.random(rows) < 1 / (1 + np.exp(-score))
    columns["income"] = np.array(INCOMES)[positive.astype(np.int64)]
    return pl.DataFrame({name: columns[name] for name in COLUMNS})


def _categories(part: dict[str, Any], codes: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
    """One code stands for a combination of values of several columns."""
    combinations = list(zip(*part["values"], strict=True))
    return {column: np.array(values)[codes] for column, values in zip(part["columns"], combinations, strict=True)}


def _numbers(part: dict[str, Any], codes: NDArray[np.int64], generator: np.random.Generator) -> dict[str, NDArray[Any]]:
    """One code stands for a bin of one column; each of its values has its own frequency."""
    widest = max(len(counts) for counts in part["counts"])
    counts = np.array([[*counts, *[0] * (widest - len(counts))] for counts in part["counts"]])
    values = np.array([[*values, *[0] * (widest - len(values))] for values in part["values"]])
    return {part["columns"][0]: values[codes, draw_codes(counts, codes, generator)]}


def entry() -> DatasetEntry:
    """The catalogue entry."""
    return DatasetEntry(
        name=NAME,
        summary="Synthetic twin of adult: the same 120 indicators and three groups from a seed, nothing to fetch.",
        reference="Latent classes and a logistic label, fitted to Adult (UCI, doi:10.24432/C5XW20); see docs/twins.md.",
        config=AdultTwinConfig,
        factory=load_adult_twin,
        provides=frozenset({"labels", "binary_labels", "groups"}),
        reads=no_files,
    )

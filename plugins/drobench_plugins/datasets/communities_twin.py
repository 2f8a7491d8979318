"""A synthetic stand-in for `communities_crime`: the same table in make, size and difficulty, from a seed.

Every column is first drawn on a common scale, as normal scores, and then given the distribution of the real column:

    shares     of the three attributes: a cell of a table of their joint distribution, then uniform within the cell
    scores     z = B (r, r^2 - 1) + s (L f + sqrt(1 - |L|^2) e), with r the scores of the shares, f and e normal
    gaps       the columns about the police are present where a logistic model of z is largest
    target     its rank is that of a logistic model of z with logistic noise
    values     quantile function of the real column at the rank of its score, rounded to hundredths as the publisher did

Ranks and not levels are what the quantile functions see, so that every table has the right share of zeros and
of positives. The raw table then takes the same way as the real one. How close the two are: docs/twins.md.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from drobench.data.dataset import Dataset
from drobench.errors import require_positive
from drobench.registry.entries import DatasetEntry, no_files
from drobench_plugins.datasets.communities_columns import INCOMPLETE, PREDICTORS, TARGET
from drobench_plugins.datasets.communities_crime import ATTRIBUTES, CommunitiesCrimeConfig, communities_dataset
from drobench_plugins.datasets.twin_parameters import (
    draw_codes,
    from_quantiles,
    mid_ranks,
    read_parameters,
    row_generator,
)

if TYPE_CHECKING:
    import polars as pl

NAME = "communities_twin"
# This one has a single gap of its own; all other incomplete columns have theirs in the same rows.
SINGLE_GAP = "OtherPerCap"
POLICE = tuple(name for name in INCOMPLETE if name != SINGLE_GAP)


@dataclass
class CommunitiesTwinConfig(CommunitiesCrimeConfig):
    """Settings of `communities_twin`.

    Attributes:
        rows: Number of communities; by default as many as in the real data.
    """

    rows: int = 1994

    def __post_init__(self) -> None:
        """Refuse impossible values.

        Raises:
            SettingError: A setting is impossible.
        """
        super().__post_init__()
        require_positive(self, "rows")


def load_communities_twin(config: CommunitiesTwinConfig) -> Dataset:
    """Draw the table that seed and rows fix."""
    return communities_dataset(NAME, draw_table(config.rows, config.seed), config, twin=True)


def draw_table(rows: int, seed: int) -> "pl.DataFrame":
    """Draw the predictors and the target of a raw table, with null for a gap."""
    import polars as pl  # noqa: PLC0415

    parameters = {name: np.array(value) for name, value in read_parameters(NAME).items()}
    generator = row_generator(seed)
    scores = _draw_scores(parameters, rows, generator)
    present = _draw_order(parameters["presence"], scores, generator) > parameters["absent"]
    crime = _draw_order(parameters["crime"], scores, generator)
    gap = generator.integers(rows)
    columns = {}
    for position, name in enumerate(PREDICTORS):
        shown = present if name in POLICE else np.ones(rows, dtype=bool)
        values = np.full(rows, np.nan)
        values[shown] = _hundredths(mid_ranks(scores[shown, position]), parameters["quantiles"][position])
        columns[name] = values
    columns[SINGLE_GAP][gap] = np.nan
    columns[TARGET] = _hundredths(crime, parameters["quantiles"][-1])
    return pl.DataFrame(columns, nan_to_null=True)


def _draw_scores(parameters: dict[str, NDArray[Any]], rows: int, generator: np.random.Generator) -> NDArray[np.float64]:
    """Draw normal scores of the predictors, one column for each."""
    # Imported here, because only this step needs it and it is slow to import.
    from scipy.special import ndtri  # noqa: PLC0415

    shares = ndtri(_draw_shares(parameters["edges"], parameters["cells"], rows, generator))
    loadings = parameters["loadings"]
    own = np.sqrt(np.maximum(1 - (loadings**2).sum(axis=1), 0))
    common = generator.standard_normal((rows, loadings.shape[1])) @ loadings.T
    residual = common + own * generator.standard_normal((rows, len(loadings)))
    scores = np.hstack([shares, shares**2 - 1]) @ parameters["slopes"] + parameters["deviations"] * residual
    scores[:, [PREDICTORS.index(name) for name in ATTRIBUTES]] = shares
    # Products of matrices differ in the last digit from machine to machine; the order of the rows must not.
    return np.round(scores, 6)


def _draw_shares(
    edges: NDArray[np.float64], cells: NDArray[np.int64], rows: int, generator: np.random.Generator
) -> NDArray[np.float64]:
    """Draw the levels of the attributes: a cell by its frequency, and a uniform place in it."""
    chosen = draw_codes(cells.reshape(1, -1), np.zeros(rows, dtype=np.int64), generator)
    bins = np.stack(np.unravel_index(chosen, cells.shape), axis=1)
    # Not quite from 0 to 1: these two levels have no finite score.
    place = generator.uniform(1e-9, 1 - 1e-9, bins.shape)
    levels: NDArray[np.float64] = edges[bins] + (edges[bins + 1] - edges[bins]) * place
    return levels


def _draw_order(
    weights: NDArray[np.float64], scores: NDArray[np.float64], generator: np.random.Generator
) -> NDArray[np.float64]:
    """Return the rank of each row by a linear score with logistic noise."""
    return mid_ranks(scores @ weights + generator.logistic(size=len(scores)))


def _hundredths(levels: NDArray[np.float64], quantiles: NDArray[Any]) -> NDArray[np.float64]:
    """Return values rounded to two decimals; the table holds them as whole hundredths."""
    rounded: NDArray[np.float64] = np.rint(from_quantiles(levels, quantiles)) / 100
    return rounded


def entry() -> DatasetEntry:
    """The catalogue entry."""
    return DatasetEntry(
        name=NAME,
        summary="Synthetic twin of communities_crime: the same 145 features and attributes from a seed.",
        reference=(
            "Gaussian copula and a logistic label, fitted to Communities and Crime (UCI, doi:10.24432/C53W3X); "
            "see docs/twins.md."
        ),
        config=CommunitiesTwinConfig,
        factory=load_communities_twin,
        provides=frozenset({"labels", "binary_labels", "attributes"}),
        reads=no_files,
    )

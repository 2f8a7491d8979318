"""A synthetic stand-in for `mslr`: web search queries of the same make, size and difficulty, from a seed.

The 136 features and the relevance are first drawn on a common scale, as normal scores, and then given the distribution
of the real column, heavy tails and ties included:

    z = query effect + document effect,    each  deviation * (L f + sqrt(1 - |L|^2) e)  with f and e normal

Relevance is the last of the columns, cut into grades. The raw documents then take the same way as the real ones: the
threshold of the groups, the filters of the queries, the 251 features. As more than half of all queries fall
at the filters, those that have too few documents of a group and label are not drawn any further than is needed to
see it. The tables were fitted to 86 real queries. How close the two are: docs/twins.md.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drobench.data.dataset import Dataset
from drobench.errors import SettingError
from drobench.registry.entries import DatasetEntry, no_files
from drobench_plugins.datasets.letor_text import FEATURES, LetorTable, joined
from drobench_plugins.datasets.mslr import SPLITS, MslrConfig, mslr_dataset
from drobench_plugins.datasets.mslr_queries import QUALITY
from drobench_plugins.datasets.twin_parameters import from_quantiles, read_parameters, row_generator

NAME = "mslr_twin"
# Normal scores at which the quantile functions are tabulated: closer where the values are, and far into the tails.
SCORE_GRID = tuple(float(score) for score in np.linspace(-3.6, 3.6, 37))
_STEPS = 7201
# Relevance is drawn like a feature, after the last of them.
_RELEVANCE = FEATURES
# Queries are drawn so many at a time, whatever is wanted: fewer of them are then the first ones of more.
_BATCH = 50
# What a query needs before it is drawn in full. Negative documents are thinned out later, hence more of them.
_FEWEST_POSITIVE, _FEWEST_POSITIVE_IN_CELL, _FEWEST_NEGATIVE_IN_CELL = 10, 5, 8
# How many queries are drawn for one that is wanted, since a few still fall at the filters.
_SURPLUS = 1.05


@dataclass
class MslrTwinConfig(MslrConfig):
    """Settings of `mslr_twin`: those of `mslr`, except that there is nothing to read.

    Attributes:
        seed: Fixes the documents, and which negative ones are dropped.
        queries: How many queries of training, validation and test to draw; 0 leaves a split out.
    """

    def __post_init__(self) -> None:
        """Refuse impossible values.

        Raises:
            SettingError: A setting is impossible.
        """
        super().__post_init__()
        if self.path is not None or self.fold != 1:
            raise SettingError(
                f"{type(self).__name__} reads no file; found path={self.path!r} and fold={self.fold}. Remove "
                "`dataset.path=` and `dataset.fold=`, or use `dataset=mslr`."
            )


def load_mslr_twin(config: MslrTwinConfig) -> Dataset:
    """Draw the queries that the settings fix."""
    surplus = _SURPLUS
    while True:
        dataset = mslr_dataset(NAME, draw_tables(config.queries, config.seed, surplus), config, twin=True)
        splits = (dataset.train, dataset.validation, dataset.test)
        found = [0 if part is None or part.queries is None else int(part.queries.max()) + 1 for part in splits]
        if found == list(config.queries):
            return dataset
        surplus *= 2


def draw_tables(queries: list[int], seed: int, surplus: float = _SURPLUS) -> dict[str, LetorTable]:
    """Draw raw documents for somewhat more queries than are wanted in each split."""
    parameters = {name: np.array(value) for name, value in read_parameters(NAME).items()}
    parameters["values"] = _value_table(parameters)
    generators = row_generator(seed).spawn(len(SPLITS))
    return {
        split: _draw_table(parameters, int(surplus * wanted) + 5, generator)
        for split, wanted, generator in zip(SPLITS, queries, generators, strict=True)
        if wanted
    }


def _draw_table(parameters: dict[str, NDArray[Any]], wanted: int, generator: np.random.Generator) -> LetorTable:
    tables: list[LetorTable] = []
    found = 0
    while found < wanted:
        tables.append(_draw_batch(parameters, generator, first=found))
        found += len(np.unique(tables[-1].queries))
    return joined(tables)


def _draw_batch(parameters: dict[str, NDArray[Any]], generator: np.random.Generator, first: int) -> LetorTable:
    """Draw a batch of queries and return those that are promising, numbered from `first`."""
    sizes = np.rint(from_quantiles(generator.random(_BATCH), parameters["documents"])).astype(np.int64)
    query_factors = generator.standard_normal((_BATCH, parameters["query_loadings"].shape[1]))
    query_scores = _correlated(parameters["query_loadings"], query_factors, generator) * parameters["query_deviation"]
    queries = np.repeat(np.arange(_BATCH), sizes)
    factors = generator.standard_normal((len(queries), parameters["document_loadings"].shape[1]))

    def draw(columns: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Scores of some columns and rows; what a row's columns share is in its factors."""
        own = _correlated(parameters["document_loadings"][columns], factors[rows], generator)
        return query_scores[np.ix_(queries[rows], columns)] + parameters["document_deviation"][columns] * own

    telling = np.array([QUALITY, _RELEVANCE])
    decisive = _values(parameters["values"], telling, draw(telling, np.arange(len(queries))))
    rows = np.flatnonzero(_promising(queries, decisive, parameters["group_threshold"])[queries])
    others = np.setdiff1d(np.arange(FEATURES), telling)
    features = np.empty((len(rows), FEATURES))
    features[:, QUALITY] = decisive[rows, 0]
    features[:, others] = _values(parameters["values"], others, draw(others, rows))
    numbers = first + np.unique(queries[rows], return_inverse=True)[1]
    return LetorTable(features, decisive[rows, 1].astype(np.int64), numbers)


def _correlated(
    loadings: NDArray[np.float64], factors: NDArray[np.float64], generator: np.random.Generator
) -> NDArray[np.float64]:
    """Return scores of variance 1: what the factors say about each column, and noise of its own."""
    own = np.sqrt(1 - (loadings**2).sum(axis=1))
    scores: NDArray[np.float64] = factors @ loadings.T + own * generator.standard_normal((len(factors), len(loadings)))
    return scores


def _value_table(parameters: dict[str, NDArray[Any]]) -> NDArray[np.float64]:
    """Return the value of each column at every score, in steps of a thousandth: looking up is faster than computing."""
    scores = np.linspace(SCORE_GRID[0], SCORE_GRID[-1], _STEPS)
    table = np.array([np.interp(scores, SCORE_GRID, quantiles) for quantiles in parameters["quantiles"]])
    whole = parameters["whole"].astype(bool)
    table[whole] = np.rint(table[whole])
    return np.vstack([table, np.searchsorted(parameters["relevance_limits"], scores)])


def _values(table: NDArray[np.float64], columns: NDArray[np.int64], scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the values at the scores, which beyond the ends of the table are those at its ends."""
    # Products of matrices differ in the last digit from machine to machine. Rounded to a step, they no longer do.
    step = (SCORE_GRID[-1] - SCORE_GRID[0]) / (_STEPS - 1)
    places = np.rint((scores - SCORE_GRID[0]) / step).astype(np.int64)
    np.clip(places, 0, _STEPS - 1, out=places)
    places += columns * _STEPS
    return np.take(table, places)


def _promising(
    queries: NDArray[np.int64], decisive: NDArray[np.float64], threshold: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """Return which queries have enough documents of each group and label; `decisive` is quality and relevance."""
    better = (decisive[:, 0] > threshold).astype(np.int64)
    positive = (decisive[:, 1] > 1).astype(np.int64)
    cells = np.bincount(4 * queries + 2 * better + positive, minlength=4 * _BATCH).reshape(_BATCH, 2, 2)
    return np.asarray(
        (cells[:, :, 1].sum(axis=1) >= _FEWEST_POSITIVE)
        & (cells[:, :, 1] >= _FEWEST_POSITIVE_IN_CELL).all(axis=1)
        & (cells[:, :, 0] >= _FEWEST_NEGATIVE_IN_CELL).all(axis=1)
    )


def entry() -> DatasetEntry:
    """The catalogue entry."""
    return DatasetEntry(
        name=NAME,
        summary="Synthetic twin of mslr: queries with the same 251 features and two groups from a seed.",
        reference="Gaussian copula with query effects, fitted to 86 queries of MSLR-WEB (arXiv:1306.2597).",
        config=MslrTwinConfig,
        factory=load_mslr_twin,
        provides=frozenset({"labels", "binary_labels", "queries", "groups"}),
        reads=no_files,
    )

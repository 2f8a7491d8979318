"""Fit the tables of `mslr_twin`: a Gaussian copula with effects of queries and of documents, quantile functions."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from benchmarks.real_data import RealData
from benchmarks.twins.copula import factor_loadings, normal_scores, rounded
from drobench_plugins.datasets.letor_text import joined, parse_letor
from drobench_plugins.datasets.mslr_queries import QUALITY
from drobench_plugins.datasets.mslr_twin import SCORE_GRID

QUERY_FACTORS = 12
DOCUMENT_FACTORS = 25
DIGITS = 4


def fit(data: RealData) -> dict[str, Any]:
    """Return the tables for these data."""
    table = joined([parse_letor(data.mslr[split]) for split in ("train", "test")])
    queries = np.unique(table.queries, return_inverse=True)[1]
    sizes = np.bincount(queries)
    columns = np.column_stack([table.features, table.relevance])
    scores = np.column_stack([normal_scores(column) for column in columns.T])
    means = np.column_stack([np.bincount(queries, weights=column) for column in scores.T]) / sizes[:, None]
    within = scores - means[queries]
    document_variance = (within**2).sum(axis=0) / (len(queries) - len(sizes))
    # Means over few documents vary by themselves; that part of their variance is no effect of the query.
    query_variance = np.maximum(means.var(axis=0) - document_variance * (1 / sizes).mean(), 0.0)
    # Columns with many equal values have scores of less variance. Drawn ones have variance 1, as the grid expects.
    total = np.sqrt(query_variance + document_variance)
    levels = ndtr(np.array(SCORE_GRID))
    return {
        "documents": np.rint(np.quantile(sizes, np.linspace(0, 1, 21))).astype(int).tolist(),
        "query_deviation": rounded(np.sqrt(query_variance) / total).tolist(),
        "query_loadings": rounded(factor_loadings(_correlation(means), QUERY_FACTORS)).tolist(),
        "document_deviation": rounded(np.sqrt(document_variance) / total).tolist(),
        "document_loadings": rounded(factor_loadings(_correlation(within), DOCUMENT_FACTORS)).tolist(),
        "whole": [int((column == np.rint(column)).all()) for column in table.features.T],
        "quantiles": [_few_digits(np.quantile(column, levels)) for column in table.features.T],
        "group_threshold": float(np.quantile(table.features[:, QUALITY], 0.4)),
        "relevance_limits": _relevance_limits(table.relevance),
    }


def _correlation(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return correlations, with zeros for a constant column."""
    centred = values - values.mean(axis=0)
    norms = np.sqrt((centred**2).sum(axis=0))
    scaled = centred / np.where(norms > 0, norms, 1.0)
    correlation: NDArray[np.float64] = scaled.T @ scaled
    return correlation


def _relevance_limits(relevance: NDArray[np.int64]) -> list[float]:
    """Return the normal scores at which the relevance goes up by one."""
    below = np.cumsum(np.bincount(relevance))[:-1] / len(relevance)
    return rounded(ndtri(below)).tolist()


def _few_digits(values: NDArray[np.float64]) -> list[float]:
    short = [float(f"{value:.{DIGITS}g}") for value in values]
    return [int(value) if value == int(value) else value for value in short]

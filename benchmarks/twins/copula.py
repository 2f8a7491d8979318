"""Pieces of a Gaussian copula in low-rank form, for the fits of the synthetic twins."""

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import rankdata

# What a column shares with no other one is at least this much of its variance.
LEAST_OWN_VARIANCE = 0.005


def normal_scores(column: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return normal scores of the ranks, equal values sharing theirs, with gaps left as they are."""
    scores = np.full(len(column), np.nan)
    known = ~np.isnan(column)
    scores[known] = ndtri((rankdata(column[known]) - 0.5) / known.sum())
    return scores


def factor_loadings(correlation: NDArray[np.float64], factors: int) -> NDArray[np.float64]:
    """Return loadings L with L L' equal to the correlation off its diagonal, as far as few factors allow."""
    own = np.full(len(correlation), 0.2)
    shared = correlation.copy()
    for _ in range(200):
        np.fill_diagonal(shared, 1 - own)
        sizes, directions = np.linalg.eigh(shared)
        loadings = directions[:, -factors:] * np.sqrt(np.maximum(sizes[-factors:], 0))
        own = np.clip(1 - (loadings**2).sum(axis=1), LEAST_OWN_VARIANCE, 1)
    largest = (1 - LEAST_OWN_VARIANCE) / np.maximum((loadings**2).sum(axis=1), LEAST_OWN_VARIANCE)
    # The sign of a direction is arbitrary; fixed, so that the file comes out the same everywhere.
    signs = np.sign(loadings[np.abs(loadings).argmax(axis=0), np.arange(factors)])
    scaled: NDArray[np.float64] = loadings * np.sqrt(np.minimum(1, largest))[:, None] * signs
    return scaled


def rounded(values: NDArray[np.float64], decimals: int = 3) -> NDArray[np.float64]:
    """Return rounded values without negative zeros, which would be written as such."""
    result: NDArray[np.float64] = np.round(values, decimals) + 0.0
    return result

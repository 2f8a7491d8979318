"""Fit the tables of `communities_twin`: a Gaussian copula in low-rank form, quantile functions, logistic models."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr
from sklearn.linear_model import LogisticRegression, Ridge

from benchmarks.real_data import RealData
from benchmarks.twins.copula import factor_loadings, normal_scores, rounded
from drobench_plugins.datasets.communities_columns import PREDICTORS, TARGET
from drobench_plugins.datasets.communities_crime import ATTRIBUTES, encode, read_table
from drobench_plugins.datasets.communities_twin import POLICE
from drobench_plugins.datasets.separated_text import numbers

FACTORS = 30
LEVELS = 51
# Levels of the attributes between which their joint distribution is uniform.
EDGES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)


def fit(data: RealData) -> dict[str, Any]:
    """Return the tables for these data."""
    table = read_table(data.communities)
    values = numbers("communities_crime", table, [*PREDICTORS, TARGET], missing="?").to_numpy()
    labels = encode(table)[2]
    police = np.array([PREDICTORS.index(name) for name in POLICE])
    shares = np.array([PREDICTORS.index(name) for name in ATTRIBUTES])
    present = ~np.isnan(values[:, police[0]])
    scores = _complete(np.column_stack([normal_scores(column) for column in values[:, :-1].T]), police, present)

    design = np.hstack([scores[:, shares], scores[:, shares] ** 2 - 1])
    slopes = np.linalg.lstsq(design, scores, rcond=None)[0]
    residual = scores - design @ slopes
    others = np.setdiff1d(np.arange(len(PREDICTORS)), shares)
    loadings = np.zeros((len(PREDICTORS), FACTORS))
    loadings[others] = factor_loadings(np.corrcoef(residual[:, others], rowvar=False), FACTORS)

    unpoliced = np.setdiff1d(np.arange(len(PREDICTORS)), police)
    presence = np.zeros(len(PREDICTORS))
    presence[unpoliced] = _logistic_weights(scores[:, unpoliced], present)
    return {
        "absent": round(float(1 - present.mean()), 4),
        "edges": list(EDGES),
        "cells": _cells(ndtr(scores[:, shares])).tolist(),
        "slopes": rounded(slopes).tolist(),
        "deviations": rounded(residual.std(axis=0)).tolist(),
        "presence": rounded(presence).tolist(),
        "crime": rounded(_logistic_weights(scores, labels)).tolist(),
        "loadings": rounded(loadings).tolist(),
        "quantiles": [_hundredths(column) for column in values.T],
    }


def _complete(
    scores: NDArray[np.float64], police: NDArray[np.int64], present: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Fill the gaps: zeros for single ones, and for the police a regression on the rest with resampled residuals."""
    completed = scores.copy()
    rest = np.setdiff1d(np.arange(scores.shape[1]), police)
    completed[:, rest] = np.nan_to_num(scores[:, rest])
    known = completed[np.ix_(present, rest)]
    model = Ridge(alpha=100.0).fit(known, scores[np.ix_(present, police)])
    residual = scores[np.ix_(present, police)] - model.predict(known)
    absent = np.flatnonzero(~present)
    drawn = np.random.default_rng(0).integers(len(residual), size=len(absent))
    completed[np.ix_(absent, police)] = model.predict(completed[np.ix_(absent, rest)]) + residual[drawn]
    return completed


def _logistic_weights(scores: NDArray[np.float64], labels: NDArray[Any]) -> NDArray[np.float64]:
    weights: NDArray[np.float64] = LogisticRegression(C=0.05, max_iter=5000, tol=1e-8).fit(scores, labels).coef_[0]
    return weights


def _cells(levels: NDArray[np.float64]) -> NDArray[np.int64]:
    """Count the rows in each cell of the joint distribution."""
    bins = np.searchsorted(EDGES[1:-1], levels)
    cells = np.zeros((len(EDGES) - 1,) * levels.shape[1], dtype=np.int64)
    np.add.at(cells, tuple(bins.T), 1)
    return cells


def _hundredths(column: NDArray[np.float64]) -> list[int]:
    known = column[~np.isnan(column)]
    quantiles: list[int] = np.rint(100 * np.quantile(known, np.linspace(0, 1, LEVELS))).astype(int).tolist()
    return quantiles

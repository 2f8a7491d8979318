"""Fit the tables of `adult_twin`: a latent class model of the raw table by EM, and an additive logistic label."""

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from benchmarks.real_data import RealData
from benchmarks.twins.copula import rounded
from drobench_plugins.datasets.adult import INCOMES, read_table

# Columns whose values are drawn together, because most combinations of their values do not occur.
TOGETHER = (
    ("race",),
    ("marital_status", "relationship", "sex"),
    ("workclass", "occupation"),
    ("education", "education_num"),
    ("native_country",),
)
# The last value of each bin but the last one. The edges of the loader's buckets are among them.
BINS = {
    "age": (17, 20, 23, 25, 28, 31, 34, 37, 40, 44, 48, 52, 57, 63, 70),
    "hours_per_week": (15, 24, 34, 39, 40, 41, 47, 50, 55, 60),
    "capital_gain": (1, 4000, 10_000),
    "capital_loss": (1, 1800, 1950),
}
# How many types of people each group gets: White, Black, all others.
TYPES = (24, 10, 10)
STEPS = 150
SMOOTHING = 0.01


def fit(data: RealData) -> dict[str, Any]:
    """Return the tables for these data."""
    table = read_table(data.adult)
    numbers = ["fnlwgt", "education_num", *BINS]
    table = table.with_columns([pl.col(name).cast(pl.Int64) for name in numbers])
    parts = [*(_combinations(table, columns) for columns in TOGETHER), *(_bins(table, name) for name in BINS)]
    codes = [part.pop("codes") for part in parts]
    labels = (table["income"] == INCOMES[1]).to_numpy().astype(np.int64)
    # The label helps to tell types apart, but is drawn from the logistic model and not by type.
    membership = _memberships([*codes, labels], _groups(table))
    for part, code in zip(parts, codes, strict=True):
        part["weights"] = _per_ten_thousand(membership.T @ _indicators(code))
    intercept, scores = _label_model(codes, labels)
    for part, values in zip(parts, scores, strict=True):
        part["scores"] = values
    return {
        "types": _per_ten_thousand(membership.sum(axis=0)[None, :])[0],
        "intercept": intercept,
        "fnlwgt": np.rint(np.quantile(table["fnlwgt"].to_numpy(), np.linspace(0, 1, 51))).astype(int).tolist(),
        "parts": parts,
    }


def _groups(table: pl.DataFrame) -> NDArray[np.int64]:
    race = table["race"].to_numpy()
    return np.where(race == "White", 0, np.where(race == "Black", 1, 2))


def _combinations(table: pl.DataFrame, columns: tuple[str, ...]) -> dict[str, Any]:
    rows = table.select(columns).rows()
    values = sorted(set(rows))
    position = {value: code for code, value in enumerate(values)}
    codes = np.array([position[row] for row in rows])
    return {"columns": list(columns), "values": [list(value) for value in values], "codes": codes}


def _bins(table: pl.DataFrame, column: str) -> dict[str, Any]:
    numbers = table[column].to_numpy()
    codes = np.searchsorted(BINS[column], numbers, side="left")
    inside = [np.unique(numbers[codes == code], return_counts=True) for code in range(int(codes.max()) + 1)]
    return {
        "columns": [column],
        "values": [values.tolist() for values, _ in inside],
        "counts": [counts.tolist() for _, counts in inside],
        "codes": codes,
    }


def _memberships(observed: list[NDArray[np.int64]], groups: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return how much each row belongs to each type, by EM; a type only has rows of its own group."""
    generator = np.random.default_rng(0)
    ends = np.cumsum(TYPES)
    membership = np.zeros((len(groups), ends[-1]))
    for group, end in enumerate(ends):
        rows = np.flatnonzero(groups == group)
        one_hot = [_indicators(code[rows], int(code.max()) + 1) for code in observed]
        inside = generator.dirichlet(np.full(TYPES[group], 0.1), len(rows))
        for _ in range(STEPS):
            inside = _next_membership(inside, one_hot)
        membership[rows, end - TYPES[group] : end] = inside
    return membership


def _next_membership(membership: NDArray[np.float64], one_hot: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    logarithm = np.log(membership.mean(axis=0))[None, :]
    for indicators in one_hot:
        weights = membership.T @ indicators + SMOOTHING * indicators.mean(axis=0) + 1e-12
        logarithm = logarithm + indicators @ np.log(weights / weights.sum(axis=1, keepdims=True)).T
    result = np.exp(logarithm - logarithm.max(axis=1, keepdims=True))
    normalized: NDArray[np.float64] = result / result.sum(axis=1, keepdims=True)
    return normalized


def _label_model(codes: list[NDArray[np.int64]], labels: NDArray[np.int64]) -> tuple[float, list[list[float]]]:
    blocks = [_indicators(code) for code in codes]
    model = LogisticRegression(C=1.0, max_iter=2000, tol=1e-8).fit(np.hstack(blocks), labels)
    pieces = np.split(model.coef_[0], np.cumsum([block.shape[1] for block in blocks])[:-1])
    return round(float(model.intercept_[0]), 3), [rounded(piece).tolist() for piece in pieces]


def _indicators(codes: NDArray[np.int64], count: int | None = None) -> NDArray[np.float64]:
    return np.eye(int(codes.max()) + 1 if count is None else count)[codes]


def _per_ten_thousand(weights: NDArray[np.float64]) -> list[list[int]]:
    shares = weights / weights.sum(axis=1, keepdims=True)
    return np.rint(10_000 * shares).astype(int).tolist()

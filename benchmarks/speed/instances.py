"""Seeded problems to measure on, by their names in the catalogue."""

from typing import Any

import torch
from torch import Tensor

from drobench.objective.composite import Composite
from drobench.objective.oracles.composite import CompositeOracle
from drobench.objective.predictor import ModelConfig
from drobench.objective.sampling import Shard
from drobench.reformulation.reformulation import ReformulationConfig
from drobench.reformulation.routes import find_route
from drobench.registry import load_catalogue

SEED = 0


def kl_problem(rows: int, features: int) -> Any:
    """Return KL-robust logistic regression in float64, without intercept: `features` parameters."""
    dataset = load_catalogue().dataset("synthetic").entry
    problem = load_catalogue().problem("kl_classification").entry
    data = dataset.factory(dataset.config(rows=rows, features=features, seed=SEED))
    return problem.factory(problem.config(), data, ModelConfig(intercept=False))


def composite_oracle(
    rows: int,
    features: int,
    shard: Shard = Shard(),  # noqa: B008  # an immutable tuple
) -> tuple[Tensor, CompositeOracle]:
    """Return a start and a seeded oracle of that problem's composite form, or of one process's part of it."""
    problem = kl_problem(rows, features)
    start = problem.start(torch.Generator().manual_seed(SEED))
    form = find_route(problem.form, (Composite,), ReformulationConfig()).form
    return start, CompositeOracle(form, SEED, start, shard)

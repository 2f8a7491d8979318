"""Seeded problems to measure on."""

from torch import Tensor

from drobench.objective.composite import Composite
from drobench.objective.oracle import CompositeOracle
from drobench.objective.predictor import ModelConfig
from drobench.reformulation.reformulation import ReformulationConfig
from drobench.reformulation.routes import Route, find_route
from drobench_plugins.datasets.synthetic import SyntheticConfig, load_synthetic_dataset
from drobench_plugins.problems.divergence_classification import (
    DivergenceClassification,
    KLClassificationConfig,
    build_kl_classification,
)

SEED = 0


def kl_problem(rows: int, features: int) -> DivergenceClassification:
    """Return KL-robust logistic regression in float64, without intercept: `features` parameters."""
    dataset = load_synthetic_dataset(SyntheticConfig(rows=rows, features=features, seed=SEED))
    return build_kl_classification(KLClassificationConfig(), dataset, ModelConfig(intercept=False))


def composite_route(problem: DivergenceClassification) -> Route:
    """Return the way to the composite form that the solvers measured here work on."""
    return find_route(problem.form, (Composite,), ReformulationConfig())


def composite_oracle(problem: DivergenceClassification, start: Tensor) -> CompositeOracle:
    """Return a seeded oracle of the composite form."""
    return CompositeOracle(composite_route(problem).form, SEED, start)

"""A small quadratic under linear constraints with known optimum, and its parts in numpy."""

from typing import Any

import numpy as np
import torch

from drobench.objective.oracles.constrained import ConstrainedOracle
from drobench.objective.predictor import ModelConfig
from drobench.objective.sampling import Shard
from drobench_plugins.datasets.synthetic import SyntheticConfig, load_synthetic_dataset
from drobench_plugins.problems.constrained_quadratic import ConstrainedQuadratic, ConstrainedQuadraticConfig


def quadratic(rows: int = 40, features: int = 4, seed: int = 0, **settings: Any) -> ConstrainedQuadratic:
    """Return the problem on synthetic rows."""
    dataset = load_synthetic_dataset(SyntheticConfig(rows=rows, features=features, seed=seed))
    config = ConstrainedQuadraticConfig(**{"constraints": 12, "active": 3, **settings})
    return ConstrainedQuadratic(config, dataset, ModelConfig(intercept=False))


class Quadratic:
    """The problem, its counted oracle and numpy's view of it."""

    def __init__(self, **settings: Any) -> None:
        self.problem = quadratic(**settings)
        self.form = self.problem.form
        self.start = torch.full((self.form.dimension,), 2.0, dtype=torch.float64)
        self.targets = self.form.objective.losses.targets.numpy()
        self.normals = self.form.constraints.normals.numpy()
        self.bounds = self.form.constraints.bounds.numpy()
        self.optimum = float(self.form.value(self.problem.solution))

    def oracle(self, seed: int = 0, shard: Shard | None = None) -> ConstrainedOracle:
        return ConstrainedOracle(self.form, seed, self.start, shard or Shard())

    def gradient(self, x: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        return self.form.objective.losses.curvatures.numpy() * (x - self.targets[chosen].mean(axis=0))

    def violations(self, x: np.ndarray) -> np.ndarray:
        return self.normals @ x - self.bounds

    def projected_gap(self, point: torch.Tensor) -> float:
        """Return the excess over the optimum of the nearest feasible point."""
        return float(self.form.value(self.form.constraints.project(point))) - self.optimum

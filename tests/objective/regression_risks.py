"""Small regressions within a Wasserstein ball, of every loss, norm and cost of targets."""

import math

import numpy as np
import torch

from drobench.objective.losses import LinearTargetLosses
from drobench.objective.regression_losses import AbsoluteLoss, HuberLoss, QuantileLoss, SquaredLoss
from drobench.objective.regularizers import ElasticNet
from drobench.objective.wasserstein_regression import WassersteinRegressionRisk

GENERATOR = np.random.default_rng(0)
ROWS = torch.from_numpy(np.hstack([GENERATOR.standard_normal((12, 3)), np.ones((12, 1))]))
TARGETS = torch.from_numpy(GENERATOR.standard_normal(12) * 2.0)
LOSSES = {"squared": SquaredLoss(), "absolute": AbsoluteLoss(), "huber": HuberLoss(0.5), "quantile": QuantileLoss(0.8)}
NORMS = ("l1", "l2", "linf")
COSTS = (math.inf, 0.8)
ORDERS = {"l1": 1, "l2": 2, "linf": np.inf}


def risk_of(loss, norm, cost, *, radius=0.05, l2=0.0, free=1, rows=ROWS, targets=TARGETS):
    losses = LinearTargetLosses(rows, targets, LOSSES[loss])
    return WassersteinRegressionRisk(losses, radius, cost, norm, ElasticNet(0.0, l2), free)

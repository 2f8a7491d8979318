"""Per-sample losses `f_i(x)` of a parameter vector: all of them, from where they live."""

from drobench.objective.linear_losses import (
    LinearLosses,
    LinearMarginLosses,
    LinearScoreLosses,
    LinearTargetLosses,
    RememberedMargins,
)
from drobench.objective.loss_contract import Losses, NoLosses, Pullback, PullbackDifference, difference_of
from drobench.objective.network_losses import NetworkLosses
from drobench.objective.score_losses import (
    CrossEntropyLoss,
    HingeLoss,
    LogisticLoss,
    Margin,
    MarginLoss,
    ScoreLoss,
    SigmoidLoss,
    SmoothedHingeLoss,
    smooth_hinge,
)

__all__ = [
    "CrossEntropyLoss",
    "HingeLoss",
    "LinearLosses",
    "LinearMarginLosses",
    "LinearScoreLosses",
    "LinearTargetLosses",
    "LogisticLoss",
    "Losses",
    "Margin",
    "MarginLoss",
    "NetworkLosses",
    "NoLosses",
    "Pullback",
    "PullbackDifference",
    "RememberedMargins",
    "ScoreLoss",
    "SigmoidLoss",
    "SmoothedHingeLoss",
    "difference_of",
    "smooth_hinge",
]

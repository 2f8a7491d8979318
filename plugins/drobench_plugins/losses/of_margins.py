"""Losses of classification: of the margin of two classes, or of one score for each class.

logistic        ln(1 + exp(-t))
sigmoid         1 / (1 + exp(t)), bounded and not convex
hinge           (1 - t)_+
smoothed_hinge  w ln(1 + exp((1 - t) / w))
softmax         ln sum exp(s) - s_y, for more than two classes
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from drobench.errors import require_positive
from drobench.objective.score_losses import (
    CrossEntropyLoss,
    HingeLoss,
    LogisticLoss,
    ScoreLoss,
    SigmoidLoss,
    SmoothedHingeLoss,
)
from drobench.registry import LossEntry


@dataclass
class PlainLossConfig:
    """A loss without settings."""


@dataclass
class SmoothedHingeConfig:
    """Settings of the smoothed hinge."""

    width: float = 0.1
    """Width of the smoothing: the loss is at most this times ln 2 above the hinge."""

    def __post_init__(self) -> None:
        require_positive(self, "width")


def smoothed_hinge(config: SmoothedHingeConfig) -> ScoreLoss:
    """Return the loss."""
    return SmoothedHingeLoss(config.width)


def entries() -> list[LossEntry]:
    """Return the catalogue entries."""
    plain = (
        ("logistic", "ln(1 + exp(-t)) of the margin.", "textbook", LogisticLoss),
        ("sigmoid", "1 / (1 + exp(t)) of the margin: bounded, not convex.", "Mason et al. (1999)", SigmoidLoss),
        ("hinge", "(1 - t)_+ of the margin.", "Cortes, Vapnik (1995)", HingeLoss),
        ("softmax", "Cross entropy of one score for each class, more than two.", "textbook", CrossEntropyLoss),
    )
    smoothed = LossEntry(
        name="smoothed_hinge",
        summary="The hinge, smoothed by a softplus of a stated width.",
        reference="Lee, Mangasarian (2001)",
        config=SmoothedHingeConfig,
        factory=smoothed_hinge,
        task="classification",
    )
    return [
        *(
            LossEntry(
                name=name,
                summary=summary,
                reference=reference,
                config=PlainLossConfig,
                factory=_plain(loss),
                task="classification",
            )
            for name, summary, reference, loss in plain
        ),
        smoothed,
    ]


def _plain(loss: type[ScoreLoss]) -> Callable[[Any], ScoreLoss]:
    def build(_config: PlainLossConfig) -> ScoreLoss:
        """Return the loss."""
        return loss()

    return build

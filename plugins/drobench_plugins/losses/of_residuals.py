"""Losses of regression: of the residual `r`, a score less its target.

squared   r^2
absolute  |r|
huber     r^2 / 2 up to delta, and from there on straight
quantile  level (-r)_+ + (1 - level) r_+
"""

from dataclasses import dataclass

from drobench.errors import SettingError, require_positive
from drobench.objective.regression_losses import AbsoluteLoss, HuberLoss, QuantileLoss, SquaredLoss
from drobench.objective.score_losses import ScoreLoss
from drobench.registry import LossEntry


@dataclass
class ResidualLossConfig:
    """A loss without settings."""


@dataclass
class HuberConfig:
    """Settings of Huber's loss."""

    delta: float = 1.0
    """Residual from which on the loss is straight."""

    def __post_init__(self) -> None:
        require_positive(self, "delta")


@dataclass
class QuantileConfig:
    """Settings of the loss of a quantile."""

    level: float = 0.5
    """Which quantile of the target is predicted, between 0 and 1."""

    def __post_init__(self) -> None:
        if not 0.0 < self.level < 1.0:
            raise SettingError(f"QuantileConfig.level must be between 0 and 1; found {self.level}.")


def squared(_config: ResidualLossConfig) -> ScoreLoss:
    """Return the loss."""
    return SquaredLoss()


def absolute(_config: ResidualLossConfig) -> ScoreLoss:
    """Return the loss."""
    return AbsoluteLoss()


def huber(config: HuberConfig) -> ScoreLoss:
    """Return the loss."""
    return HuberLoss(config.delta)


def quantile(config: QuantileConfig) -> ScoreLoss:
    """Return the loss."""
    return QuantileLoss(config.level)


def entries() -> list[LossEntry]:
    """Return the catalogue entries."""
    return [
        LossEntry(name=name, summary=summary, reference=reference, config=config, factory=factory, task="regression")
        for name, summary, reference, config, factory in (
            ("squared", "Square of the residual.", "textbook", ResidualLossConfig, squared),
            ("absolute", "Size of the residual.", "textbook", ResidualLossConfig, absolute),
            ("huber", "Square of small residuals, size of large ones.", "Huber (1964)", HuberConfig, huber),
            ("quantile", "Loss of a quantile of the target.", "Koenker, Bassett (1978)", QuantileConfig, quantile),
        )
    ]

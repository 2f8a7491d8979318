"""Losses that keep every promise but one."""

import math
from dataclasses import dataclass, field

import torch
from torch.nn.functional import softplus

from drobench.errors import require_positive
from drobench.objective.regression_losses import QuantileLoss
from drobench.objective.score_losses import HingeLoss, LogisticLoss, MarginLoss, ScoreLoss
from drobench.registry import LossEntry


@dataclass
class Settings:
    """Settings."""

    width: float = 0.7

    def __post_init__(self):
        require_positive(self, "width")


@dataclass
class Unchecked:
    """Settings that nobody looks at."""

    width: float = 0.7


class Soft(ScoreLoss):
    """`w (softplus(r / w) + softplus(-r / w))`, a loss of residuals that keeps every promise."""

    convex = True

    def __init__(self, config):
        self.width = config.width
        self.largest_bend = 0.5 / self.width

    def value_and_slope(self, scores, targets):
        scaled = (scores - targets) / self.width
        # No default threshold, which is off by 2e-9.
        values = softplus(scaled, threshold=40.0) + softplus(-scaled, threshold=40.0)
        return self.width * values, 2.0 * torch.sigmoid(scaled) - 1.0

    def score_bend(self, scores, targets):
        scaled = (scores - targets) / self.width
        return 2.0 * torch.sigmoid(scaled) * torch.sigmoid(-scaled) / self.width

    def conjugate(self, slopes, targets):
        share = (1.0 + slopes) / 2.0
        entropy = torch.special.xlogy(share, share) + torch.special.xlogy(1.0 - share, 1.0 - share)
        return slopes * targets + 2.0 * self.width * entropy

    def expression(self, scores, targets):
        import cvxpy as cp

        scaled = (scores - targets) / self.width
        return self.width * (cp.logistic(scaled) + cp.logistic(-scaled))


def entry(factory=Soft, **changes):
    described = {"name": "sample", "summary": "A loss.", "reference": "here", "config": Settings, "factory": factory}
    return LossEntry(**{**described, "task": "regression", **changes})


class Overflowing(Soft):
    """Careless with exponentials."""

    largest_bend = math.inf

    def __init__(self, config):
        self.width = config.width

    def value_and_slope(self, scores, targets):
        scaled = (scores - targets) / self.width
        values = torch.log1p(torch.exp(scaled)) + torch.log1p(torch.exp(-scaled))
        return self.width * values, 2.0 * torch.sigmoid(scaled) - 1.0


class OfAll(Soft):
    """A mean over the rows."""

    def value_and_slope(self, scores, targets):
        values, slopes = super().value_and_slope(scores, targets)
        return values - 0.1 * scores.mean(dim=-1, keepdim=True).detach(), slopes


class OneNumber(Soft):
    """One number for all rows."""

    def value_and_slope(self, scores, targets):
        values, slopes = super().value_and_slope(scores, targets)
        return values.mean(), slopes


class InPlace(Soft):
    """Changes what it is handed."""

    def value_and_slope(self, scores, targets):
        result = super().value_and_slope(scores.clone(), targets)
        scores.detach().mul_(1.0 + 1e-9)
        return result


class Counting(Soft):
    """Has a memory."""

    calls = 0

    def value_and_slope(self, scores, targets):
        self.calls += 1
        return super().value_and_slope(scores, targets)


class Double(Soft):
    """Insists on double precision."""

    def value_and_slope(self, scores, targets):
        values, slopes = super().value_and_slope(scores, targets)
        return values.double(), slopes.double()


class WrongSlope(Soft):
    """A factor is missing."""

    def value_and_slope(self, scores, targets):
        values, slopes = super().value_and_slope(scores, targets)
        return values, 0.9 * slopes


class Detached(Soft):
    """Values that torch cannot differentiate."""

    def value_and_slope(self, scores, targets):
        values, slopes = super().value_and_slope(scores, targets)
        return values.detach(), slopes


class WrongBend(Soft):
    """Half of the second derivative."""

    def score_bend(self, scores, targets):
        return 0.5 * super().score_bend(scores, targets)


class NarrowBound(Soft):
    """States too small a bound."""

    def __init__(self, config):
        super().__init__(config)
        self.largest_bend *= 0.8


class KinkedWithBound(HingeLoss):
    """States a bound in spite of its kink."""

    largest_bend = 1.0

    def __init__(self, config):
        pass


class Wavy(Soft):
    """Says that it is convex."""

    largest_bend = math.inf

    def __init__(self, config):
        self.width = config.width

    def value_and_slope(self, scores, targets):
        residuals = scores - targets
        return 1.0 + residuals.sin(), residuals.cos()

    def score_bend(self, scores, targets):
        return -(scores - targets).sin()

    def conjugate(self, slopes, targets):
        return None

    def expression(self, scores, targets):
        return None


class Clipped(Wavy):
    """Convex up to a far end, where it goes flat: bounded after all."""

    def value_and_slope(self, scores, targets):
        values, slopes = Soft.value_and_slope(self, scores, targets)
        flat = values > 20.0
        return torch.where(flat, 20.0, values), torch.where(flat, 0.0, slopes)

    def score_bend(self, scores, targets):
        return ScoreLoss.score_bend(self, scores, targets)


class Modest(Soft):
    """Convex, and says that it is not."""

    convex = False


class SlopeAtKink(QuantileLoss):
    """At its kink the slope of neither side, nor one between."""

    def __init__(self, config):
        super().__init__(0.8)

    def of_residual(self, residuals):
        values, slopes = super().of_residual(residuals)
        return values, torch.where(residuals == 0.0, 3.0, slopes)


class WrongRange(Soft):
    """The wrong way round."""

    def slope_range(self, scores, targets, near):
        low, high = super().slope_range(scores, targets, near)
        return high + 1e-3, low


class WrongConjugate(Soft):
    """Too small."""

    def conjugate(self, slopes, targets):
        return super().conjugate(slopes, targets) - 0.01


class WrongInsideTheKink(QuantileLoss):
    """Right at the ends of the range of slopes, and too small between them."""

    def __init__(self, config):
        super().__init__(0.8)

    def residual_conjugate(self, slopes):
        return -0.1 * (slopes + 0.8) * (0.2 - slopes)


class OtherExpression(Soft):
    """Something else in cvxpy."""

    def expression(self, scores, targets):
        return 1.01 * super().expression(scores, targets)


class ConcaveExpression(Soft):
    """Not convex by the rules."""

    def expression(self, scores, targets):
        import cvxpy as cp

        return -cp.logistic(-cp.abs(scores - targets))


class OtherMargins(LogisticLoss):
    """Scores and margins are told different things."""

    def __init__(self, config):
        pass

    def bend(self, margins):
        return 2.0 * super().bend(margins)

    def score_bend(self, scores, targets):
        return 0.5 * super().score_bend(scores, targets)


class Signs(MarginLoss):
    """A margin loss."""

    convex = True

    def __init__(self, config):
        self.inner = LogisticLoss()

    def of_margin(self, margins):
        return self.inner.of_margin(margins)


class SeveralWrong(ScoreLoss):
    """Several scores, whose second derivatives are half of what they are."""

    convex = True
    scores_each_class = True

    def __init__(self, config):
        pass

    def value_and_slope(self, scores, targets):
        chosen = torch.nn.functional.one_hot(targets, scores.shape[-1]).to(scores.dtype)
        return torch.logsumexp(scores, dim=-1) - (scores * chosen).sum(dim=-1), scores.softmax(dim=-1) - chosen

    def bends(self, scores, targets):
        return 0.5 * super().bends(scores, targets)


def careless(config):
    """A loss whose width may be anything."""
    loss = Soft(Settings(width=0.5))
    loss.width = config.width
    return loss


@dataclass
class Listed:
    """No number among its settings."""

    widths: list[float] = field(default_factory=lambda: [0.7])

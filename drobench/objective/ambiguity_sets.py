"""Ambiguity sets: the adversary's choices, with exact worst-case values and weights for given losses."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from drobench.objective.weights import normalised, under_cap

# Weights computed for the edge of a ball may lie beyond it by their rounding.
_ROUNDING = 1e-9


class AmbiguitySet(ABC):
    """An adversary that reweights samples."""

    keeps_convexity: bool = True
    """Whether the worst case of convex losses is convex."""

    @abstractmethod
    def worst_case(self, losses: Tensor) -> Tensor:
        """Return the adversary's optimal value for losses `(m,)`."""

    @abstractmethod
    def weights(self, losses: Tensor) -> Tensor:
        """Return the adversary's optimal weights `(m,)`."""

    def penalty(self, weights: Tensor) -> float:
        """Return what the adversary pays for `weights` on the simplex: nothing inside a ball, infinity outside."""
        return 0.0

    def nearest(self, weights: Tensor) -> Tensor:
        """Return weights on the simplex near the given ones, for duals that a solver found only approximately."""
        return normalised(weights)

    def expression(self, values: Any) -> tuple[Any, list[Any]] | None:
        """Return the worst case as a convex expression of cvxpy of expressions `values`, with conditions.

        It does not fall where a value rises. `None`: there is none, and reference solvers do without.
        """
        return None

    def minorant(self) -> "AmbiguitySet":
        """Return a convex adversary that is never stronger, and equally strong where it matters; often itself."""
        return self


@dataclass(frozen=True)
class KLPenalty(AmbiguitySet):
    """`max over p in the simplex of sum p_i f_i - gamma KL(p || 1/m) = gamma ln mean exp(f_i / gamma)`."""

    gamma: float

    def worst_case(self, losses: Tensor) -> Tensor:
        mean = losses.mean()
        exponents = (losses - mean) / self.gamma
        if bool(exponents.abs().max() < 1.0):
            # At a large gamma the logarithm of the count would cancel all digits of the losses.
            return mean + self.gamma * exponents.expm1().mean().log1p()
        return self.gamma * (torch.logsumexp(losses / self.gamma, dim=0) - math.log(losses.numel()))

    def weights(self, losses: Tensor) -> Tensor:
        return torch.softmax(losses / self.gamma, dim=0)

    def penalty(self, weights: Tensor) -> float:
        return self.gamma * float(torch.special.xlogy(weights, weights * weights.numel()).sum())


@dataclass(frozen=True)
class KLBall(AmbiguitySet):
    """`max over p in the simplex with KL(p || 1/m) <= radius`.

    Its dual is `min over t > 0 of t radius + t ln mean exp(f_i / t)`.
    """

    radius: float

    def worst_case(self, losses: Tensor) -> Tensor:
        # At the optimal temperature the divergence equals the radius, so the mean under the weights is the value;
        # evaluated through the dual function, an inexact temperature only costs its square.
        temperature = self.temperature(losses)
        if temperature == 0.0 or math.isinf(temperature):
            return self.weights(losses).dot(losses)
        return temperature * self.radius + KLPenalty(temperature).worst_case(losses)

    def weights(self, losses: Tensor) -> Tensor:
        temperature = self.temperature(losses)
        if temperature == 0.0:
            top = (losses >= losses.max()).to(losses.dtype)
            return top / top.sum()
        return KLPenalty(temperature).weights(losses) if math.isfinite(temperature) else _uniform(losses)

    def temperature(self, losses: Tensor) -> float:
        """Return the optimal `t`: 0 where the ball allows all weight on the largest losses, infinite for radius 0."""
        spread = float(losses.max() - losses.min())
        ties = int((losses >= losses.max()).sum())
        if self.radius >= math.log(losses.numel() / ties) or spread == 0.0:
            return 0.0
        if self.radius == 0.0:
            return math.inf
        # The divergence of the weights falls from ln(m / ties) to 0 as the temperature rises.
        low, high = math.log(spread * 1e-9), math.log(spread * 1e9)
        for _ in range(64):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self._divergence(losses, math.exp(middle)) > self.radius else (low, middle)
        return math.exp(0.5 * (low + high))

    def penalty(self, weights: Tensor) -> float:
        return 0.0 if KLPenalty(1.0).penalty(weights) <= self.radius * (1.0 + _ROUNDING) + _ROUNDING else math.inf

    def _divergence(self, losses: Tensor, temperature: float) -> float:
        return KLPenalty(1.0).penalty(KLPenalty(temperature).weights(losses))


@dataclass(frozen=True)
class Chi2Variance(AmbiguitySet):
    """Chi-square penalty over `sum p = 1` alone, where `p` may be negative: `mean f + Var f / (2 gamma)`.

    It equals the exact penalty where `gamma >= mean f - min f`, and exceeds it elsewhere; it is not convex in general.
    """

    gamma: float
    keeps_convexity = False

    def worst_case(self, losses: Tensor) -> Tensor:
        return losses.mean() + losses.var(correction=0) / (2.0 * self.gamma)

    def weights(self, losses: Tensor) -> Tensor:
        return (1.0 + (losses - losses.mean()) / self.gamma) / losses.numel()

    def penalty(self, weights: Tensor) -> float:
        return Chi2Penalty(self.gamma).penalty(weights)

    def minorant(self) -> AmbiguitySet:
        return Chi2Penalty(self.gamma)


@dataclass(frozen=True)
class Chi2Penalty(AmbiguitySet):
    """`max over p in the simplex of sum p_i f_i - gamma (m / 2) sum (p_i - 1/m)^2`.

    Its dual is `min over e of e - gamma / 2 + mean (f_i - e + gamma)_+^2 / (2 gamma)`, with the closed-form minimiser
    that sorting gives.
    """

    gamma: float

    def threshold(self, losses: Tensor) -> Tensor:
        """Return the minimising `e`."""
        descending = losses.sort(descending=True).values
        counts = torch.arange(1, losses.numel() + 1, dtype=losses.dtype, device=losses.device)
        candidates = (descending.cumsum(0) - (losses.numel() - counts) * self.gamma) / counts
        # The right number of positive weights is the last for which the smallest of them is not negative.
        last = int((descending - candidates + self.gamma >= 0).sum()) - 1
        return candidates[last]

    def worst_case(self, losses: Tensor) -> Tensor:
        threshold = self.threshold(losses)
        # (s + gamma)^2 / (2 gamma) - gamma / 2 without its cancellation at a large gamma.
        excess = (losses - threshold).clamp(min=-self.gamma)
        return threshold + (excess + excess.square() / (2.0 * self.gamma)).mean()

    def weights(self, losses: Tensor) -> Tensor:
        excess = (losses - self.threshold(losses) + self.gamma).clamp(min=0.0)
        return excess / excess.sum()

    def penalty(self, weights: Tensor) -> float:
        return 0.5 * self.gamma * weights.numel() * float((weights - 1.0 / weights.numel()).square().sum())


@dataclass(frozen=True)
class Chi2Ball(AmbiguitySet):
    """`max over p in the simplex with (m / 2) sum (p_i - 1/m)^2 <= radius`.

    Its dual is `min over e of e + sqrt((1 + 2 radius) mean (f_i - e)_+^2)`.
    """

    radius: float

    def worst_case(self, losses: Tensor) -> Tensor:
        return self.weights(losses).dot(losses)

    def weights(self, losses: Tensor) -> Tensor:
        if float(losses.max() - losses.min()) == 0.0 or self.radius == 0.0:
            return _uniform(losses)
        excess = (losses - self.threshold(losses)).clamp(min=0.0)
        if float(excess.sum()) == 0.0:
            excess = (losses >= losses.max()).to(losses.dtype)
        return excess / excess.sum()

    def penalty(self, weights: Tensor) -> float:
        return 0.0 if Chi2Penalty(1.0).penalty(weights) <= self.radius * (1.0 + _ROUNDING) + _ROUNDING else math.inf

    def threshold(self, losses: Tensor) -> Tensor:
        """Return the minimising `e`: below it a loss gets no weight.

        With the `k` largest losses active, of mean `a` and variance `v`, weights proportional to `f - e` spend the
        radius exactly when `(a - e)^2 = v / ((1 + 2 radius) k / m - 1)`. This is solved for every `k` at once, and the
        right `k` is the one whose threshold separates the active losses from the others.
        """
        total = losses.numel()
        # Centred, since variances are differences of squares.
        centre = losses.mean()
        descending = losses.sort(descending=True).values - centre
        counts = torch.arange(1, total + 1, dtype=losses.dtype, device=losses.device)
        means = descending.cumsum(0) / counts
        variances = (descending.square().cumsum(0) / counts - means.square()).clamp(min=0.0)
        # sum p^2 = (1 + v / (a - e)^2) / k must equal (1 + 2 radius) / m.
        room = (1.0 + 2.0 * self.radius) * counts / total - 1.0
        distances = torch.where(room > 0, (variances / room.clamp(min=1e-300)).sqrt(), torch.full_like(room, torch.inf))
        thresholds = means - distances
        following = torch.cat([descending[1:], descending.new_full((1,), -torch.inf)])
        fits = (descending > thresholds) & (following <= thresholds) & (room > 0)
        if not bool(fits.any()):
            # Even all weight on the largest losses stays inside the ball.
            return descending[0] + centre
        return centre + thresholds[int(fits.to(torch.int64).argmax())]


@dataclass(frozen=True)
class CVaR(AmbiguitySet):
    """Mean of the worst share `level` of the losses: `max over p in the simplex with p_i <= 1 / (level m)`."""

    level: float

    def worst_case(self, losses: Tensor) -> Tensor:
        return self.weights(losses).dot(losses)

    def weights(self, losses: Tensor) -> Tensor:
        total = losses.numel()
        cap = min(1.0, 1.0 / (self.level * total))
        order = losses.argsort(descending=True)
        ranks = torch.arange(total, dtype=losses.dtype, device=losses.device)
        weights = torch.empty_like(losses)
        weights[order] = (1.0 - ranks * cap).clamp(0.0, cap)
        return weights

    def penalty(self, weights: Tensor) -> float:
        cap = 1.0 / (self.level * weights.numel())
        return 0.0 if float(weights.max()) <= max(cap, 1.0 / weights.numel()) * (1.0 + _ROUNDING) else math.inf

    def nearest(self, weights: Tensor) -> Tensor:
        """Project on the capped simplex."""
        return under_cap(weights, min(1.0, 1.0 / (self.level * weights.numel())))


def _uniform(losses: Tensor) -> Tensor:
    return torch.full_like(losses, 1.0 / losses.numel())

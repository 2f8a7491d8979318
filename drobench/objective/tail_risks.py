"""Risks of the tail beyond CVaR: smoothed by a price, entropic, mixtures of levels, total variation.

capped price     max over q <= 1 / (level m) of sum q f - gamma D(q),  D KL or chi-square
entropic         KL(q || 1/m) <= -ln level, the tightest bound that exponential moments give: a `KLBall`
spectral         sum over j of share_j CVaR of level_j
total variation  within `radius`: (1 - radius) CVaR of level 1 - radius, plus radius times the largest loss
"""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from drobench.errors import SettingError
from drobench.objective.ambiguity_sets import AmbiguitySet
from drobench.objective.divergence_prices import DivergencePrice
from drobench.objective.weights import pulled_inside

# Caps and balls are met up to rounding; shares that people write down sum to one less exactly.
_ROUNDING = 1e-12
_SHARES = 1e-9


@dataclass(frozen=True)
class CappedKL(DivergencePrice):
    """`phi(t) = gamma (t ln t - t + 1)` for `t <= 1 / level`: CVaR, smoothed; at most `gamma ln(1 / level)` lower."""

    level: float
    gamma: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "largest_ratio", 1.0 / self.level)

    def conjugate(self, excess: Tensor) -> tuple[Tensor, Tensor]:
        cap, top = 1.0 / self.level, -math.log(self.level)
        exponents = excess / self.gamma
        reached = exponents.clamp(max=top)
        # Beyond the cap it is straight.
        return self.gamma * (reached.expm1() + cap * (exponents - top).clamp(min=0.0)), reached.exp()

    def bend(self, excess: Tensor) -> Tensor:
        exponents = excess / self.gamma
        top = -math.log(self.level)
        return torch.where(exponents <= top, exponents.clamp(max=top).exp() / self.gamma, 0.0)

    def conjugate_expression(self, excess: Any) -> tuple[Any, list[Any]]:
        import cvxpy as cp  # noqa: PLC0415  # slow to load, and only reference solvers need it

        # A part on the curve, and the rest on the straight line that goes on with its slope at the cap.
        rest = cp.Variable(excess.shape, nonneg=True)
        return self.gamma * (cp.exp((excess - rest) / self.gamma) - 1.0) + rest / self.level, []

    def price_and_slope(self, ratios: Tensor) -> tuple[Tensor, Tensor]:
        price = self.gamma * (torch.special.xlogy(ratios, ratios) - ratios + 1.0)
        allowed = ratios <= self.largest_ratio * (1.0 + _ROUNDING)
        return torch.where(allowed, price, torch.inf), self.gamma * ratios.clamp(min=1e-300).log()


@dataclass(frozen=True)
class CappedChi2(DivergencePrice):
    """`phi(t) = (gamma / 2) (t - 1)^2` for `t <= 1 / level`; at most `(gamma / 2) (1 / level - 1)` below CVaR."""

    level: float
    gamma: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "largest_ratio", 1.0 / self.level)

    def conjugate(self, excess: Tensor) -> tuple[Tensor, Tensor]:
        slopes = (1.0 + excess / self.gamma).clamp(0.0, 1.0 / self.level)
        return slopes * excess - 0.5 * self.gamma * (slopes - 1.0).square(), slopes

    def bend(self, excess: Tensor) -> Tensor:
        inside = (1.0 + excess / self.gamma > 0.0) & (1.0 + excess / self.gamma <= 1.0 / self.level)
        return inside.to(excess.dtype) / self.gamma

    def conjugate_expression(self, excess: Any) -> tuple[Any, list[Any]]:
        import cvxpy as cp  # noqa: PLC0415  # slow to load, and only reference solvers need it

        rest = cp.Variable(excess.shape, nonneg=True)
        above = cp.Variable(excess.shape, nonneg=True)
        curved = cp.power(above, 2) / (2.0 * self.gamma) - 0.5 * self.gamma
        return curved + rest / self.level, [above >= excess - rest + self.gamma]

    def price_and_slope(self, ratios: Tensor) -> tuple[Tensor, Tensor]:
        allowed = ratios <= self.largest_ratio * (1.0 + _ROUNDING)
        price = torch.where(allowed, 0.5 * self.gamma * (ratios - 1.0).square(), torch.inf)
        return price, self.gamma * (ratios - 1.0)


class SpectralRisk(AmbiguitySet):
    """A mixture of CVaRs: the sorted losses, each with the weight of its rank."""

    @abstractmethod
    def parts(self, samples: int) -> tuple[tuple[float, float], ...]:
        """Return levels, at least `1 / samples`, and their shares, which sum to one."""

    def spectrum(self, like: Tensor) -> Tensor:
        """Return the weights of the ranks, of the largest loss first; they never rise."""
        ranks = torch.arange(like.numel(), dtype=like.dtype, device=like.device)
        found = torch.zeros_like(like)
        for level, share in self.parts(like.numel()):
            cap = min(1.0, 1.0 / (level * like.numel()))
            found += share * (1.0 - ranks * cap).clamp(0.0, cap)
        return found

    def worst_case(self, losses: Tensor) -> Tensor:
        return self.spectrum(losses).dot(losses.sort(descending=True).values)

    def weights(self, losses: Tensor) -> Tensor:
        weights = torch.empty_like(losses)
        weights[losses.argsort(descending=True)] = self.spectrum(losses)
        return weights

    def allows(self, weights: Tensor) -> bool:
        """Return whether the spectrum majorises the weights, up to rounding: its hull is what may be chosen."""
        excess = weights.sort(descending=True).values.cumsum(0) - self.spectrum(weights).cumsum(0)
        return float(excess.max()) <= _ROUNDING

    def penalty(self, weights: Tensor) -> float:
        return 0.0 if self.allows(weights) else math.inf

    def nearest(self, weights: Tensor) -> Tensor:
        return pulled_inside(weights, self.allows)

    def expression(self, values: Any) -> tuple[Any, list[Any]]:
        import cvxpy as cp  # noqa: PLC0415  # slow to load, and only reference solvers need it

        risk, conditions = 0.0, []
        for level, share in self.parts(values.size):
            threshold, excess = cp.Variable(), cp.Variable(values.shape, nonneg=True)
            risk = risk + share * (threshold + cp.sum(excess) / (level * values.size))
            conditions.append(excess >= values - threshold)
        return risk, conditions


@dataclass(frozen=True)
class SuperquantileMixture(SpectralRisk):
    """`sum over j of shares_j CVaR of levels_j`."""

    levels: tuple[float, ...]
    shares: tuple[float, ...]

    def __post_init__(self) -> None:
        levels, shares = self.levels, self.shares
        if len(levels) != len(shares) or not levels or not all(0.0 < level <= 1.0 for level in levels):
            raise SettingError(
                "A mixture of superquantiles needs levels in (0, 1], with one share for each; found levels "
                f"{list(levels)} and shares {list(shares)}. Change `problem.levels=` and `problem.shares=`."
            )
        if not all(share > 0.0 for share in shares) or abs(sum(shares) - 1.0) > _SHARES:
            raise SettingError(
                f"The shares of a mixture of superquantiles must be above 0 and sum to 1; found {list(shares)}. Change "
                "`problem.shares=`."
            )

    def parts(self, samples: int) -> tuple[tuple[float, float], ...]:
        return tuple((max(level, 1.0 / samples), share) for level, share in zip(self.levels, self.shares, strict=True))


@dataclass(frozen=True)
class TotalVariationBall(SpectralRisk):
    """`max over q in the simplex with (1/2) sum |q_i - 1/m| <= radius`.

    The adversary takes `radius` from the smallest losses and gives it to the largest (Jiang and Guan, 2018).
    """

    radius: float

    def __post_init__(self) -> None:
        if not 0.0 <= self.radius <= 1.0:
            raise SettingError(
                f"The radius of a total variation ball must be in [0, 1]; found {self.radius}. "
                "Change `problem.radius=`."
            )

    def parts(self, samples: int) -> tuple[tuple[float, float], ...]:
        kept = 1.0 - self.radius
        found = ((max(kept, 1.0 / samples), kept), (1.0 / samples, self.radius))
        return tuple(part for part in found if part[1] > 0.0)

    def allows(self, weights: Tensor) -> bool:
        """Return whether the weights are in the ball, up to rounding."""
        return 0.5 * float((weights - 1.0 / weights.numel()).abs().sum()) <= self.radius + _ROUNDING

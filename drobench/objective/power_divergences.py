"""Cressie-Read divergences of any order `k > 1`, as a price and as a ball (Duchi and Namkoong, Ann. Statist. 2021).

    D_k(q) = mean f_k(m q_i),    f_k(t) = (t^k - k t + k - 1) / (k (k - 1)),    1/k + 1/k* = 1

`k = 2` is chi-square as `Chi2Penalty` and `Chi2Ball` have it, `k -> 1` is KL. With `z(u) = ((k - 1) u + 1)_+`:

    price gamma   min over e of  e + gamma mean (z^k* - 1) / k  at  u = (f_i - e) / gamma;    m q_i = z^(1 / (k - 1))
    ball radius   min over e of  e + c (mean (f_i - e)_+^k*)^(1 / k*),    c = (1 + k (k - 1) radius)^(1 / k)
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from drobench.errors import SettingError
from drobench.objective.ambiguity_sets import AmbiguitySet
from drobench.objective.divergence_prices import DivergencePrice
from drobench.objective.scalar_search import minimise_convex
from drobench.objective.weights import normalised, pulled_inside

_ROUNDING = 1e-12


def power_divergence(ratios: Tensor, order: float) -> Tensor:
    """Return `f_k(t)`, elementwise."""
    return (ratios.pow(order) - order * ratios + order - 1.0) / (order * (order - 1.0))


def _require_order(order: float) -> None:
    if not order > 1.0:
        raise SettingError(
            f"The order of a Cressie-Read divergence must be above 1 (2 is chi-square; at 1 it is KL, which the KL "
            f"problems have); found {order}. Change `problem.order=`."
        )


@dataclass(frozen=True)
class CressieReadPenalty(DivergencePrice):
    """`max over q in the simplex of sum q_i f_i - gamma D_k(q)`."""

    order: float
    gamma: float

    def __post_init__(self) -> None:
        _require_order(self.order)
        # Beyond 2 the slopes are roots, which are infinitely steep where weights vanish.
        object.__setattr__(self, "slopes", "lipschitz" if self.order <= 2.0 else "continuous")

    def conjugate(self, excess: Tensor) -> tuple[Tensor, Tensor]:
        # ln z, with its digits also where z is nearly one.
        logarithms = ((self.order - 1.0) / self.gamma * excess).clamp(min=-1.0).log1p()
        dual = self.order / (self.order - 1.0)
        slopes = (logarithms / (self.order - 1.0)).exp()
        return self.gamma * (dual * logarithms).expm1() / self.order, slopes

    def bend(self, excess: Tensor) -> Tensor:
        slopes = self.conjugate(excess)[1]
        return torch.where(slopes > 0.0, slopes.pow(2.0 - self.order) / self.gamma, 0.0)

    def conjugate_expression(self, excess: Any) -> tuple[Any, list[Any]]:
        import cvxpy as cp  # noqa: PLC0415  # slow to load, and only reference solvers need it

        above, powers = cp.Variable(excess.shape, nonneg=True), cp.Variable(excess.shape)
        conditions = [above >= (self.order - 1.0) / self.gamma * excess + 1.0, power_cone(above, powers, self.order)]
        return self.gamma * (powers - 1.0) / self.order, conditions

    def price_and_slope(self, ratios: Tensor) -> tuple[Tensor, Tensor]:
        slopes = (ratios.clamp(min=0.0).pow(self.order - 1.0) - 1.0) / (self.order - 1.0)
        return self.gamma * power_divergence(ratios, self.order), self.gamma * slopes


@dataclass(frozen=True)
class CressieReadBall(AmbiguitySet):
    """`max over q in the simplex with D_k(q) <= radius`."""

    order: float
    radius: float

    def __post_init__(self) -> None:
        _require_order(self.order)

    @property
    def dual_order(self) -> float:
        """`k*`."""
        return self.order / (self.order - 1.0)

    @property
    def factor(self) -> float:
        """`c`."""
        return float((1.0 + self.order * (self.order - 1.0) * self.radius) ** (1.0 / self.order))

    def threshold(self, losses: Tensor) -> float:
        """Return the minimising `e`, which is the largest loss where the ball allows all weight on that."""
        largest = float(losses.max())

        def slope(dual: float) -> float:
            excess = (losses - dual).clamp(min=0.0)
            top = float(excess.max())
            if top == 0.0:
                return 1.0
            scaled = excess / top
            means = float(scaled.pow(self.dual_order).mean()), float(scaled.pow(self.dual_order - 1.0).mean())
            return float(1.0 - self.factor * means[1] * means[0] ** (1.0 / self.dual_order - 1.0))

        return min(minimise_convex(slope, float(losses.mean())), largest)

    def worst_case(self, losses: Tensor) -> Tensor:
        if self.radius == 0.0:
            return losses.mean()
        # An inexact threshold only costs its square.
        threshold = self.threshold(losses)
        excess = (losses - threshold).clamp(min=0.0)
        # Near order 1 the powers are high: of numbers up to one none overflows.
        top = excess.max().clamp(min=torch.finfo(losses.dtype).tiny)
        norm = (excess / top).pow(self.dual_order).mean().pow(1.0 / self.dual_order)
        return threshold + self.factor * top * norm

    def weights(self, losses: Tensor) -> Tensor:
        spread = float(losses.max() - losses.min())
        if self.radius == 0.0 or spread == 0.0:
            return torch.full_like(losses, 1.0 / losses.numel())
        excess = (losses - self.threshold(losses)).clamp(min=0.0)
        largest = float(excess.max())
        if largest <= _ROUNDING * spread:
            return normalised((losses >= losses.max()).to(losses.dtype))
        # Its own inside: an inexact threshold would put it a rounding outside.
        return pulled_inside((excess / largest).pow(self.dual_order - 1.0), self.allows)

    def allows(self, weights: Tensor) -> bool:
        """Return whether the weights are in the ball, up to rounding."""
        distance = float(power_divergence(weights * weights.numel(), self.order).mean())
        return distance <= self.radius * (1.0 + _ROUNDING) + _ROUNDING

    def penalty(self, weights: Tensor) -> float:
        return 0.0 if self.allows(weights) else float("inf")

    def nearest(self, weights: Tensor) -> Tensor:
        return pulled_inside(weights, self.allows)

    def expression(self, values: Any) -> tuple[Any, list[Any]]:
        import cvxpy as cp  # noqa: PLC0415  # slow to load, and only reference solvers need it

        # With a common scale t the cones say excess_i^k* <= t^(k* - 1) powers_i; sum powers <= t bounds the norm by t.
        threshold, norm = cp.Variable(), cp.Variable(nonneg=True)
        excess, powers = cp.Variable(values.shape, nonneg=True), cp.Variable(values.shape)
        scale = self.factor * float(values.size) ** (-1.0 / self.dual_order)
        cone = power_cone(excess, powers, self.order, norm)
        return threshold + scale * norm, [excess >= values - threshold, cone, cp.sum(powers) <= norm]


def power_cone(above: Any, powers: Any, order: float, scale: Any = 1.0) -> Any:
    """Return the condition of cvxpy that `powers >= above^k* / scale^(k* - 1)`, exactly, for any order."""
    import cvxpy as cp  # noqa: PLC0415  # slow to load, and only reference solvers need it

    # 1 / k* = (k - 1) / k
    return cp.PowCone3D(powers, scale * np.ones(above.shape), above, (order - 1.0) / order)

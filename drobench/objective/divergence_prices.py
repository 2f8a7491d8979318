"""Adversaries who pay for each weight alone: `max over q in the simplex of sum q_i f_i - mean phi(m q_i)`.

With the conjugate `phi*(s) = max over t >= 0 of t s - phi(t)`, the multiplier `e` of `sum q = 1` gives

    min over e of  e + mean phi*(f_i - e),        m q_i = phi*'(f_i - e) at the minimiser

A subclass brings `phi*` and its slopes. Worst case, weights, price, the composite, the saddle and the certificate
follow from them.
"""

import math
from abc import abstractmethod
from typing import Any, Literal

import torch
from torch import Tensor

from drobench.objective.ambiguity_sets import AmbiguitySet
from drobench.objective.scalar_search import minimise_convex
from drobench.objective.score_losses import derivative
from drobench.objective.weights import normalised, under_cap

_DOUBLINGS = 60
_BISECTIONS = 110
# Ratios computed for a cap may lie above it by their rounding.
_ROUNDING = 1e-9
# How near to the threshold a jump of slopes is looked for, relative to the losses.
_BESIDE = 1e-12
# Of the width of a smoothing: the step of a difference that stands for a derivative.
_STEP = 1e-4


class DivergencePrice(AmbiguitySet):
    """A price `mean phi(m q_i)`, convex, with `phi(1) = 0` the least, given by its conjugate.

    The conjugate must be finite everywhere: either `phi` grows faster than any straight line, or `largest_ratio` is
    finite.
    """

    slopes: Literal["lipschitz", "continuous", "jump"] = "lipschitz"
    """How the slopes of the conjugate behave. Of one with `lipschitz` slopes (on bounded sets) the composite is
    equivalent; others are smoothed there. Where slopes `jump`, the losses may not determine the weights."""
    largest_ratio: float = math.inf
    """The largest `m q_i` that can be paid for."""

    @abstractmethod
    def conjugate(self, excess: Tensor) -> tuple[Tensor, Tensor]:
        """Return `phi*` and its slopes, elementwise, for numbers of any shape."""

    def bend(self, excess: Tensor) -> Tensor:
        """Return the second derivative of the conjugate; by automatic differentiation unless a price knows better."""
        return derivative(lambda leaf: self.conjugate(leaf)[1], excess)

    def conjugate_expression(self, excess: Any) -> tuple[Any, list[Any]] | None:
        """Return `phi*` as a convex expression of cvxpy of a variable, with conditions; `None`: there is none."""
        return None

    def price_and_slope(self, ratios: Tensor) -> tuple[Tensor, Tensor]:
        """Return a `phi(t)` that is never too small, and `phi'(t)`, for ratios `t = m q_i` of any shape.

        By bisection in `phi(t) = max over s of t s - phi*(s)` unless a price knows better. The function of `s` is
        concave, and what its slope at the lower end of the bracket can still add is charged.
        """
        inside = torch.where(ratios <= self.largest_ratio * (1.0 + _ROUNDING), ratios, torch.nan)
        inside = inside.clamp(max=self.largest_ratio)
        low, high = torch.full_like(ratios, -1.0), torch.ones_like(ratios)
        for _ in range(_DOUBLINGS):
            low = torch.where(self.conjugate(low)[1] > inside, 2.0 * low, low)
            high = torch.where(self.conjugate(high)[1] < inside, 2.0 * high, high)
        for _ in range(_BISECTIONS):
            middle = 0.5 * (low + high)
            below = self.conjugate(middle)[1] <= inside
            low, high = torch.where(below, middle, low), torch.where(below, high, middle)
        values, slopes = self.conjugate(low)
        price = inside * low - values + (inside - slopes).clamp(min=0.0) * (high - low)
        return torch.where(inside.isnan(), torch.inf, price), low

    def smoothed(self, excess: Tensor, width: float) -> tuple[Tensor, Tensor]:
        """Return the conjugate of `phi(t) + (width / 2) t^2`, which is smooth, and its slopes.

        That is `min over v of phi*(v) + (s - v)^2 / (2 width)`; by bisection unless a price knows better. With the best
        `e`, the worst case is lower by at most `width / 2` times the mean of `t^2`.
        """
        # v + width phi*'(v) = s, and slopes are not negative.
        high = excess.clone()
        reach = width * (1.0 + self.conjugate(excess)[1])
        low = excess - reach
        for _ in range(_BISECTIONS):
            middle = 0.5 * (low + high)
            below = middle + width * self.conjugate(middle)[1] <= excess
            low, high = torch.where(below, middle, low), torch.where(below, high, middle)
        slopes = (excess - low) / width
        return self.conjugate(low)[0] + 0.5 * width * slopes.square(), slopes

    def smoothed_bend(self, excess: Tensor, width: float) -> Tensor:
        """Return the second derivative of `smoothed`, by a central difference of the slopes."""
        step = _STEP * width
        ends = [self.smoothed(excess + side * step, width)[1] for side in (1.0, -1.0)]
        return (ends[0] - ends[1]) / (2.0 * step)

    def threshold(self, losses: Tensor) -> float:
        """Return the minimising `e`."""
        # From the largest loss: above it no conjugate overflows.
        return minimise_convex(lambda dual: 1.0 - float(self.conjugate(losses - dual)[1].mean()), float(losses.max()))

    def worst_case(self, losses: Tensor) -> Tensor:
        # An inexact threshold only costs its square.
        threshold = self.threshold(losses)
        return threshold + self.conjugate(losses - threshold)[0].mean()

    def weights(self, losses: Tensor) -> Tensor:
        excess = losses - self.threshold(losses)
        if self.slopes != "jump":
            return normalised(self.conjugate(excess)[1])
        # Losses at the threshold get what is left by those above it.
        beside = _BESIDE * (1.0 + float(losses.abs().max()))
        least, most = (self.conjugate(excess + side * beside)[1] for side in (-1.0, 1.0))
        missing, room = 1.0 - float(least.mean()), float((most - least).mean())
        share = min(max(missing / room, 0.0), 1.0) if room > 0.0 else 0.0
        return normalised(torch.lerp(least, most, share))

    def penalty(self, weights: Tensor) -> float:
        return float(self.price_and_slope(weights * weights.numel())[0].mean())

    def nearest(self, weights: Tensor) -> Tensor:
        if math.isinf(self.largest_ratio):
            return normalised(weights)
        return under_cap(weights, min(1.0, self.largest_ratio / weights.numel()))

    def expression(self, values: Any) -> tuple[Any, list[Any]] | None:
        import cvxpy as cp  # noqa: PLC0415  # slow to load, and only reference solvers need it

        threshold, excess = cp.Variable(), cp.Variable(values.shape)
        found = self.conjugate_expression(excess)
        if found is None:
            return None
        terms, conditions = found
        return threshold + cp.sum(terms) / values.size, [excess >= values - threshold, *conditions]

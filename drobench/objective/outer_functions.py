"""Outer functions `f` of `f(mean g_i(x))`.

A shift `c` (a number) keeps exponentials in range: the inner map is then `g_i = exp((f_i - c) / gamma)` and the outer
function undoes the shift, so that `f(mean g)` does not depend on it. Functions without exponentials ignore the shift.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from drobench.objective.ambiguity_sets import KLPenalty


class OuterFunction(ABC):
    """A smooth function of `p` inner values."""

    @abstractmethod
    def value(self, inner_value: Tensor, shift: Tensor) -> Tensor:
        """Return `f(y)` for `inner_value` of shape `(p,)` as a zero-dimensional tensor."""

    @abstractmethod
    def gradient(self, inner_value: Tensor, shift: Tensor) -> Tensor:
        """Return `f'(y)` of shape `(p,)`."""

    def hessian(self, inner_value: Tensor, shift: Tensor) -> Tensor:
        """Return `f''(y)` of shape `(p, p)`; by automatic differentiation unless a function knows better."""

        def value(inner: Tensor) -> Tensor:
            return self.value(inner, shift)

        found: Tensor = torch.func.jacrev(torch.func.grad(value))(inner_value)
        return found

    def smallest(self, shift: Tensor) -> float | None:
        """Return a lower bound that every inner mean is known to obey, or `None`; estimates are clipped there."""
        return None


class NoOuter(OuterFunction):
    """`f = 0`, for objectives without an inner map (`p = 0`)."""

    def value(self, inner_value: Tensor, shift: Tensor) -> Tensor:
        return inner_value.new_zeros(())

    def gradient(self, inner_value: Tensor, shift: Tensor) -> Tensor:
        return torch.zeros_like(inner_value)

    def hessian(self, inner_value: Tensor, shift: Tensor) -> Tensor:
        return inner_value.new_zeros(inner_value.numel(), inner_value.numel())


@dataclass(frozen=True)
class NegativeSquare(OuterFunction):
    """`f(y) = -(y - centre)^2 / (2 gamma)`, what a variance subtracts from a second moment about `centre`."""

    gamma: float
    centre: float = 0.0

    def value(self, inner_value: Tensor, shift: Tensor) -> Tensor:
        return -(inner_value[0] - self.centre).square() / (2.0 * self.gamma)

    def gradient(self, inner_value: Tensor, shift: Tensor) -> Tensor:
        return (self.centre - inner_value) / self.gamma

    def hessian(self, inner_value: Tensor, shift: Tensor) -> Tensor:
        return inner_value.new_full((1, 1), -1.0 / self.gamma)


@dataclass(frozen=True)
class SmoothedRoot(OuterFunction):
    """`f(y) = sqrt(factor (y + offset))`; the offset keeps the slope at `y = 0` finite."""

    factor: float
    offset: float

    def value(self, inner_value: Tensor, shift: Tensor) -> Tensor:
        return (self.factor * (inner_value[0].clamp(min=0.0) + self.offset)).sqrt()

    def gradient(self, inner_value: Tensor, shift: Tensor) -> Tensor:
        return 0.5 * (self.factor / (inner_value.clamp(min=0.0) + self.offset)).sqrt()

    def hessian(self, inner_value: Tensor, shift: Tensor) -> Tensor:
        above = inner_value.clamp(min=0.0) + self.offset
        return (-0.25 * (self.factor / above).sqrt() / above)[:, None]

    def smallest(self, shift: Tensor) -> float | None:
        return 0.0


@dataclass(frozen=True)
class SmoothedPower(OuterFunction):
    """`f(y) = factor (y + offset)^exponent` for an exponent below 1; the offset keeps the slope at `y = 0` finite."""

    factor: float
    exponent: float
    offset: float

    def value(self, inner_value: Tensor, shift: Tensor) -> Tensor:
        return self.factor * (inner_value[0].clamp(min=0.0) + self.offset).pow(self.exponent)

    def gradient(self, inner_value: Tensor, shift: Tensor) -> Tensor:
        above = inner_value.clamp(min=0.0) + self.offset
        return self.factor * self.exponent * above.pow(self.exponent - 1.0)

    def hessian(self, inner_value: Tensor, shift: Tensor) -> Tensor:
        above = inner_value.clamp(min=0.0) + self.offset
        return (self.factor * self.exponent * (self.exponent - 1.0) * above.pow(self.exponent - 2.0))[:, None]

    def smallest(self, shift: Tensor) -> float | None:
        return 0.0


class Perspective(OuterFunction):
    """`f(y) = y_2 ln(y_1) + c`, the outer function of the KL ball, whose temperature `y_2` is a variable."""

    def value(self, inner_value: Tensor, shift: Tensor) -> Tensor:
        return inner_value[1] * inner_value[0].log() + shift

    def gradient(self, inner_value: Tensor, shift: Tensor) -> Tensor:
        return torch.stack([inner_value[1] / inner_value[0], inner_value[0].log()])

    def hessian(self, inner_value: Tensor, shift: Tensor) -> Tensor:
        power, temperature = inner_value
        mixed = power.reciprocal()
        return torch.stack([-temperature * mixed.square(), mixed, mixed, torch.zeros_like(mixed)]).view(2, 2)


@dataclass(frozen=True)
class LogMeanExp(OuterFunction):
    """`f(y) = gamma ln mean exp(y_g / gamma)`: the KL-robust mean of the inner values, or a smoothed maximum."""

    gamma: float

    def value(self, inner_value: Tensor, shift: Tensor) -> Tensor:
        return KLPenalty(self.gamma).worst_case(inner_value)

    def gradient(self, inner_value: Tensor, shift: Tensor) -> Tensor:
        return KLPenalty(self.gamma).weights(inner_value)

    def hessian(self, inner_value: Tensor, shift: Tensor) -> Tensor:
        weights = KLPenalty(self.gamma).weights(inner_value)
        return (weights.diag() - weights[:, None] * weights) / self.gamma


@dataclass(frozen=True)
class ScaledLog(OuterFunction):
    """`f(y) = gamma ln(y) + c`, the outer function of the KL reduction with shift `c`."""

    gamma: float

    def value(self, inner_value: Tensor, shift: Tensor) -> Tensor:
        return self.gamma * inner_value[0].log() + shift

    def gradient(self, inner_value: Tensor, shift: Tensor) -> Tensor:
        return inner_value.reciprocal().mul_(self.gamma)

    def hessian(self, inner_value: Tensor, shift: Tensor) -> Tensor:
        return (-self.gamma * inner_value.square().reciprocal())[:, None]

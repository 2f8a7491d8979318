"""A composite's objective as a function of its dual variables alone, which are best where its slopes vanish."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from drobench.objective.composite import Total
from drobench.objective.composites.transforms import DualTerms, DualTransform
from drobench.objective.outer_functions import OuterFunction
from drobench.objective.scalar_search import minimise_convex


class Profile(ABC):
    """A convex function of the dual variables, at given losses of all rows."""

    @property
    @abstractmethod
    def slopes(self) -> tuple[float, ...]:
        """The slopes of the regularizer, which is linear in the dual variables."""

    @abstractmethod
    def best_duals(
        self, losses: Tensor, weights: Tensor, near: list[float], parameters: Tensor, total: Total, maximum: Total
    ) -> tuple[list[float], float]:
        """Return the best dual variables, and the objective there without the parameters' part of the regularizer.

        Args:
            losses: `(1, rows)`, those of this process.
            weights: `(rows,)`, which over all processes sum to one.
            near: Where to begin to look.
            parameters: The other variables.
            total: Sums over all processes.
            maximum: Takes the maximum over all processes.
        """


@dataclass(frozen=True, eq=False)
class DualProfile(Profile):
    """The objective as a convex function of its one dual variable, at given losses of all rows."""

    terms: DualTransform
    outer: OuterFunction
    slope: float
    """Of the regularizer, which is linear in the dual variable."""
    lowest: Callable[[Tensor], float] = lambda _parameters: -math.inf
    """The smallest value allowed, for given parameters."""

    @property
    def slopes(self) -> tuple[float, ...]:
        return (self.slope,)

    def best_duals(
        self, losses: Tensor, weights: Tensor, near: list[float], parameters: Tensor, total: Total, maximum: Total
    ) -> tuple[list[float], float]:
        dual, value = self.best(losses, weights, near[0], parameters, total, maximum)
        return [dual], value

    def best(
        self, losses: Tensor, weights: Tensor, near: float, parameters: Tensor, total: Total, maximum: Total
    ) -> tuple[float, float]:
        """Return the best dual variable, and the objective there, as `best_duals` does of several."""
        # At the largest loss no exponential overflows, whatever the temperature.
        top = losses.amax() if losses.numel() else losses.new_tensor(-math.inf)
        shift = maximum(top) if self.terms.uses_shift else losses.new_zeros(())

        def look(dual: float) -> tuple[float, float]:
            found = self.terms.apply(losses, losses.new_full((1, 1), dual), shift)
            return self._pooled(found, weights, shift, total)

        dual = minimise_convex(lambda dual: self.slope + look(dual)[1], near, self.lowest(parameters))
        return dual, self.slope * dual + look(dual)[0]

    def _pooled(self, found: DualTerms, weights: Tensor, shift: Tensor, total: Total) -> tuple[float, float]:
        """Return value and slope, in one exchange."""
        nothing = weights.new_zeros(0)
        inner, loss = found.terms.inner, found.terms.loss
        by_dual, loss_by_dual = found.inner_dual_slope, found.loss_dual_slope
        sums = [
            nothing if inner is None else inner[0] @ weights,
            nothing if by_dual is None else by_dual[0, :, 0] @ weights,
            nothing if loss is None else (loss[0] @ weights)[None],
            nothing if loss_by_dual is None else loss_by_dual[0] @ weights,
        ]
        pooled = torch.split(total(torch.cat(sums)), [part.numel() for part in sums])
        value = self.outer.value(pooled[0], shift) + pooled[2].sum()
        slope = self.outer.gradient(pooled[0], shift).dot(pooled[1]) if pooled[1].numel() else 0.0
        return float(value), float(slope + pooled[3].sum())


@dataclass(frozen=True, eq=False)
class MixtureProfile(Profile):
    """A weighted sum of objectives, each with a dual variable of its own."""

    parts: tuple[DualProfile, ...]
    shares: tuple[float, ...]

    @property
    def slopes(self) -> tuple[float, ...]:
        return tuple(share * part.slope for share, part in zip(self.shares, self.parts, strict=True))

    def best_duals(
        self, losses: Tensor, weights: Tensor, near: list[float], parameters: Tensor, total: Total, maximum: Total
    ) -> tuple[list[float], float]:
        found = [
            part.best(losses, weights, dual, parameters, total, maximum)
            for part, dual in zip(self.parts, near, strict=True)
        ]
        value = sum(share * value for share, (_, value) in zip(self.shares, found, strict=True))
        return [dual for dual, _ in found], value

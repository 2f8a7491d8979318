"""The monotone safeguard: what was measured and went up is undone, and the step size is halved.

A method measures its objective on all rows now and then, and shows what it found. Lower than before: accepted, and a
step size that was halved may grow back. Higher, or no number: the method goes on from the last accepted point, with
half the step size. What decides are values that are the same on every process.
"""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from drobench.objective.oracles.composite import CompositeOracle
from drobench.solver.estimators import Estimates
from drobench.solver.iterates import Trail

# Per accepted measurement, how much the memory of a failed step size fades.
_RELAXATION = 1.1
# What has just failed is not tried again soon, or the point would leave the optimum every few epochs.
_BELOW_FAILED = 0.8


@dataclass(frozen=True)
class Measured:
    """A point, its full objective, and what was estimated on the way there."""

    value: float
    point: Tensor
    estimates: Estimates
    trail: Trail | None = None
    """What the method remembers of its iterates up to here, if it does: an undone epoch leaves no trace there."""


@dataclass(frozen=True)
class Safeguard:
    """How far a step goes, and where to return to."""

    step_size: float
    largest: float
    """Up to where the step size may grow back: below one that failed, and slowly forgotten."""
    ceiling: float
    """Above which it never grows."""
    accepted: Measured | None = None

    def judge(self, found: Measured, *, recovery: float = 1.0, undo: bool = True) -> "tuple[Safeguard, Measured]":
        """Return the safeguard after a measurement, and where to go on from: what was found, or what was accepted.

        Args:
            found: The measurement.
            recovery: Factor by which a step size that was halved grows back; 1: never.
            undo: Whether what went up is undone; else the lowest is only remembered.
        """
        best = self.accepted
        if best is None:
            return (replace(self, accepted=found) if math.isfinite(found.value) else self), found
        # Near the optimum values differ by rounding only, which says nothing about the step size.
        rounding = torch.finfo(found.point.dtype).eps ** 0.75 * (1.0 + abs(best.value))
        if found.value < best.value - rounding:
            # Curvature met on the way may be behind us: a step size halved there must not stay small for ever.
            largest = min(self.ceiling, _RELAXATION * self.largest)
            return Safeguard(min(largest, recovery * self.step_size), largest, self.ceiling, found), found
        if found.value <= best.value + rounding:
            return replace(self, accepted=found), found
        if not undo:
            return self, found
        return replace(self, step_size=0.5 * self.step_size, largest=_BELOW_FAILED * self.step_size), best


def watch(step_size: float, ceiling: float | None = None) -> Safeguard:
    """Return the safeguard of a method that begins with this step size, and may grow it up to `ceiling`."""
    ceiling = step_size if ceiling is None else ceiling
    return Safeguard(step_size, ceiling, ceiling)


def measured(oracle: CompositeOracle, point: Tensor, estimates: Estimates, trail: Trail | None = None) -> Measured:
    """Return `Psi(point)` with the estimates on all rows that it is made of; asks for no data."""
    value = oracle.value(point, estimates.inner_value, estimates.loss_value, estimates.shift)
    return Measured(float(value), point, estimates, trail)

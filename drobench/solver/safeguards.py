"""The monotone safeguard: what was measured and went up is undone, and the step size is halved.

A method measures its objective on all rows now and then, and shows what it found. Lower than before: accepted, and a
step size that was halved may grow back. Higher, or no number: the method goes on from the last accepted point, with
half the step size, or less where failures follow one another. What decides are values that are the same on every
process.

What a method minimises may be a smoothed stand-in of the problem. Each measurement therefore also has the objective of
the problem itself (`original`), and the point with the lowest of these is what a method may return: never one above its
start, and never one that nobody has measured.
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
# Halvings of the step size after one failure, at most.
_MOST_HALVINGS = 5
# Below this share of what smoothing may change, progress on a smoothed problem says nothing about the problem.
_STALL = 0.1
_MOST_FAILURES = 4


@dataclass(frozen=True)
class Measured:
    """A point, its full objective, and what was estimated on the way there."""

    value: float
    point: Tensor
    estimates: Estimates
    trail: Trail | None = None
    """What the method remembers of its iterates up to here, if it does: an undone epoch leaves no trace there."""
    original: float = math.nan
    """The objective of the problem itself at this point, without any smoothing."""


@dataclass(frozen=True)
class Safeguard:
    """How far a step goes, and where to return to."""

    step_size: float
    largest: float
    """Up to where the step size may grow back: below one that failed, and slowly forgotten."""
    ceiling: float
    """Above which it never grows."""
    accepted: Measured | None = None
    best_point: Tensor | None = None
    """The point with the lowest objective of the problem itself, of all that were measured; at first, the start."""
    best_original: float = math.inf
    failures: int = 0
    """Measurements in a row that were undone."""
    gained: float = math.inf
    """By how much the last accepted measurement was below the one before."""
    smoothing_error: float = 0.0
    """By how much smoothing can change the objective that is measured."""

    def judge(self, found: Measured, *, recovery: float = 1.0, undo: bool = True) -> "tuple[Safeguard, Measured]":
        """Return the safeguard after a measurement, and where to go on from: what was found, or what was accepted.

        Args:
            found: The measurement.
            recovery: Factor by which a step size that was halved grows back; 1: never.
            undo: Whether what went up is undone; else the lowest is only remembered.
        """
        if found.original < self.best_original:
            kept = replace(self, best_point=found.point, best_original=found.original)
            return kept._judged(found, recovery, undo)
        return self._judged(found, recovery, undo)

    def _judged(self, found: Measured, recovery: float, undo: bool) -> "tuple[Safeguard, Measured]":
        best = self.accepted
        if best is None:
            return (replace(self, accepted=found) if math.isfinite(found.value) else self), found
        # Near the optimum values differ by rounding only, which says nothing about the step size.
        rounding = torch.finfo(found.point.dtype).eps ** 0.75 * (1.0 + abs(best.value))
        if found.value < best.value - rounding:
            # Curvature met on the way may be behind us: a step size halved there must not stay small for ever.
            largest = min(self.ceiling, _RELAXATION * self.largest)
            step_size, gained = min(largest, recovery * self.step_size), best.value - found.value
            moved = replace(self, step_size=step_size, largest=largest, accepted=found, failures=0, gained=gained)
            return moved, found
        if found.value <= best.value + rounding:
            return replace(self, accepted=found, failures=0, gained=abs(best.value - found.value)), found
        if not undo:
            return self, found
        # A first failure may be chance. Where one follows another, or the rise is beyond all that was ever gained,
        # the step size is wrong by more than a factor of two.
        failures = self.failures + 1
        badly = not found.value - best.value < 1.0 + abs(best.value)
        cut = 0.5 ** min(failures + 2 * badly, _MOST_HALVINGS)
        step_size, largest = cut * self.step_size, _BELOW_FAILED * self.step_size
        return replace(self, step_size=step_size, largest=largest, failures=failures), best

    @property
    def judged(self) -> bool:
        """Whether there was a second measurement, one that says something about the step size."""
        return self.failures > 0 or self.gained < math.inf

    @property
    def stalled(self) -> bool:
        """Whether a smoothed problem is solved as well as it deserves, or steps keep failing."""
        return self.gained < _STALL * self.smoothing_error or self.failures >= _MOST_FAILURES


def watch(
    step_size: float, ceiling: float | None = None, start: Tensor | None = None, smoothing_error: float = 0.0
) -> Safeguard:
    """Return the safeguard of a method that begins with this step size, and may grow it up to `ceiling`.

    `start` is what the method returns as long as nothing was measured, `smoothing_error` that of the oracle.
    """
    ceiling = step_size if ceiling is None else ceiling
    return Safeguard(step_size, ceiling, ceiling, best_point=start, smoothing_error=smoothing_error)


def measured(
    oracle: CompositeOracle,
    point: Tensor,
    estimates: Estimates,
    trail: Trail | None = None,
    original: float | None = None,
) -> Measured:
    """Return `Psi(point)` with the estimates on all rows that it is made of; asks for no data.

    `original` is the objective of the problem itself, where that is known already: see `settle`.
    """
    means = estimates.inner_value, estimates.loss_value, estimates.shift
    if original is None:
        original = float(oracle.original(point, *means))
    return Measured(float(oracle.value(point, *means)), point, estimates, trail, original)

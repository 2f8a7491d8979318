"""A line search that is taken one trial at a time, so that a step of a method is one pass over the data.

`Line` holds the search that is under way; `tried` takes what was measured at its length, and returns whether that is
accepted, or the search with its next length.

Reference: Nocedal, Wright, "Numerical Optimization" (2006), algorithms 3.1, 3.5 and 3.6. Deviation: a search for
strong Wolfe conditions gives up on the slope after ten trials.
"""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch

from drobench.solver import falls_enough, shorter

# Of a bracket, how near to its ends a trial may be; and by how much a search without a bracket grows.
_INSIDE, _GROWTH = 0.1, 4.0
# Trials of a search for strong Wolfe conditions, after which Armijo's rule alone is good enough.
_WOLFE_TRIALS = 10


class SearchRule(NamedTuple):
    """When a trial is good enough."""

    sufficient: float
    """The constant of Armijo's rule."""
    flat: float | None
    """The constant of the strong Wolfe conditions; `None`: Armijo's rule alone."""


@dataclass(frozen=True)
class End:
    """What was measured at a length."""

    length: float
    value: float
    slope: float


@dataclass(frozen=True)
class Line:
    """A search under way."""

    origin: End
    length: float
    """Of the next trial."""
    low: End
    """The lowest of the trials that fell enough, at first the origin."""
    high: End | None = None
    """The other end of an interval that holds an acceptable length, where one is known."""
    trials: int = 0

    def tried(self, value: float, slope: float, dtype: torch.dtype, rule: SearchRule) -> "Line | None":
        """Return the search after a trial; `None`: it is accepted.

        Args:
            value: The objective there.
            slope: Its derivative along the line there; used only where the rule asks for one.
            dtype: That of the point, for what rounding does to values.
            rule: What is good enough.
        """
        flat = rule.flat if self.trials < _WOLFE_TRIALS else None
        falls = falls_enough(self.origin.value, value, self.length, self.origin.slope, dtype, rule.sufficient)
        if falls and (flat is None or abs(slope) <= -flat * self.origin.slope):
            return None
        counted = replace(self, trials=self.trials + 1)
        if flat is None or not math.isfinite(value):
            return replace(counted, length=shorter(self.origin.value, value, self.length, self.origin.slope))
        here = End(self.length, value, slope)
        if not falls or value >= self.low.value:
            return _between(replace(counted, high=here))
        towards = math.inf if self.high is None else self.high.length
        if slope * (towards - self.low.length) >= 0.0:
            return _between(replace(counted, low=here, high=self.low))
        if self.high is None:
            longer = _lowest_of_cubic(self.low, here)
            length = _GROWTH * here.length if longer is None or longer <= here.length else longer
            return replace(counted, low=here, length=min(length, _GROWTH * here.length))
        return _between(replace(counted, low=here))


def search(value: float, slope: float) -> Line:
    """Return the search before its first trial, of length 1."""
    origin = End(0.0, value, slope)
    return Line(origin, 1.0, origin)


def _between(line: Line) -> Line:
    """Return the search with a length inside its interval."""
    low, high = line.low, line.high
    assert high is not None
    width = high.length - low.length
    lowest = _lowest_of_cubic(low, high)
    share = 0.5 if lowest is None else (lowest - low.length) / width
    return replace(line, length=low.length + width * min(max(share, _INSIDE), 1.0 - _INSIDE))


def _lowest_of_cubic(one: End, other: End) -> float | None:
    """Return where the cubic through both values and slopes has its minimum, if it has one."""
    width = other.length - one.length
    mean = one.slope + other.slope - 3.0 * (one.value - other.value) / (one.length - other.length)
    discriminant = mean * mean - one.slope * other.slope
    if not discriminant >= 0.0:
        return None
    root = math.copysign(math.sqrt(discriminant), width)
    divisor = other.slope - one.slope + 2.0 * root
    return None if divisor == 0.0 else other.length - width * (other.slope + root - mean) / divisor

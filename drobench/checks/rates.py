"""How fast a gap falls: log gap against log passes, or against passes, with an interval over seeds.

A pass is as many oracle calls as there are rows. So an exponent of the passes is one of the calls, and what is straight
against passes is straight against calls.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

Curve = Sequence[tuple[float, float]]
"""Pairs of passes and relative gap."""
Scale = Callable[[float], float]

# Below this a gap is rounding.
FLOOR = 1e-9
_FEWEST_POINTS = 6
_CONFIDENCE = 0.9


class Measured(NamedTuple):
    """A measured slope and its interval over the seeds."""

    slope: float
    low: float
    high: float
    seeds: int

    def __str__(self) -> str:
        return f"{self.slope:.3g} (between {self.low:.3g} and {self.high:.3g}, {self.seeds} seeds)"


def power(curves: Sequence[Curve]) -> Measured | None:
    """Return the exponent `a` of `gap ~ passes^-a`; `None` where the gap is gone before there is a slope."""
    kept = [_above_floor(curve) for curve in curves]
    if any(len(curve) < _FEWEST_POINTS for curve in kept):
        return None
    return _interval([_slope(curve, math.log) for curve in kept])


def straightness(curves: Sequence[Curve]) -> Measured | None:
    """Return how much better `log gap ~ passes` fits than `log gap ~ log passes`, as the log of the squared residuals.

    Above zero at a linear rate, where the first is a straight line; below zero at any power of the passes.
    """
    kept = [_above_floor(curve) for curve in curves]
    if any(len(curve) < _FEWEST_POINTS for curve in kept):
        return None
    return _interval([math.log(_residual(curve, math.log) / _residual(curve, float)) for curve in kept])


def _above_floor(curve: Curve) -> Curve:
    """Return the curve up to where the gap first is rounding only."""
    kept = []
    for passes, gap in curve:
        if not gap > FLOOR:
            break
        kept.append((passes, gap))
    return kept


def _slope(curve: Curve, scale: Scale) -> float:
    return -float(_fit(curve, scale)[0])


def _residual(curve: Curve, scale: Scale) -> float:
    """Return the mean squared residual of the straight line; never zero, of which there is no logarithm."""
    slope, level = _fit(curve, scale)
    misses = [math.log(gap) - slope * scale(passes) - level for passes, gap in curve]
    return float(np.mean(np.square(misses))) + 1e-12


def _fit(curve: Curve, scale: Scale) -> tuple[float, float]:
    slope, level = np.polyfit([scale(passes) for passes, _ in curve], [math.log(gap) for _, gap in curve], 1)
    return float(slope), float(level)


def _interval(slopes: Sequence[float]) -> Measured:
    mean = float(np.mean(slopes))
    spread = float(np.std(slopes, ddof=1)) / math.sqrt(len(slopes)) if len(slopes) > 1 else 0.0
    width = float(stats.t.ppf(0.5 + 0.5 * _CONFIDENCE, max(len(slopes) - 1, 1))) * spread
    return Measured(mean, mean - width, mean + width, len(slopes))

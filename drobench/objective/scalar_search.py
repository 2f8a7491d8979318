"""The minimum of a convex function of one variable, found from its slopes alone.

Each look at a slope may be a sum over all rows of all processes, so that looks are few, and every decision is taken
from numbers that are the same everywhere.
"""

import math
from collections.abc import Callable

# Doublings of the distance from the start before a function counts as one without a minimum.
_MOST_EXPANSIONS = 60
_MOST_LOOKS = 100
_FIRST_STEP = 1e-2
_ACCURACY = 1e-14
# A slope that is nothing but rounding. Along a flat stretch its sign would be chance, and another one for every number
# of processes.
_FLAT = 1e-13
# What an overflow stands for: a slope that is steep, and of a known sign.
_STEEPEST = 1e100


def minimise_convex(slope: Callable[[float], float], start: float, lowest: float = -math.inf) -> float:
    """Return where `slope`, which never falls, changes its sign; at least `lowest`, and `start` where it nowhere does.

    Secants through the ends of a bracket, as in the Illinois rule, and halves where those are slow, as on a staircase.
    """
    bounded = _without_overflow(slope)
    here = max(start, lowest)
    rise = bounded(here)
    if abs(rise) <= _FLAT or not math.isfinite(rise):
        return here
    towards = -1.0 if rise > 0.0 else 1.0
    distance, there, rise_there = _FIRST_STEP * (1.0 + abs(here)), here, rise
    for _ in range(_MOST_EXPANSIONS):
        here, rise = there, rise_there
        there = max(here + towards * distance, lowest)
        rise_there = bounded(there)
        distance *= 4.0
        if abs(rise_there) <= _FLAT:
            return there
        if rise_there * rise < 0.0:
            return _between(bounded, (here, rise), (there, rise_there))
        if there == lowest:
            return lowest
        if not math.isfinite(rise_there):
            break
    return max(start, lowest)


def _without_overflow(slope: Callable[[float], float]) -> Callable[[float], float]:
    def bounded(at: float) -> float:
        found = slope(at)
        return math.copysign(_STEEPEST, found) if math.isinf(found) else found

    return bounded


def _between(slope: Callable[[float], float], one: tuple[float, float], other: tuple[float, float]) -> float:
    (low, below), (high, above) = sorted([one, other])
    kept = 0
    for look in range(_MOST_LOOKS):
        if high - low <= _ACCURACY * (1.0 + abs(low)):
            break
        # Every third look halves: a staircase has no use for secants.
        middle = 0.5 * (low + high) if look % 3 == 2 else low - below * (high - low) / (above - below)
        if not low < middle < high:
            middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        found = slope(middle)
        if abs(found) <= _FLAT or not math.isfinite(found):
            return middle
        if found < 0.0:
            low, below = middle, found
            above = 0.5 * above if kept == -1 else above
            kept = -1
        else:
            high, above = middle, found
            below = 0.5 * below if kept == 1 else below
            kept = 1
    return low if -below < above else high

"""How far to go along a direction: trials on the exact objective, each of them a pass over all rows.

A trial of length `t` is good enough (Armijo's rule) where

    Psi(x_t) <= Psi(x) + sufficient * t * slope,      slope < 0 the change per length that the model predicts

`slope` is `<gradient, move>` for a smooth objective and `<gradient, move> + r(x + move) - r(x)` for a proximal step.
What decides are values that are the same on every process.
"""

import math
from collections.abc import Callable

import torch

from drobench.solver.safeguards import Measured

SUFFICIENT = 1e-4
# A trial that failed says little about lengths far below it, and one just below it would fail as well.
_SHORTEST, _LONGEST = 0.1, 0.5
_MOST_TRIALS = 40


def rounding(value: float, dtype: torch.dtype) -> float:
    """Return by how much an objective may differ from itself because of rounding alone."""
    return 2.0 * float(torch.finfo(dtype).eps) * abs(value)


def falls_enough(
    before: float, after: float, length: float, slope: float, dtype: torch.dtype, sufficient: float = SUFFICIENT
) -> bool:
    """Whether Armijo's rule holds, up to rounding; never for what is no finite number."""
    return math.isfinite(after) and after <= before + sufficient * length * slope + rounding(before, dtype)


def shorter(before: float, after: float, length: float, slope: float) -> float:
    """Return the length to try after one that failed.

    It is where the parabola through both values and the slope at zero is lowest, within a tenth and a half of what
    failed; a tenth where the objective was no finite number.
    """
    if not math.isfinite(after):
        return _SHORTEST * length
    bend = after - before - length * slope
    lowest = -0.5 * slope * length * length / bend if bend > 0.0 else _LONGEST * length
    return min(max(lowest, _SHORTEST * length), _LONGEST * length)


def backtrack(
    measure: Callable[[float], Measured],
    before: Measured,
    slope: float,
    *,
    length: float = 1.0,
    sufficient: float = SUFFICIENT,
    most_trials: int = _MOST_TRIALS,
) -> tuple[float, Measured]:
    """Try `length` and ever shorter ones until Armijo's rule holds.

    Args:
        measure: Measures the objective at a length.
        before: What was measured at length zero.
        slope: The predicted change per length, below zero.
        length: The first length to try.
        sufficient: Share of the predicted decrease that is asked for.
        most_trials: After how many trials to give up.

    Returns:
        The length and what was measured there; `0.0` and `before` where no trial went down enough.
    """
    dtype = before.point.dtype
    for _ in range(most_trials):
        found = measure(length)
        if falls_enough(before.value, found.value, length, slope, dtype, sufficient):
            return length, found
        length = shorter(before.value, found.value, length, slope)
    return 0.0, before

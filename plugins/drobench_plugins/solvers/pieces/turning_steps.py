"""Whether a step size is too large, seen from the steps alone: do they turn back on each other?

Along an eigenvalue l of the Hessian a step of gradient descent is followed by (1 - eta l) of itself, and the noise in a
step by -eta l of itself. So where the steps of a pass turn back on the whole, eta is too large for the noise or for the
curvature. This takes no oracle calls.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Turns:
    """How much the steps of the present pass go back and forth."""

    last: Tensor
    """The last step; zero before the first."""
    agreement: float
    """Sum of the products of successive steps."""
    travelled: float
    """Sum of their squared lengths."""
    calls: int
    anchor: Tensor
    """Where to go back to: the end of the last good pass."""
    height: float
    """The objective there, as far as it is known; infinite before it is."""

    def turn_back(self, limit: float | None) -> bool:
        """Whether the steps turn back by more than `limit`, as the cosine of the angle; `None`: never."""
        return limit is not None and self.agreement < -limit * self.travelled


def no_turns(anchor: Tensor, height: float = math.inf) -> Turns:
    """Return the record before the first step from `anchor`."""
    return Turns(torch.zeros_like(anchor), 0.0, 0.0, 0, anchor, height)


def follow(turns: Turns, step: Tensor, calls: int) -> Turns:
    """Return the record with one more step, which took so many oracle calls."""
    agreement = turns.agreement + float(step.dot(turns.last))
    travelled = turns.travelled + float(step.dot(step))
    return Turns(step, agreement, travelled, turns.calls + calls, turns.anchor, turns.height)


def next_pass(turns: Turns, anchor: Tensor, height: float) -> Turns:
    """Return the record at the beginning of a pass: of the one before, only the last step is remembered."""
    return Turns(turns.last, 0.0, 0.0, 0, anchor, height)

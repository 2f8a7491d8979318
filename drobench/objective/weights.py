"""Weights of samples made fit for an adversary: on the simplex, under a cap, inside a set around the uniform ones."""

from collections.abc import Callable

import torch
from torch import Tensor

_BISECTIONS = 100


def normalised(weights: Tensor) -> Tensor:
    """Return the weights without negative ones, with sum one."""
    positive = weights.clamp(min=0.0)
    return positive / positive.sum()


def under_cap(weights: Tensor, cap: float) -> Tensor:
    """Return the nearest weights on the simplex that are at most `cap`, by bisection on the shift."""
    low, high = -1.0 - cap, 1.0 + cap
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        total = float((weights + middle).clamp(0.0, cap).sum())
        low, high = (middle, high) if total < 1.0 else (low, middle)
    return (weights + low).clamp(0.0, cap)


def pulled_inside(weights: Tensor, allowed: Callable[[Tensor], bool]) -> Tensor:
    """Return the weights moved towards the uniform ones, just as far as a convex set around those asks for."""
    inside = normalised(weights)
    if allowed(inside):
        return inside
    uniform = torch.full_like(inside, 1.0 / inside.numel())
    low, high = 0.0, 1.0
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if allowed(torch.lerp(inside, uniform, middle)) else (middle, high)
    return torch.lerp(inside, uniform, high)

"""What a method remembers of its iterates besides the last one: their mean, or one of them at random."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class Trail:
    """A uniformly random iterate and the mean of all, each only where it is asked for."""

    visited: int
    """Iterates so far; not counted where nothing is asked for."""
    chosen: Tensor
    """A uniformly random iterate (reservoir sampling); the first point where none is asked for."""
    mean: Tensor | None

    def extend(self, point: Tensor, generator: np.random.Generator, *, choose: bool) -> "Trail":
        """Return the trail with one more iterate; `choose`: as a candidate for the random one."""
        if self.mean is None and not choose:
            return self
        visited = self.visited + 1
        mean = None if self.mean is None else extended_mean(self.mean, point, visited)
        taken = choose and generator.random() * visited < 1.0
        return Trail(visited, point if taken else self.chosen, mean)


def no_trail(point: Tensor, *, average: bool) -> Trail:
    """Return the trail before the first iterate; `average`: one that keeps the mean."""
    return Trail(0, point, torch.zeros_like(point) if average else None)


def extended_mean(mean: Tensor, point: Tensor, count: int) -> Tensor:
    """Return the mean of `count` iterates from that of all but the last."""
    return mean + (point - mean) / count

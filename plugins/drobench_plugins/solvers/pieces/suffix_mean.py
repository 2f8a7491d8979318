"""The mean of the last iterates: of the last half at least, and of the last three quarters at most.

Methods that average do well to forget how they began, but nobody tells them how long they will run. Two means are kept:
when the number of iterates reaches a power of two, the older one is dropped, the younger one takes its place and a new
one begins.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class SuffixMean:
    """Weighted means of the iterates since the last power of two, and since the one before it."""

    iterates: int
    older: Tensor
    older_weight: float
    younger: Tensor
    younger_weight: float

    @property
    def value(self) -> Tensor | None:
        """The mean; `None` before the first iterate."""
        return self.older if self.iterates else None


def no_mean(like: Tensor) -> SuffixMean:
    """Return the mean before the first iterate."""
    return SuffixMean(0, torch.zeros_like(like), 0.0, torch.zeros_like(like), 0.0)


def extend(mean: SuffixMean, point: Tensor, weight: float = 1.0) -> SuffixMean:
    """Return the mean with one more iterate."""
    count = mean.iterates + 1
    older_weight, younger_weight = mean.older_weight + weight, mean.younger_weight + weight
    older = mean.older + (point - mean.older) * (weight / older_weight)
    younger = mean.younger + (point - mean.younger) * (weight / younger_weight)
    if count & (count - 1):
        return SuffixMean(count, older, older_weight, younger, younger_weight)
    return SuffixMean(count, younger, younger_weight, torch.zeros_like(point), 0.0)

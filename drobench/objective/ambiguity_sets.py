"""Ambiguity sets: the adversary's choices, with exact worst-case values and weights for given losses."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor


class AmbiguitySet(ABC):
    """An adversary that reweights samples."""

    keeps_convexity: bool = True
    """Whether the worst case of convex losses is convex."""

    @abstractmethod
    def worst_case(self, losses: Tensor) -> Tensor:
        """Return the adversary's optimal value for losses `(m,)`."""

    @abstractmethod
    def weights(self, losses: Tensor) -> Tensor:
        """Return the adversary's optimal weights `(m,)`."""


@dataclass(frozen=True)
class KLPenalty(AmbiguitySet):
    """`max over p in the simplex of sum p_i f_i - gamma KL(p || 1/m) = gamma ln mean exp(f_i / gamma)`."""

    gamma: float

    def worst_case(self, losses: Tensor) -> Tensor:
        return self.gamma * (torch.logsumexp(losses / self.gamma, dim=0) - math.log(losses.numel()))

    def weights(self, losses: Tensor) -> Tensor:
        return torch.softmax(losses / self.gamma, dim=0)

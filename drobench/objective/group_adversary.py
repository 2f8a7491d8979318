"""An adversary who reweights groups of samples, and within a group treats all samples alike.

With groups of sizes `m_g` and group means `L_g = mean of f_i over group g`, any adversary over `G` numbers becomes one
over `m` samples: its worst case is that of `(L_1, ..., L_G)`, and its weight on sample `i` is `q_g(i) / m_g(i)`.
"""

import math

import torch
from torch import Tensor

from drobench.errors import DrobenchError
from drobench.objective.ambiguity_sets import AmbiguitySet, CVaR

# Weights that are equal within a group differ by their rounding.
_ROUNDING = 1e-9


class GroupAdversary(AmbiguitySet):
    """`over.worst_case` of the group means."""

    def __init__(self, groups: Tensor, over: AmbiguitySet) -> None:
        """Take the group of each sample, `(m,)`, numbered `0..G-1`, and the adversary over the `G` group means."""
        if groups.dim() != 1 or groups.numel() == 0 or groups.dtype != torch.int64 or int(groups.min()) < 0:
            raise DrobenchError(
                "GroupAdversary.groups must hold one group number of at least 0 for each of one or more samples, in "
                f"int64; found shape {tuple(groups.shape)} and type {groups.dtype}. Number the groups 0, 1, ..."
            )
        self.groups = groups
        self.over = over
        self.sizes = torch.bincount(groups)
        self.count = self.sizes.numel()
        self.keeps_convexity = over.keeps_convexity
        empty = torch.nonzero(self.sizes == 0)[:, 0].tolist()
        if empty:
            named = ", ".join(str(number) for number in empty[:10]) + (", ..." if len(empty) > 10 else "")
            raise DrobenchError(
                f"Every group needs at least one sample, since its mean loss counts; found none in group {named} of "
                f"0..{self.count - 1}. Leave the empty groups out of the numbering, or use more rows."
            )

    @property
    def worst_only(self) -> bool:
        """Whether the worst case is simply the largest of the group means."""
        return isinstance(self.over, CVaR) and self.over.level * self.count <= 1.0 + _ROUNDING

    def means(self, losses: Tensor) -> Tensor:
        """Return the group means `(G,)` of losses `(m,)`."""
        return (self._sums(losses) / self.sizes).to(losses.dtype)

    def spread(self, weights: Tensor) -> Tensor:
        """Return the sample weights `(m,)` that belong to group weights `(G,)`."""
        return (weights / self.sizes.to(weights.dtype))[self.groups]

    def worst_case(self, losses: Tensor) -> Tensor:
        return self.over.worst_case(self.means(losses))

    def weights(self, losses: Tensor) -> Tensor:
        return self.spread(self.over.weights(self.means(losses)))

    def penalty(self, weights: Tensor) -> float:
        """Return what `over` pays for the group weights; infinity for weights that are unequal within a group."""
        by_group = self._sums(weights)
        even = self.spread(by_group)
        rounding = max(_ROUNDING, 8.0 * torch.finfo(weights.dtype).eps)
        if bool(((weights - even).abs() > rounding * even.abs()).any()):
            return math.inf
        return self.over.penalty(by_group)

    def nearest(self, weights: Tensor) -> Tensor:
        """Return weights that are equal within each group, with group weights that `over` allows."""
        return self.spread(self.over.nearest(self._sums(weights)).to(weights.dtype))

    def minorant(self) -> AmbiguitySet:
        return GroupAdversary(self.groups, self.over.minorant())

    def _sums(self, values: Tensor) -> Tensor:
        # In double precision: added up one by one, many values in single precision would lose digits.
        return values.new_zeros(self.count, dtype=torch.float64).index_add(0, self.groups, values.double())

"""Constraints on rates of groups: the error rate of every group at most that of everybody plus a slack.

With margins `t_i`, a group is a row of weights `a`, its members sharing the weight 1, and everybody is a row `b`:

    exact      a . [t < 0]  -  b . [t < 0]  -  epsilon,    a tie counts one half
    bce        a . l(t)     -  b . l(t)     -  epsilon,    l the logistic loss: smooth, a difference of convex functions
    hinge      a . (1 - t)_+  +  b . ((1 + t)_+ - 1)  -  epsilon,    convex and never below the exact violation

All groups together are one matrix product. With `merged`, `a - b` is formed first and its positive and negative parts
take the places of `a` and `b`, which is a tighter hinge.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor

from drobench.errors import DrobenchError
from drobench.objective.forms import Constraints
from drobench.objective.losses import LogisticLoss, Losses, Pullback, PullbackDifference
from drobench.objective.sampling import Index

_LOGISTIC = LogisticLoss()
# Above 64 MB in double precision the weights of the drawn groups are worked out for each draw.
_LARGEST_KEPT = 8_000_000
_CONSTRAINTS_AT_ONCE = 256


class RateSurrogate(ABC):
    """Differentiable stand-ins for the 0-1 loss of a margin, each with its derivative."""

    convex: bool
    """Whether `upper - lower` is convex in the margins."""

    @abstractmethod
    def upper(self, margins: Tensor) -> tuple[Tensor, Tensor]:
        """Return what stands for the rate that is to be small."""

    @abstractmethod
    def lower(self, margins: Tensor) -> tuple[Tensor, Tensor]:
        """Return what stands for the rate it is compared with."""

    def both(self, margins: Tensor) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
        """Return both, in this order."""
        return self.upper(margins), self.lower(margins)

    def bends(self, margins: Tensor) -> tuple[Tensor, Tensor]:
        """Return the second derivatives of both; by default those of straight pieces."""
        return torch.zeros_like(margins), torch.zeros_like(margins)


class BceSurrogate(RateSurrogate):
    """The logistic loss on both sides."""

    convex = False

    def upper(self, margins: Tensor) -> tuple[Tensor, Tensor]:
        return _LOGISTIC.of_margin(margins)

    def lower(self, margins: Tensor) -> tuple[Tensor, Tensor]:
        return _LOGISTIC.of_margin(margins)

    def both(self, margins: Tensor) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
        same = _LOGISTIC.of_margin(margins)
        return same, same

    def bends(self, margins: Tensor) -> tuple[Tensor, Tensor]:
        bend = _LOGISTIC.bend(margins)
        return bend, bend


class HingeSurrogate(RateSurrogate):
    """`(1 - t)_+` from above and `1 - (1 + t)_+` from below."""

    convex = True

    def upper(self, margins: Tensor) -> tuple[Tensor, Tensor]:
        values = (1.0 - margins).clamp(min=0.0)
        return values, -(values > 0).to(margins.dtype)

    def lower(self, margins: Tensor) -> tuple[Tensor, Tensor]:
        values = (1.0 + margins).clamp(min=0.0)
        return 1.0 - values, -(values > 0).to(margins.dtype)


SURROGATES: dict[str, RateSurrogate] = {"bce": BceSurrogate(), "hinge": HingeSurrogate()}


def zero_one(margins: Tensor) -> Tensor:
    """Return 1 for a negative margin, 1/2 for a tie, and 1 for what is not finite."""
    right = (margins > 0) & (margins < torch.inf)
    return torch.where(right, 0.0, torch.where(margins == 0, 0.5, 1.0)).to(margins.dtype)


class RateConstraints(Constraints):
    """`rate of group k <= rate of everybody + epsilon` for many groups over the same rows.

    Args:
        margins: The margins of all rows as functions of the parameters (losses of type `Margin`).
        members: `(groups, rows)`, 1 where a row belongs to the group; groups that are equal need be given only once.
        everybody: `(rows,)`, 1 for the rows that the rate is about.
        epsilon: The slack.
        surrogate: `bce` or `hinge`.
        features: `(count, q)`, what a multiplier model sees of each constraint.
        which: `(count,)`, the group each constraint is about; by default one constraint per group.
        merged: See the module's text.
    """

    def __init__(
        self,
        margins: Losses,
        members: Tensor,
        everybody: Tensor,
        epsilon: float,
        surrogate: str,
        features: Tensor,
        which: Tensor | None = None,
        merged: bool = False,
    ) -> None:
        dtype = features.dtype
        # Small integers: many resampled groups fit in memory, and only the drawn ones become numbers.
        self.members = (members * everybody).to(torch.uint8)
        sizes = self.members.sum(dim=1, dtype=torch.int64)
        if bool((sizes == 0).any()):
            empty = torch.nonzero(sizes == 0)[:, 0].tolist()
            raise DrobenchError(
                f"Every group needs at least one row that its rate is about; found none in {len(empty)} of "
                f"{len(sizes)} groups, the first being number {empty[0]}. Leave such groups out."
            )
        self.shares = 1.0 / sizes.to(dtype)
        self.everybody = everybody.to(dtype) / everybody.sum()
        self.margins = margins
        self.epsilon = epsilon
        self.surrogate = SURROGATES[surrogate]
        self.convex = self.surrogate.convex and margins.convex
        self.features = features
        self.which = which
        self.weights: Tensor | None = None
        self.merged = merged
        self.count = features.shape[0]
        self.rows = members.shape[1]
        self.constant = -epsilon
        self.dimension = margins.dimension

    def surrogates(self, points: Tensor, index: Index) -> tuple[Tensor, Pullback]:
        values, pullback = self.partial_surrogates(points, index, slice(None))
        return values + self.constant, pullback

    def surrogates_difference(self, points: Tensor, index: Index) -> tuple[Tensor, PullbackDifference]:
        margins, pull_margins = self.margins.linearize_difference(points, slice(None))
        values, by_margin = self._values(margins, index, slice(None))
        return values + self.constant, lambda cotangents, factor: pull_margins(by_margin(cotangents), factor)

    def partial_surrogates(self, points: Tensor, index: Index, part: slice) -> tuple[Tensor, Pullback]:
        margins, pull_margins = self.margins.linearize(points, part)
        values, by_margin = self._values(margins, index, part)
        return values, lambda cotangents: pull_margins(by_margin(cotangents))

    def _values(self, margins: Tensor, index: Index, part: slice) -> tuple[Tensor, Pullback]:
        """Return what the margins of some rows add to the surrogates, and how cotangents get back to the margins."""
        (upper, upper_slope), (lower, lower_slope) = self.surrogate.both(margins)
        groups, spread = self._groups(index)
        weights, rest = (of_rows[:, part] for of_rows in self._weights(groups))
        values = upper @ weights.T - lower @ rest.T

        def by_margin(cotangents: Tensor) -> Tensor:
            gathered = spread(cotangents)
            less = gathered @ rest if self.merged else gathered.sum(-1, keepdim=True) * rest
            if lower_slope is upper_slope:
                return (gathered @ weights - less) * upper_slope[:, None]
            return (gathered @ weights) * upper_slope[:, None] - less * lower_slope[:, None]

        return self._select(values, index), by_margin

    @property
    def has_hessian(self) -> bool:  # type: ignore[override]  # read-only here
        return self.margins.has_hessian

    def hessian(self, point: Tensor, index: Index, outer: Tensor, curve: Tensor) -> Tensor:
        by_rows, by_slopes = self._row_bends(point, index, curve)
        total = self.margins.hessian(point, slice(None), by_rows, by_slopes)
        numbers = torch.arange(self.count, device=point.device)[index]
        # A gradient for each constraint; some at a time, since each passes through a weight for every row.
        for some, weights in zip(
            *(torch.split(given, _CONSTRAINTS_AT_ONCE) for given in (numbers, outer)), strict=True
        ):
            _, pullback = self.surrogates(point[None], some)
            slopes = pullback(torch.eye(some.numel(), dtype=point.dtype, device=point.device)[None])[0]
            total.addmm_(slopes.T, slopes * weights[:, None])
        return total

    def hessian_product(self, point: Tensor, index: Index, outer: Tensor, curve: Tensor, vector: Tensor) -> Tensor:
        by_rows, by_slopes = self._row_bends(point, index, curve)
        curved = self.margins.hessian_product(point, slice(None), by_rows, by_slopes, vector)
        with torch.enable_grad():
            # The push of a vector as the derivative of a pullback, which is linear in its cotangents.
            cotangents = torch.zeros_like(outer).requires_grad_(True)
            _, pullback = self.surrogates(point[None], index)
            (pushed,) = torch.autograd.grad(pullback(cotangents[None, None])[0, 0].dot(vector), cotangents)
        return curved + pullback((outer * pushed)[None, None])[0, 0]

    def _row_bends(self, point: Tensor, index: Index, curve: Tensor) -> tuple[Tensor, Tensor]:
        """Return what the weighted sum of the constraints has as second and first derivatives by each margin."""
        margins = self.margins.linearize(point[None], slice(None))[0]
        (_, upper_slope), (_, lower_slope) = self.surrogate.both(margins)
        upper_bend, lower_bend = self.surrogate.bends(margins)
        groups, spread = self._groups(index)
        gathered = spread(curve[None, None])[0, 0]
        weights, rest = self._weights(groups)
        above = gathered @ weights
        below = gathered @ rest if self.merged else gathered.sum() * rest[0]
        return above * upper_bend[0] - below * lower_bend[0], above * upper_slope[0] - below * lower_slope[0]

    def violations(self, points: Tensor, index: Index) -> Tensor:
        margins, _ = self.margins.linearize(points, slice(None))
        errors = zero_one(margins)
        groups, _ = self._groups(index)
        weights = self._shared(groups)
        return self._select(errors @ weights.T - (errors @ self.everybody)[:, None] - self.epsilon, index)

    def _weights(self, groups: Index) -> tuple[Tensor, Tensor]:
        """Return the weights of the groups, `(c, rows)`, and of everybody, `(1, rows)` or, merged, `(c, rows)`."""
        weights = self._shared(groups)
        if not self.merged:
            return weights, self.everybody[None]
        difference = weights - self.everybody
        return difference.clamp(min=0.0), (-difference).clamp(min=0.0)

    def _shared(self, groups: Index) -> Tensor:
        """Return a row of weights for each group, its members sharing the weight 1."""
        if self.weights is None and self.members.numel() <= _LARGEST_KEPT:
            self.weights = self.members.to(self.shares.dtype) * self.shares[:, None]
        if self.weights is None:
            return self.members[groups].to(self.shares.dtype) * self.shares[groups][:, None]
        return self.weights[groups] if isinstance(groups, slice) else self.weights.index_select(0, groups)

    def _groups(self, index: Index) -> tuple[Index, Callable[[Tensor], Tensor]]:
        """Return the groups to evaluate for the constraints, and how cotangents of the latter add up on the former."""
        if self.which is None:
            return index, lambda cotangents: cotangents
        if not isinstance(index, slice):
            return self.which[index], lambda cotangents: cotangents
        which = self.which[index]

        def add_up(cotangents: Tensor) -> Tensor:
            totals = cotangents.new_zeros(*cotangents.shape[:2], self.members.shape[0])
            return totals.index_add_(2, which, cotangents)

        return slice(None), add_up

    def _select(self, values: Tensor, index: Index) -> Tensor:
        """Return the values by constraint from those by group."""
        return values[:, self.which[index]] if self.which is not None and isinstance(index, slice) else values

"""Group-robust risk as a composite and as a saddle.

With `G` groups of sizes `m_g` and group means `L_g(x) = mean of f_i(x) over group g`:

    composite  g_i = (m / m_g(i)) f_i e_g(i), so that mean g_i = (L_1, ..., L_G);  f(y) = the worst case of `y`:
               KL penalty gamma:  gamma ln mean exp(y_g / gamma), as it is
               worst group:       the same with a width `s` for gamma: between `max y - s ln G` and `max y`
    saddle     L(x, q) = r(x) + sum q_g L_g(x) - D(q) over the `G` weights `q` of the groups

The saddle's operator is unbiased from any uniformly drawn rows: sums over them are scaled by `m / |rows|`. From a draw
by groups (`Rows.by_group`) each group mean is estimated by the mean of its own drawn rows.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from drobench.objective.ambiguity_sets import Chi2Ball, Chi2Penalty, CVaR, KLPenalty
from drobench.objective.composite import Change, Composite, Means, RowTerms
from drobench.objective.forms import GroupedMinMax, RobustRisk
from drobench.objective.group_adversary import GroupAdversary
from drobench.objective.outer_functions import LogMeanExp
from drobench.objective.regularizers import Simplex
from drobench.objective.sampling import Index, Rows
from drobench.reformulation.reformulation import Reformulation, ReformulationConfig
from drobench.reformulation.saddle import SMALLEST_WEIGHT, penalty_slope, project_weights

# Gradients differ less near a solution than at the origin, and a tie is seldom one of all groups.
_STEP_PER_WIDTH = 10.0


class GroupMeans(Composite):
    """`f(L_1(x), ..., L_G(x)) + r(x)`, with one output for each group."""

    has_losses = False

    def __init__(self, form: RobustRisk, outer: LogMeanExp, *, worst_only: bool = False) -> None:
        assert isinstance(form.ambiguity, GroupAdversary)
        self.losses = form.losses
        self.regularizer = form.regularizer
        self.outer = outer
        self.worst_only = worst_only
        self.groups = form.ambiguity.groups
        self.dimension, self.samples = form.dimension, form.samples
        self.outputs = form.ambiguity.count
        # A number by a tensor of whole ones would be in single precision.
        self.factors = form.samples / form.ambiguity.sizes.to(torch.float64)

    def estimate(self, points: Tensor, rows: Rows, shift: Tensor | None) -> Means:
        assert rows.samples is not None
        values, pullback = self.losses.linearize(points, rows.samples)
        factors = self._factors(rows, values)
        scale = 1.0 / max(values.shape[1], 1)
        inner = (values @ factors.T).mul_(scale)
        jacobian = pullback(factors.expand(points.shape[0], -1, -1)).mul_(scale)
        nothing = points.new_zeros(points.shape[0])
        unknown = torch.full_like(inner, -torch.inf)
        return Means(inner, jacobian, nothing, torch.zeros_like(points), unknown, points.new_zeros(()))

    def change(self, points: Tensor, rows: Rows, shift: Tensor) -> Change:
        """One pullback of differences, half the work of two pullbacks."""
        assert rows.samples is not None
        values, pullback = self.losses.linearize_difference(points, rows.samples)
        factors = self._factors(rows, values)
        scale = 1.0 / max(values.shape[1], 1)
        here, there = values
        inner = (factors @ (here - there)).mul_(scale)
        jacobian = pullback(factors.expand(2, -1, -1), scale)
        return Change(inner.tolist(), jacobian, None, [-torch.inf] * self.outputs, shift)

    def row_terms(self, point: Tensor, rows: Rows, shift: Tensor | None) -> RowTerms:
        assert rows.samples is not None
        values, gradients = self.losses.row_gradients(point, rows.samples)
        factors = self._factors(rows, values).T
        jacobian = factors[:, :, None] * gradients[:, None]
        zero = point.new_zeros(()) if shift is None else shift
        return RowTerms(factors * values[:, None], jacobian, None, inner_is_positive=False, shift=zero)

    @property
    def has_hessian(self) -> bool:  # type: ignore[override]  # read-only here
        return self.losses.has_hessian

    @property
    def has_hessian_products(self) -> bool:  # type: ignore[override]  # read-only here
        return self.losses.has_hessian_products

    def hessian(self, point: Tensor, rows: Rows, weights: Tensor, shift: Tensor) -> Tensor:
        index, slope = self._slopes(rows, weights)
        return self.losses.hessian(point, index, torch.zeros_like(slope), slope)

    def hessian_product(self, point: Tensor, rows: Rows, weights: Tensor, shift: Tensor, vector: Tensor) -> Tensor:
        index, slope = self._slopes(rows, weights)
        return self.losses.hessian_product(point, index, torch.zeros_like(slope), slope, vector)

    def _slopes(self, rows: Rows, weights: Tensor) -> tuple[Index, Tensor]:
        """Return what each row's loss counts in `<weights, mean g>`, for this part of the draw."""
        assert rows.samples is not None
        numbers = self.groups[rows.samples]
        share = rows.sample_share / max(numbers.numel(), 1)
        return rows.samples, (share * weights * self.factors.to(weights.dtype))[numbers]

    def original_at(self, point: Tensor, inner_value: Tensor, loss_value: Tensor, shift: Tensor) -> Tensor:
        if not self.worst_only:
            return super().original_at(point, inner_value, loss_value, shift)
        return self.regularizer.value(point) + inner_value.max()

    def _factors(self, rows: Rows, like: Tensor) -> Tensor:
        """Return `(G, rows)`: `m / m_g` where a row belongs to the group, else zero."""
        numbers = self.groups[rows.samples]
        factors = like.new_zeros(self.outputs, numbers.numel())
        return factors.scatter_(0, numbers[None], self.factors.to(like.dtype)[numbers][None])


class GroupPenaltyToComposite(Reformulation):
    """Groups at a KL price; equivalent, same variables."""

    name = "group_penalty"
    consumes = RobustRisk
    produces = Composite

    def accepts(self, form: Any) -> bool:
        return _has_groups(form) and isinstance(form.ambiguity.over, KLPenalty)

    def apply(self, form: RobustRisk, options: ReformulationConfig) -> Composite:
        assert isinstance(form.ambiguity, GroupAdversary)
        assert isinstance(form.ambiguity.over, KLPenalty)
        return GroupMeans(form, LogMeanExp(form.ambiguity.over.gamma))


class WorstGroupToComposite(Reformulation):
    """The worst group, its maximum smoothed by a width `s`: the value is at most `s ln G` low."""

    name = "worst_group"
    consumes = RobustRisk
    produces = Composite
    default_widths = (0.1, 0.03, 0.01, 0.003, 0.001)

    def accepts(self, form: Any) -> bool:
        return _has_groups(form) and form.ambiguity.worst_only

    def apply(self, form: RobustRisk, options: ReformulationConfig) -> Composite:
        width = options.width(self.default_widths[-1])
        composite = GroupMeans(form, LogMeanExp(width), worst_only=True)
        composite.smoothing_error = width * math.log(max(composite.outputs, 2))
        # Where groups tie, the curvature is up to that of their gradients' spread over the width; on few rows, in whose
        # means hardly any groups tie, nothing of it is seen.
        slopes = composite.estimate(form.losses.origin()[None], composite.everything(), None).inner_jacobian[0]
        spread = float((slopes - slopes.mean(dim=0)).square().sum(dim=1).max())
        composite.largest_step = _STEP_PER_WIDTH * width / spread if spread > 0.0 else math.inf
        return composite

    def width_for(self, form: RobustRisk, error: float, options: ReformulationConfig) -> float:
        assert isinstance(form.ambiguity, GroupAdversary)
        return error / math.log(max(form.ambiguity.count, 2))


class GroupSaddle(GroupedMinMax):
    """`(x, q)` with `G` weights `q`."""

    def __init__(self, form: RobustRisk) -> None:
        assert isinstance(form.ambiguity, GroupAdversary)
        self.form = form
        self.over = form.ambiguity.over
        self.worst_only = form.ambiguity.worst_only
        self.samples = form.samples
        self.parameters = form.dimension
        self.groups = form.ambiguity.count
        self.row_groups, self.group_sizes = form.ambiguity.groups, form.ambiguity.sizes
        self.dimension = self.parameters + self.groups

    def start(self, point: Tensor) -> Tensor:
        return torch.cat([point, point.new_full((self.groups,), 1.0 / self.groups)])

    def value(self, joint: Tensor) -> Tensor:
        """Return `L(x, q)`."""
        assert isinstance(self.form.ambiguity, GroupAdversary)
        point, weights = joint[: self.parameters], joint[self.parameters :]
        means = self.form.ambiguity.means(self.form.losses.values(point))
        return self.form.regularizer.value(point) + weights.dot(means) - self.over.penalty(weights)

    def operator(self, joint: Tensor, rows: Rows) -> Tensor:
        losses, gradient = self.group_losses(joint, rows)
        return torch.cat([gradient(joint[self.parameters :]), self.penalty_slope(joint) - losses])

    def group_losses(self, joint: Tensor, rows: Rows) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        assert rows.samples is not None
        point = joint[: self.parameters]
        values, pullback = self.form.losses.linearize(point[None], rows.samples)
        numbers = self.row_groups[rows.samples]
        if rows.by_group is None:
            factors = self.samples / max(numbers.numel(), 1) / self.group_sizes.to(joint.dtype)
        else:
            # Divided by the share of this part, which whoever adds up the parts multiplies by.
            factors = 1.0 / (max(rows.sample_share, 1e-300) * rows.by_group.clamp(min=1).to(joint.dtype))
        losses = joint.new_zeros(self.groups).index_add(0, numbers, factors[numbers] * values[0])

        def gradient(weights: Tensor) -> Tensor:
            by_rows = pullback((factors * weights)[numbers][None, None])[0, 0]
            return by_rows + self.form.regularizer.gradient(point)

        return losses, gradient

    def penalty_slope(self, joint: Tensor) -> Tensor:
        return penalty_slope(self.over, joint[self.parameters :])

    def raise_weights(self, joint: Tensor, losses: Tensor, step: float) -> Tensor:
        point, weights = joint[: self.parameters], joint[self.parameters :]
        if isinstance(self.over, KLPenalty):
            price = self.over.gamma
        elif self.worst_only:
            price = 0.0
        else:
            moved = weights + step * (losses - penalty_slope(self.over, weights)) / self.groups
            return self.project(torch.cat([point, moved]))
        logarithms = weights.clamp(min=SMALLEST_WEIGHT).log()
        return torch.cat([point, torch.softmax((logarithms + step * losses) / (1.0 + step * price), dim=0)])

    def project(self, joint: Tensor) -> Tensor:
        point, weights = joint[: self.parameters], joint[self.parameters :]
        # No cap is in the way of the worst group, and the plain simplex has an exact projection.
        nearest = Simplex().project(weights) if self.worst_only else project_weights(self.over, weights)
        return torch.cat([point, nearest])

    def scales(self, joint: Tensor) -> Tensor:
        """Weights are about `1/G`."""
        return torch.cat([joint.new_ones(self.parameters), joint.new_full((self.groups,), 1.0 / self.groups)])

    def mirror_step(self, joint: Tensor, operator: Tensor, step_size: float, adversary_step: float) -> Tensor:
        """A straight step for the parameters, and for the weights the one of `raise_weights`."""
        losses = self.penalty_slope(joint) - operator[self.parameters :]
        # The metric of the entropy at q is 1/q, about G: one scale less than in straight lines.
        raised = self.raise_weights(joint, losses, adversary_step / self.groups)[self.parameters :]
        return torch.cat([joint[: self.parameters] - step_size * operator[: self.parameters], raised])


class GroupsToSaddle(Reformulation):
    """The saddle form over the weights of the groups; equivalent."""

    name = "group_saddle"
    consumes = RobustRisk
    produces = GroupedMinMax

    def accepts(self, form: Any) -> bool:
        return _has_groups(form) and isinstance(form.ambiguity.over, KLPenalty | Chi2Penalty | Chi2Ball | CVaR)

    def apply(self, form: RobustRisk, options: ReformulationConfig) -> GroupedMinMax:
        self.saddle = GroupSaddle(form)
        return self.saddle

    def lift(self, point: Tensor) -> Tensor:
        return self.saddle.start(point)

    def recover(self, point: Tensor) -> Tensor:
        return point[: self.saddle.parameters]


def _has_groups(form: Any) -> bool:
    return isinstance(form, RobustRisk) and isinstance(form.ambiguity, GroupAdversary)

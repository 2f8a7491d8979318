"""Many constraints as one smooth composite.

`min objective(x)` subject to `c_k(x) <= 0`, `k = 1..M`, becomes

    objective(x) + gamma ln( (1 / (M + 1)) [1 + sum_k exp(alpha c_k(x) / gamma)] )

which lies between the exact penalty `objective + max(0, alpha max_k c_k)` and `gamma ln(M + 1)` below it. The extra 1
stands for a constraint that is always zero. It is never sampled: `y = 1/(M + 1) + (M/(M + 1)) mean over S of e_k` is
unbiased, where averaging it in with the sample, `y = (1 + sum over S of e_k) / (|S| + 1)`, is not: that rule exists
as `biased_extra_term`, for comparison only. Cheap constraints are evaluated in every step.
"""

import math
from typing import Any

import torch
from torch import Tensor

from drobench.objective.composite import Change, Composite, Means, Total
from drobench.objective.composites.losses import LARGEST_EXPONENT
from drobench.objective.forms import Constrained, Constraints
from drobench.objective.losses import Pullback, PullbackDifference, difference_of
from drobench.objective.outer_functions import ScaledLog
from drobench.objective.sampling import Rows, index_length
from drobench.reformulation.projection import project_on
from drobench.reformulation.reformulation import Reformulation, ReformulationConfig

_DEFAULT_ALPHA = 2.0


class PenaltyLog(ScaledLog):
    """`gamma ln(y) + c` for a mean of `terms` positive terms of which one is exactly `exp(-c / gamma)`."""

    def __init__(self, gamma: float, terms: int) -> None:
        super().__init__(gamma)
        object.__setattr__(self, "terms", terms)

    terms: int

    def smallest(self, shift: Tensor) -> float | None:
        return math.exp(-float(shift) / self.gamma) / self.terms


class SmoothedConstraints(Composite):
    """The composite above: `h` is the objective's loss, `g` the mean of the exponentials over the constraints."""

    outputs = 1
    uses_shift = True

    def __init__(self, form: Constrained, alpha: float, gamma: float, *, biased_extra_term: bool = False) -> None:
        self.form = form
        self.alpha = self.penalty_weight = alpha
        self.gamma = gamma
        self.biased_extra_term = biased_extra_term
        self.losses = form.objective.losses
        self.samples = self.losses.samples
        self.constraints = form.constraints.count
        self.cheap_constraints = form.constraints.cheap_count
        self.dimension = form.objective.dimension
        self.has_losses = self.samples > 0
        self.regularizer = form.objective.regularizer
        self.terms = self.constraints + self.cheap_constraints + 1
        self.constraint_rows = form.constraints.rows
        self.outer = PenaltyLog(gamma, self.terms)
        self.smoothing_error = gamma * math.log(self.terms)

    def estimate(self, points: Tensor, rows: Rows, shift: Tensor | None) -> Means:
        if rows.constraints is None:
            return self._losses_alone(points, rows, shift)
        return self._estimate(points, rows, shift, *self.form.constraints.surrogates(points, rows.constraints))

    def pooled_estimate(self, points: Tensor, rows: Rows, shift: Tensor | None, total: Total) -> Means:
        return self._estimate(points, rows, shift, *self._pooled_surrogates(points, rows, total))

    def _losses_alone(self, points: Tensor, rows: Rows, shift: Tensor | None) -> Means:
        """Return the means of a further part of the samples, which has nothing to say about the constraints."""
        assert rows.samples is not None
        nothing = points.new_zeros(points.shape[0], 1)
        loss_value, loss_gradient = self.losses.mean(points, rows.samples)
        shift = points.new_zeros(()) if shift is None else shift
        return Means(nothing, torch.zeros_like(points)[:, None], loss_value, loss_gradient, nothing, shift)

    def _pooled_surrogates(self, points: Tensor, rows: Rows, total: Total) -> tuple[Tensor, Pullback]:
        """Return the surrogates of all rows, and the pullback to this process's part of them.

        The sums are pooled before the exponential: that of a mean is not the mean of the parts' exponentials.
        """
        assert rows.constraints is not None
        assert rows.data is not None
        partial, pullback = self.form.constraints.partial_surrogates(points, rows.constraints, rows.data)
        return total(partial) + self.form.constraints.constant, pullback

    def _estimate(
        self, points: Tensor, rows: Rows, shift: Tensor | None, sampled: Tensor, pull_sampled: Pullback
    ) -> Means:
        if rows.samples is not None and self.has_losses:
            loss_value, loss_gradient = self.losses.mean(points, rows.samples)
        else:
            loss_value, loss_gradient = points.new_zeros(points.shape[0]), torch.zeros_like(points)
        factor, terms = self._weighting(sampled.shape[1], rows)
        parts = [(sampled, pull_sampled, factor)]
        if self.cheap_constraints:
            cheap, pull_cheap = self.form.constraints.cheap(points)
            parts.append((cheap, self._shared(pull_cheap, rows), 1.0))
        shift = self._shift([values for values, _, _ in parts], shift)
        one = (-shift / self.gamma).exp()
        value = points.new_zeros(points.shape[0]) + one
        floor = value.clone()
        jacobian = torch.zeros_like(points)
        for position, (values, pullback, weight) in enumerate(parts):
            powers = ((self.alpha * values - shift) / self.gamma).exp()
            total = powers.sum(dim=-1) * weight
            value = value + total
            # Of the sampled constraints only the drawn ones are known; the others can only add.
            floor = floor + (total * rows.covered if position == 0 else total)
            jacobian = jacobian + pullback((powers * (weight * self.alpha / self.gamma))[:, None])[:, 0]
        return Means(
            (value / terms)[:, None],
            (jacobian / terms)[:, None],
            loss_value,
            loss_gradient,
            (floor / self.terms)[:, None],
            shift,
        )

    def change(self, points: Tensor, rows: Rows, shift: Tensor) -> Change:
        """As `estimate` at two points, with one pullback of differences for each of objective and constraints."""
        if rows.constraints is None:
            return super().change(points, rows, shift)
        return self._change(points, rows, shift, *self.form.constraints.surrogates_difference(points, rows.constraints))

    def pooled_change(self, points: Tensor, rows: Rows, shift: Tensor, total: Total) -> Change:
        sampled, pullback = self._pooled_surrogates(points, rows, total)
        return self._change(points, rows, shift, sampled, difference_of(pullback))

    def _change(
        self, points: Tensor, rows: Rows, shift: Tensor, sampled: Tensor, pull_sampled: PullbackDifference
    ) -> Change:
        gradient = None
        if self.has_losses:
            assert rows.samples is not None
            gradient = self.losses.mean_gradient_difference(points, rows.samples)
        factor, terms = self._weighting(sampled.shape[1], rows)
        parts: list[tuple[Tensor, PullbackDifference, float]] = [(sampled, pull_sampled, factor)]
        if self.cheap_constraints:
            cheap, pull_cheap = self.form.constraints.cheap(points)
            parts.append((cheap, difference_of(self._shared(pull_cheap, rows)), 1.0))
        shift = self._shift([values for values, _, _ in parts], shift)
        step, floor, jacobian = 0.0, math.exp(-float(shift) / self.gamma) / self.terms, None
        for position, (values, pullback, weight) in enumerate(parts):
            powers = torch.sub(self.alpha * values, shift).mul_(1.0 / self.gamma).exp_()
            here, there = powers.sum(dim=-1).tolist()
            step += weight / terms * (here - there)
            # Of the sampled constraints only the drawn ones are known; the others can only add. The floor is one of the
            # true mean, whatever rule the estimates follow.
            floor += weight / self.terms * here * (rows.covered if position == 0 else 1.0)
            slope = pullback(powers[:, None], weight * self.alpha / (self.gamma * terms))
            jacobian = slope if jacobian is None else jacobian + slope
        assert jacobian is not None
        return Change([step], jacobian, gradient, [floor], shift)

    @staticmethod
    def _shared(pullback: Pullback, rows: Rows) -> Pullback:
        """Return this process's part of a pullback that every process computes alike."""
        return pullback if rows.data is None else lambda cotangents: pullback(cotangents) * rows.constraint_share

    def _weighting(self, evaluated: int, rows: Rows) -> tuple[float, int]:
        """Return what multiplies the sum over the `evaluated` constraints, and the number of terms to divide by."""
        if not self.biased_extra_term:
            return self.constraints / max(evaluated, 1), self.terms
        # With several processes these are a part of the draw, and the parts' shares add up to the rule for all of it.
        share = rows.constraint_share if rows.data is None else 1.0
        drawn = round(evaluated / share) if evaluated else 0
        return drawn / max(evaluated, 1), drawn + self.cheap_constraints + 1

    def _shift(self, parts: list[Tensor], shift: Tensor | None) -> Tensor:
        present = [float(values.max()) for values in parts if values.numel()]
        if not present:
            # More processes than drawn constraints: this one has nothing to say.
            return parts[0].new_zeros(()) if shift is None else shift
        largest = self.alpha * max(present)
        if shift is None:
            return parts[0].new_tensor(max(largest, 0.0))
        too_large = largest - float(shift) > LARGEST_EXPONENT[shift.dtype] * self.gamma
        return parts[0].new_tensor(largest) if too_large else shift

    @property
    def has_hessian(self) -> bool:  # type: ignore[override]  # read-only here
        known = self.form.constraints.has_hessian and not self.cheap_constraints
        return known and (not self.has_losses or self.losses.has_hessian)

    @property
    def has_hessian_products(self) -> bool:  # type: ignore[override]  # read-only here
        return self.has_hessian

    def hessian(self, point: Tensor, rows: Rows, weights: Tensor, shift: Tensor) -> Tensor:
        total = point.new_zeros(self.dimension, self.dimension)
        if self.has_losses and rows.samples is not None:
            total = total + self.losses.hessian(point, rows.samples, *self._loss_bends(point, rows))
        if rows.constraints is not None:
            bends = self._constraint_bends(point, rows, weights, shift)
            total = total + self.form.constraints.hessian(point, rows.constraints, *bends)
        return total

    def hessian_product(self, point: Tensor, rows: Rows, weights: Tensor, shift: Tensor, vector: Tensor) -> Tensor:
        total = torch.zeros_like(vector)
        if self.has_losses and rows.samples is not None:
            total = total + self.losses.hessian_product(point, rows.samples, *self._loss_bends(point, rows), vector)
        if rows.constraints is not None:
            bends = self._constraint_bends(point, rows, weights, shift)
            total = total + self.form.constraints.hessian_product(point, rows.constraints, *bends, vector)
        return total

    def _loss_bends(self, point: Tensor, rows: Rows) -> tuple[Tensor, Tensor]:
        assert rows.samples is not None
        count = index_length(rows.samples, self.samples)
        share = point.new_full((count,), rows.sample_share / max(count, 1))
        return torch.zeros_like(share), share

    def _constraint_bends(self, point: Tensor, rows: Rows, weights: Tensor, shift: Tensor) -> tuple[Tensor, Tensor]:
        """Return the second and first derivatives of the weighted mean of exponentials by each constraint."""
        assert rows.constraints is not None
        values, _ = self.form.constraints.surrogates(point[None], rows.constraints)
        factor, terms = self._weighting(values.shape[1], rows)
        rate = self.alpha / self.gamma
        powers = torch.sub(self.alpha * values[0], shift).mul_(1.0 / self.gamma).exp_()
        slopes = powers * (weights[0] * rate * rows.constraint_share * factor / terms)
        return rate * slopes, slopes

    def largest_surrogate(self, point: Tensor) -> float:
        values = [self.form.constraints.surrogates(point[None], slice(None))[0]]
        if self.cheap_constraints:
            values.append(self.form.constraints.cheap(point[None])[0])
        return float(torch.cat(values, dim=1).max())

    def weighted(self, weight: float) -> "SmoothedConstraints":
        return SmoothedConstraints(self.form, weight, self.gamma, biased_extra_term=self.biased_extra_term)

    def original_at(self, point: Tensor, inner_value: Tensor, loss_value: Tensor, shift: Tensor) -> Tensor:
        """Return the exact penalty: over everything, the shift that is chosen is `alpha max(0, max_k c_k)`."""
        return self.regularizer.value(point) + loss_value + shift

    def rescale(self, inner: Tensor, old: Tensor, new: Tensor) -> Tensor:
        return inner * ((old - new) / self.gamma).exp()

    def share(self, point: Tensor) -> float:
        """Return `sum_k p_k`, the weight of the constraints: above 0.99 they are not enforced, alpha is too small."""
        estimate = self.estimate(point[None], self.everything(), None)
        one = math.exp(-float(estimate.shift) / self.gamma) / self.terms
        return 1.0 - one / float(estimate.inner_value[0, 0])


class ConstraintsToComposite(Reformulation):
    """Smoothed penalty over the same variables, with widths that shrink on the way.

    A solution is scored as it is, unless the constraints can project, or `projection` asks for the nearest point that
    satisfies the surrogates (`euclidean`, for convex ones, or `conic`) or for steps towards such a point (`polyak`,
    which promises nothing).
    """

    name = "smoothed_constraints"
    consumes = Constrained
    produces = Composite
    default_widths = (0.3, 0.1, 0.03, 0.01)

    def accepts(self, form: Any) -> bool:
        return isinstance(form, Constrained)

    def width_for(self, form: Constrained, error: float, options: ReformulationConfig) -> float:
        return width_of_penalty(form.constraints, error)

    def apply(self, form: Constrained, options: ReformulationConfig) -> Composite:
        alpha = options.alpha or form.penalty or _DEFAULT_ALPHA
        gamma = options.width(self.default_widths[-1])
        self.constraints, self.projection = form.constraints, options.projection
        self.projects = projects_at_the_end(form.constraints, options)
        return SmoothedConstraints(form, alpha, gamma, biased_extra_term=options.biased_extra_term)

    def recover(self, point: Tensor) -> Tensor:
        return project_on(self.constraints, point, self.projection) if self.projects else point


def width_of_penalty(constraints: Constraints, error: float) -> float:
    """Return the width at which the smoothed penalty is `error` below the exact one at most."""
    return error / math.log(constraints.count + constraints.cheap_count + 1)


class ProjectedConstraints(Reformulation):
    """The problem as it is, for solvers that work on constraints themselves, with the one projection at the end."""

    name = "projected_constraints"
    consumes = Constrained
    produces = Constrained

    def accepts(self, form: Any) -> bool:
        return isinstance(form, Constrained)

    def apply(self, form: Constrained, options: ReformulationConfig) -> Constrained:
        self.constraints, self.projection = form.constraints, options.projection
        self.projects = projects_at_the_end(form.constraints, options)
        return form

    def recover(self, point: Tensor) -> Tensor:
        return project_on(self.constraints, point, self.projection) if self.projects else point


def projects_at_the_end(constraints: Constraints, options: ReformulationConfig) -> bool:
    """Whether a solution is projected: where that was asked for, or where the constraints know how to."""
    wanted = options.projection in ("euclidean", "conic", "polyak")
    return wanted or (options.projection == "restoration" and constraints.projectable)

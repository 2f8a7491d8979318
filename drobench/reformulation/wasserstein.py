"""Wasserstein logistic regression as a composite: the reduced form, and the literal form with 2m + 1 constraints.

Reduced, over `(w, lam)` with the hinge smoothed to width `ts` (the value is at most `ts ln 2` high):

    h_i = l(t_i) + ts softplus((t_i - lam kappa) / ts),   r = radius lam + (l2 / 2) |w|^2 on the cone |w|_* <= lam

Literal, over `(w, lam, s)`:

    min radius lam + mean s   subject to   l(t_i) <= s_i,   l(-t_i) - lam kappa <= s_i,   |w|_* <= lam

Recovering keeps `w`: with the best `lam` and `s` for this `w`, which is the closed-form restoration, its objective is
the worst-case risk that results are scored by.
"""

import math
from typing import Any

import torch
from torch import Tensor

from drobench.errors import DrobenchError
from drobench.objective.composite import Composite
from drobench.objective.composites.lifted import (
    DualBends,
    DualProfile,
    DualTerms,
    DualTransform,
    LiftedComposite,
    of_difference,
)
from drobench.objective.composites.losses import LossTerms
from drobench.objective.forms import Constrained, Constraints, FiniteSum
from drobench.objective.losses import LogisticLoss, NoLosses, Pullback
from drobench.objective.outer_functions import NoOuter
from drobench.objective.regularizers import Affine, ElasticNet, RegularizedCone
from drobench.objective.sampling import Index
from drobench.objective.score_losses import smooth_hinge, smooth_hinge_bend
from drobench.objective.wasserstein import WassersteinRisk, norm_of
from drobench.reformulation.constraints import SmoothedConstraints, width_of_penalty
from drobench.reformulation.projection import project_on
from drobench.reformulation.reformulation import Reformulation, ReformulationConfig

_LOGISTIC = LogisticLoss()
_STEP_PER_WIDTH = 10.0


class TransportTerms(DualTransform):
    """`h_i` of the reduced form, as a function of the margin and of `lam`."""

    outputs = 0
    has_losses = True
    duals = 1

    def __init__(self, flip_cost: float, width: float) -> None:
        self.flip_cost = flip_cost
        self.width = width

    def apply(self, losses: Tensor, duals: Tensor, shift: Tensor | None) -> DualTerms:
        values, slopes = _LOGISTIC.of_margin(losses)
        zero = losses.new_zeros(())
        if math.isinf(self.flip_cost):
            return DualTerms(LossTerms(None, None, values, slopes, zero), None, torch.zeros_like(losses)[:, None])
        excess = losses - duals * self.flip_cost
        if self.width > 0.0:
            hinge, flipped = smooth_hinge(excess, self.width)
        else:
            hinge, flipped = excess.clamp(min=0.0), (excess > 0.0).to(excess.dtype)
        terms = LossTerms(None, None, values + hinge, slopes + flipped, zero)
        return DualTerms(terms, None, -self.flip_cost * flipped[:, None])

    def bends(self, losses: Tensor, duals: Tensor, weights: Tensor, shift: Tensor) -> DualBends:
        _, slopes = _LOGISTIC.of_margin(losses)
        bend = _LOGISTIC.bend(losses)
        if math.isinf(self.flip_cost):
            nothing = losses.new_zeros(1, losses.numel())
            return DualBends(slopes, bend, nothing, nothing[None])
        excess = losses - duals * self.flip_cost
        flips = of_difference(
            smooth_hinge(excess, self.width)[1], smooth_hinge_bend(excess, self.width), self.flip_cost
        )
        return flips._replace(slope=slopes + flips.slope, bend=bend + flips.bend)


class WassersteinToComposite(Reformulation):
    """The reduced form; `reformulation.wasserstein=literal` takes the other one."""

    name = "wasserstein_reduced"
    consumes = WassersteinRisk
    produces = Composite
    default_widths = (0.1, 0.03, 0.01, 0.003, 0.001)
    projects = True

    def accepts(self, form: Any) -> bool:
        return isinstance(form, WassersteinRisk)

    def width_for(self, form: WassersteinRisk, error: float, options: ReformulationConfig) -> float:
        if options.wasserstein == "literal":
            return width_of_penalty(literal_form(form).constraints, error)
        return error / math.log(2.0)

    def apply(self, form: WassersteinRisk, options: ReformulationConfig) -> Composite:
        self.form = form
        self.options = options
        if options.wasserstein == "literal":
            self.name = "wasserstein_literal"
            self.literal = literal_form(form)
            alpha = options.alpha or self.literal.penalty
            assert alpha is not None
            return SmoothedConstraints(self.literal, alpha, options.width(self.default_widths[-1]))
        terms = TransportTerms(form.flip_cost, options.width(self.default_widths[-1]))
        cone = RegularizedCone(form.dual_norm, form.radius, form.regularizer.l2, form.free)
        # The bound itself stays a variable: at the origin the best one is the tip of the cone, where nothing moves.
        exact = DualProfile(TransportTerms(form.flip_cost, 0.0), NoOuter(), form.radius, self._lowest_bound)
        composite = LiftedComposite(form.margins, terms, NoOuter(), cone, exact=exact)
        composite.smoothing_error = terms.width * math.log(2.0) if math.isfinite(form.flip_cost) else 0.0
        # Only samples in the band of this width bend the hinge, and few rows may have none of them.
        composite.largest_step = _STEP_PER_WIDTH * terms.width
        return composite

    def _lowest_bound(self, parameters: Tensor) -> float:
        return float(norm_of(self.form.penalised(parameters), self.form.dual_norm))

    def lift(self, point: Tensor) -> Tensor:
        # Not the best bound: at the origin that is the tip of the cone, where nothing moves.
        bound = torch.clamp(norm_of(self.form.penalised(point), self.form.dual_norm), min=1.0)
        lifted = torch.cat([point, bound[None]])
        if self.options.wasserstein == "literal":
            return torch.cat([lifted, slacks(self.form, point, bound)])
        return lifted

    def recover(self, point: Tensor) -> Tensor:
        if self.options.wasserstein == "literal" and self.options.projection in ("euclidean", "conic", "polyak"):
            point = project_on(self.literal.constraints, point, self.options.projection)
        return point[: self.form.dimension]


def slacks(form: WassersteinRisk, point: Tensor, bound: Tensor) -> Tensor:
    """Return the smallest feasible `s` for given `w` and `lam`."""
    margins = form.margins.values(point)
    losses, _ = _LOGISTIC.of_margin(margins)
    if math.isinf(form.flip_cost):
        return losses
    return losses + (margins - bound * form.flip_cost).clamp(min=0.0)


def restore(form: WassersteinRisk, joint: Tensor) -> Tensor:
    """Return the best feasible `(w, lam, s)` with the same `w`."""
    point = joint[: form.dimension]
    bound = form.best_bound(point, form.margins.values(point))
    return torch.cat([point, bound[None], slacks(form, point, bound)])


def literal_form(form: WassersteinRisk) -> Constrained:
    """Return `min radius lam + mean s` over `(w, lam, s)` with its 2m + 1 constraints."""
    if math.isinf(form.flip_cost):
        raise DrobenchError(
            "The literal form needs a finite problem.flip_cost; use reformulation.wasserstein=reduced for infinity."
        )
    constraints = TransportConstraints(form)
    samples = form.margins.samples
    slope = form.margins.signed_rows.new_zeros(constraints.dimension)
    slope[form.dimension] = form.radius
    slope[form.dimension + 1 :] = 1.0 / samples
    regularizer = Affine(slope, base=_Leading(form.regularizer.l2, form.dimension))
    objective = FiniteSum(NoLosses(slope), regularizer)
    # Any penalty above 1 + radius is exact here.
    return Constrained(objective, constraints, penalty=2.0 * (1.0 + form.radius))


class _Leading(ElasticNet):
    """A quadratic on the first coordinates only."""

    def __init__(self, l2: float, size: int) -> None:
        super().__init__(0.0, l2)
        object.__setattr__(self, "size", size)

    size: int

    @property
    def strong_convexity(self) -> float:
        return 0.0

    def value(self, point: Tensor) -> Tensor:
        return super().value(point[: self.size])

    def prox(self, point: Tensor, step_size: float) -> Tensor:
        return torch.cat([super().prox(point[: self.size], step_size), point[self.size :]])

    def gradient(self, point: Tensor) -> Tensor:
        return torch.cat([super().gradient(point[: self.size]), torch.zeros_like(point[self.size :])])


class TransportConstraints(Constraints):
    """`l(t_i) - s_i <= 0`, then `l(-t_i) - lam kappa - s_i <= 0`; cheap: `|w|_* - lam <= 0`."""

    cheap_count = 1

    def __init__(self, form: WassersteinRisk) -> None:
        self.form = form
        self.samples = form.margins.samples
        self.count = 2 * self.samples
        self.dimension = form.dimension + 1 + self.samples
        self.features = form.margins.signed_rows.new_zeros(self.count, 0)

    def surrogates(self, points: Tensor, index: Index) -> tuple[Tensor, Pullback]:
        numbers = torch.arange(self.count, device=points.device)[index]
        rows, flipped = numbers % self.samples, numbers >= self.samples
        size = self.form.dimension
        margins, pull_margins = self.form.margins.linearize(points[:, :size], rows)
        signs = torch.where(flipped, -1.0, 1.0).to(points.dtype)
        values, slopes = _LOGISTIC.of_margin(margins * signs)
        price = self.form.flip_cost * flipped.to(points.dtype)
        values = values - points[:, size, None] * price - points[:, size + 1 :][:, rows]

        def pullback(cotangents: Tensor) -> Tensor:
            by_slack = cotangents.new_zeros(*cotangents.shape[:2], self.samples)
            by_slack.index_add_(2, rows, -cotangents)
            by_bound = -(cotangents * price).sum(dim=-1, keepdim=True)
            return torch.cat([pull_margins(cotangents * (slopes * signs)[:, None]), by_bound, by_slack], dim=-1)

        return values, pullback

    def cheap(self, points: Tensor) -> tuple[Tensor, Pullback]:
        size = self.form.dimension
        with torch.enable_grad():
            leaves = points.detach().clone().requires_grad_(True)
            norms = torch.stack([norm_of(self.form.penalised(leaf[:size]), self.form.dual_norm) for leaf in leaves])
            values = norms - leaves[:, size]
            (slopes,) = torch.autograd.grad(values.sum(), leaves)
        return values.detach()[:, None], lambda cotangents: cotangents * slopes[:, None]

    def violations(self, points: Tensor, index: Index) -> Tensor:
        return self.surrogates(points, index)[0]

    def project_conic(self, point: Tensor) -> Tensor:
        import cvxpy as cp  # noqa: PLC0415  # more than a second that only this projection needs

        form, rows = self.form, self.form.margins.signed_rows.cpu().numpy()
        weights, bound, slack = cp.Variable(form.dimension), cp.Variable(), cp.Variable(self.samples)
        order: Any = {"l1": 1, "l2": 2, "linf": "inf"}[form.dual_norm]
        conditions = [
            cp.logistic(-rows @ weights) <= slack,
            cp.logistic(rows @ weights) - form.flip_cost * bound <= slack,
            cp.norm(weights[: form.dimension - form.free], order) <= bound,
        ]
        joint = cp.hstack([weights, bound, slack])
        problem = cp.Problem(cp.Minimize(cp.sum_squares(joint - point.double().cpu().numpy())), conditions)
        problem.solve(solver=cp.CLARABEL)  # type: ignore[no-untyped-call]  # cvxpy's decorator hides the types
        if problem.status not in ("optimal", "optimal_inaccurate"):
            raise DrobenchError(f"The conic projection ended with status {problem.status}; use projection=euclidean.")
        return torch.from_numpy(joint.value).to(point)

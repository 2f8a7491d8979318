"""Wasserstein logistic regression as a problem with many constraints, for solvers that work on constraints themselves.

The literal form, over `(w, lam, s)`, with all 2m + 1 constraints numbered:

    min radius lam + mean s + (l2 / 2) |w|^2
    subject to   l(t_i) <= s_i,   l(-t_i) - lam kappa <= s_i,   |w|_* <= lam

The smoothed form evaluates the last one in every step at no charge; a method that draws constraints, or looks for the
worst, must see it among the others. Recovering keeps `w`, which is the closed-form restoration: the best `lam` and `s`
belong to the worst-case risk that results are scored by.
"""

import math
from typing import Any

import torch
from torch import Tensor

from drobench.objective.forms import Constrained, Constraints
from drobench.objective.losses import Pullback
from drobench.objective.sampling import Index
from drobench.objective.wasserstein import WassersteinRisk, norm_of
from drobench.reformulation.projection import project_euclidean, project_on
from drobench.reformulation.reformulation import Reformulation, ReformulationConfig
from drobench.reformulation.wasserstein import literal_form, slacks


class NumberedConstraints(Constraints):
    """The same constraints with the cheap ones numbered too, after the others."""

    convex = True
    projectable = True

    def __init__(self, original: Constraints) -> None:
        self.original = original
        self.count = original.count + original.cheap_count
        self.dimension = original.dimension
        self.features = original.features.new_zeros(self.count, 0)

    def surrogates(self, points: Tensor, index: Index) -> tuple[Tensor, Pullback]:
        numbers = torch.arange(self.count, device=points.device)[index]
        is_cheap = numbers >= self.original.count
        if not bool(is_cheap.any()):
            return self.original.surrogates(points, numbers)
        numbered, pull_numbered = self.original.surrogates(points, numbers[~is_cheap])
        cheap, pull_cheap = self.original.cheap(points)
        chosen = numbers[is_cheap] - self.original.count
        values = points.new_zeros(points.shape[0], numbers.numel())
        values[:, ~is_cheap], values[:, is_cheap] = numbered, cheap[:, chosen]

        def pullback(cotangents: Tensor) -> Tensor:
            on_cheap = cotangents.new_zeros(*cotangents.shape[:2], self.original.cheap_count)
            on_cheap.index_add_(2, chosen, cotangents[..., is_cheap])
            return pull_numbered(cotangents[..., ~is_cheap]) + pull_cheap(on_cheap)

        return values, pullback

    def violations(self, points: Tensor, index: Index) -> Tensor:
        return self.surrogates(points, index)[0]

    def project(self, point: Tensor) -> Tensor:
        """Return the nearest feasible point, by cutting planes: for a few hundred samples, not for thousands."""
        return project_euclidean(self, point)

    def project_conic(self, point: Tensor) -> Tensor:
        return self.original.project_conic(point)


class WassersteinToConstrained(Reformulation):
    """The literal form with all its constraints numbered; equivalent."""

    name = "wasserstein_constraints"
    consumes = WassersteinRisk
    produces = Constrained
    projects = True

    def accepts(self, form: Any) -> bool:
        return isinstance(form, WassersteinRisk) and math.isfinite(form.flip_cost)

    def apply(self, form: WassersteinRisk, options: ReformulationConfig) -> Constrained:
        self.form, self.projection = form, options.projection
        literal = literal_form(form)
        self.constraints = NumberedConstraints(literal.constraints)
        return Constrained(literal.objective, self.constraints, options.alpha or literal.penalty)

    def lift(self, point: Tensor) -> Tensor:
        # As for the other forms: the tip of the cone, at the origin, is no place to start from.
        bound = torch.clamp(norm_of(self.form.penalised(point), self.form.dual_norm), min=1.0)
        return torch.cat([point, bound[None], slacks(self.form, point, bound)])

    def recover(self, point: Tensor) -> Tensor:
        if self.projection in ("euclidean", "conic", "polyak"):
            point = project_on(self.constraints, point, self.projection)
        return point[: self.form.dimension]

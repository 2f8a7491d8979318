"""Wasserstein regression as a composite over `(w, lam)` on the cone `|w|_* <= lam`, where the best `lam` is the norm.

    Lipschitz   h_i = l(r_i),   g = lam,             f(y) = price N(y)
    squared     g_i = (r_i^2, lam),                  f(y) = (sqrt(y_1) + price N(y_2))^2

`N(lam) = |(lam, c)|_*` for the price `c` of moving targets. `f` rises with `lam`, so that both are equivalent. The
square has its kink where all residuals are zero.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from drobench.objective.composite import Composite
from drobench.objective.composites.lifted import DualBends, DualProfile, DualTerms, DualTransform, LiftedComposite
from drobench.objective.composites.losses import LossTerms
from drobench.objective.outer_functions import OuterFunction
from drobench.objective.regularizers import RegularizedCone
from drobench.objective.wasserstein_regression import WassersteinRegressionRisk, joint_norm
from drobench.reformulation.reformulation import Reformulation, ReformulationConfig

# The slope of a root at zero is infinite, and that of an estimate below it is none.
_TINY = 1e-24


class BoundTerms(DualTransform):
    """`h_i = f_i` and `g = lam`."""

    outputs = 1
    has_losses = True
    duals = 1

    def apply(self, losses: Tensor, duals: Tensor, shift: Tensor | None) -> DualTerms:
        inner = duals.expand_as(losses)[:, None]
        zero = losses.new_zeros(())
        terms = LossTerms(inner, torch.zeros_like(inner), losses, torch.ones_like(losses), zero, inner_is_positive=True)
        nothing = torch.zeros_like(losses)[:, None]
        return DualTerms(terms, torch.ones_like(inner)[:, :, None], nothing)

    def bends(self, losses: Tensor, duals: Tensor, weights: Tensor, shift: Tensor) -> DualBends:
        nothing = losses.new_zeros(1, losses.numel())
        return DualBends(torch.ones_like(losses), torch.zeros_like(losses), nothing, nothing[None])


class SquareAndBound(DualTransform):
    """`g_i = (f_i, lam)`, for losses that are squares."""

    outputs = 2
    has_losses = False
    duals = 1

    def apply(self, losses: Tensor, duals: Tensor, shift: Tensor | None) -> DualTerms:
        inner = torch.stack([losses, duals.expand_as(losses)], dim=1)
        ones, zeros = torch.ones_like(losses), torch.zeros_like(losses)
        by_bound = torch.stack([zeros, ones], dim=1)[:, :, None]
        slope = torch.stack([ones, zeros], dim=1)
        return DualTerms(LossTerms(inner, slope, None, None, losses.new_zeros(()), inner_is_positive=True), by_bound)

    def bends(self, losses: Tensor, duals: Tensor, weights: Tensor, shift: Tensor) -> DualBends:
        nothing = losses.new_zeros(1, losses.numel())
        return DualBends(weights[0].expand_as(losses), torch.zeros_like(losses), nothing, nothing[None])


@dataclass(frozen=True)
class NormOuter(OuterFunction):
    """`f(y) = price N(y)`."""

    price: float
    offset: float
    norm: str

    def value(self, inner_value: Tensor, shift: Tensor) -> Tensor:
        return self.price * joint_norm(inner_value[-1], self.offset, self.norm)[0]

    def gradient(self, inner_value: Tensor, shift: Tensor) -> Tensor:
        return self.price * joint_norm(inner_value, self.offset, self.norm)[1]

    def hessian(self, inner_value: Tensor, shift: Tensor) -> Tensor:
        return (self.price * joint_norm(inner_value, self.offset, self.norm)[2])[:, None]

    def smallest(self, shift: Tensor) -> float | None:
        return 0.0


class SquaredOuter(NormOuter):
    """`f(y) = (sqrt(y_1) + price N(y_2))^2`."""

    def _parts(self, inner_value: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        root = inner_value[0].clamp(min=_TINY).sqrt()
        norm, rise, bend = joint_norm(inner_value[1], self.offset, self.norm)
        return root, self.price * norm, self.price * rise, self.price * bend

    def value(self, inner_value: Tensor, shift: Tensor) -> Tensor:
        root, norm, _, _ = self._parts(inner_value)
        return (root + norm).square()

    def gradient(self, inner_value: Tensor, shift: Tensor) -> Tensor:
        root, norm, rise, _ = self._parts(inner_value)
        return torch.stack([(root + norm) / root, 2.0 * (root + norm) * rise])

    def hessian(self, inner_value: Tensor, shift: Tensor) -> Tensor:
        root, norm, rise, bend = self._parts(inner_value)
        mixed = rise / root
        first, second = -0.5 * norm / root.pow(3), 2.0 * (rise.square() + (root + norm) * bend)
        return torch.stack([first, mixed, mixed, second]).view(2, 2)


class WassersteinRegressionToComposite(Reformulation):
    """Both cases; equivalent."""

    name = "wasserstein_residuals"
    consumes = WassersteinRegressionRisk
    produces = Composite

    def accepts(self, form: Any) -> bool:
        return isinstance(form, WassersteinRegressionRisk)

    def apply(self, form: WassersteinRegressionRisk, options: ReformulationConfig) -> Composite:
        self.form = form
        terms: DualTransform = SquareAndBound() if form.squared else BoundTerms()
        outer = (SquaredOuter if form.squared else NormOuter)(form.price, form.offset, form.dual_norm)
        cone = RegularizedCone(form.dual_norm, 0.0, form.regularizer.l2, form.free)
        exact = DualProfile(terms, outer, 0.0, lambda parameters: float(form.bound(parameters)))
        return LiftedComposite(form.losses, terms, outer, cone, exact=exact)

    def lift(self, point: Tensor) -> Tensor:
        # Not the norm: at the origin that is the tip of the cone, where nothing moves.
        return torch.cat([point, self.form.bound(point).clamp(min=1.0)[None]])

    def recover(self, point: Tensor) -> Tensor:
        return point[: self.form.dimension]

"""Divergence penalties and balls as composites.

KL penalty: `max over p of sum p_i f_i - gamma KL(p || 1/m) = gamma ln mean exp(f_i / gamma)`. With a shift `c`,
`g_i = exp((f_i - c) / gamma)` and `f(y) = gamma ln(y) + c`; there is no `h`. Value, Jacobian and their recursive
estimates at two shifts differ by one factor, so the direction `f'(y) z = gamma z / y` does not depend on the shift.

The other reductions add at most one scalar variable, which is minimised along with the parameters:

    KL ball        t radius + t ln mean exp(f_i / t)                        g = (exp((f - c) / t), t), f = y2 ln y1 + c
    chi2 variance  mean f + Var f / (2 gamma)                               h = f + (f - a)^2 / (2 gamma), g = f
    chi2 penalty   e - gamma / 2 + mean (f_i - e + gamma)_+^2 / (2 gamma)   h only
    chi2 ball      e + sqrt((1 + 2 radius) mean (f_i - e)_+^2)              g = (f - e)_+^2, f(y) = sqrt(..(y + delta))
    CVaR           e + mean (f_i - e)_+ / level                             h only, hinge smoothed by softplus
"""

import math
from abc import abstractmethod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from drobench.objective.ambiguity_sets import (
    AmbiguitySet,
    Chi2Ball,
    Chi2Penalty,
    Chi2Variance,
    CVaR,
    KLBall,
    KLPenalty,
)
from drobench.objective.composite import Composite
from drobench.objective.composites.lifted import (
    DualBends,
    DualProfile,
    DualTerms,
    DualTransform,
    LiftedComposite,
    of_difference,
)
from drobench.objective.composites.losses import LARGEST_EXPONENT, LossBends, LossComposite, LossTerms, LossTransform
from drobench.objective.forms import RobustRisk
from drobench.objective.losses import Losses
from drobench.objective.outer_functions import NegativeSquare, NoOuter, Perspective, ScaledLog, SmoothedRoot
from drobench.objective.regularizers import Affine, Blocks, Box, Regularizer, Zero
from drobench.objective.score_losses import smooth_hinge, smooth_hinge_bend
from drobench.reformulation.reformulation import Reformulation, ReformulationConfig

# What stands for a width of zero where that would divide by zero.
_TINY = 1e-12


class ExponentialTilt(LossTransform):
    """`g_i = exp((f_i - c) / gamma)`."""

    outputs = 1
    has_losses = False
    uses_shift = True

    def __init__(self, gamma: float) -> None:
        self.gamma = gamma

    def apply(self, losses: Tensor, shift: Tensor | None) -> LossTerms:
        if shift is None:
            shift = self.best_shift(losses[0])
        inner = torch.sub(losses, shift).mul_(1.0 / self.gamma).exp_()[:, None]
        return LossTerms(inner, inner, None, None, shift, inner_is_positive=True, slope_scale=1.0 / self.gamma)

    def bends(self, losses: Tensor, weights: Tensor, shift: Tensor) -> LossBends:
        slope = torch.sub(losses, shift).mul_(1.0 / self.gamma).exp_().mul_(weights[0] / self.gamma)
        return LossBends(slope, slope / self.gamma)

    def safe_shift(self, losses: Tensor, shift: Tensor | None) -> Tensor | None:
        if shift is None:
            shift = self.best_shift(losses[0])
        # An empty part of a draw (more processes than rows) has no largest element.
        if losses.shape[1] == 0:
            return shift
        largest = losses.max()
        return largest if float(largest - shift) > self.gamma * LARGEST_EXPONENT[losses.dtype] else shift

    def best_shift(self, losses: Tensor) -> Tensor:
        """Return the shift at which the mean of `g` over these losses is exactly one."""
        return self.gamma * (torch.logsumexp(losses / self.gamma, dim=0) - math.log(max(losses.numel(), 1)))

    def rescale(self, inner: Tensor, old: Tensor, new: Tensor) -> Tensor:
        return inner * ((old - new) / self.gamma).exp()


class KLToComposite(Reformulation):
    """KL-penalised robust risk as `gamma ln mean exp(f_i / gamma)`; equivalent, same variables."""

    name = "kl_penalty"
    consumes = RobustRisk
    produces = Composite

    def accepts(self, form: Any) -> bool:
        return isinstance(form, RobustRisk) and isinstance(form.ambiguity, KLPenalty)

    def apply(self, form: RobustRisk, options: ReformulationConfig) -> Composite:
        assert isinstance(form.ambiguity, KLPenalty)
        gamma = form.ambiguity.gamma
        return LossComposite(form.losses, ExponentialTilt(gamma), ScaledLog(gamma), form.regularizer)


class VarianceTerms(LossTransform):
    """`h_i = f_i + (f_i - centre)^2 / (2 gamma)`, `g_i = f_i`."""

    outputs = 1
    has_losses = True

    def __init__(self, gamma: float, centre: float) -> None:
        self.gamma = gamma
        self.centre = centre

    def apply(self, losses: Tensor, shift: Tensor | None) -> LossTerms:
        distance = (losses - self.centre) / self.gamma
        loss = losses + 0.5 * distance * (losses - self.centre)
        inner = losses[:, None]
        return LossTerms(inner, torch.ones_like(inner), loss, 1.0 + distance, losses.new_zeros(()))

    def bends(self, losses: Tensor, weights: Tensor, shift: Tensor) -> LossBends:
        slope = 1.0 + (losses - self.centre) / self.gamma + weights[0]
        return LossBends(slope, torch.full_like(losses, 1.0 / self.gamma))


class Chi2VarianceToComposite(Reformulation):
    """Mean plus variance; equivalent, same variables."""

    name = "chi2_variance"
    consumes = RobustRisk
    produces = Composite

    def accepts(self, form: Any) -> bool:
        return isinstance(form, RobustRisk) and isinstance(form.ambiguity, Chi2Variance)

    def apply(self, form: RobustRisk, options: ReformulationConfig) -> Composite:
        assert isinstance(form.ambiguity, Chi2Variance)
        gamma = form.ambiguity.gamma
        # Any constant is right; one near the losses keeps the two squares from cancelling.
        centre = float(form.losses.values(form.losses.origin()).mean())
        outer = NegativeSquare(gamma, centre)
        return LossComposite(form.losses, VarianceTerms(gamma, centre), outer, form.regularizer)


class LiftedDivergence(Reformulation):
    """A divergence whose dual has scalar variables, mostly one: `(x, u)` instead of `x`; recovering forgets `u`."""

    consumes = RobustRisk
    produces = Composite
    ambiguity: type[AmbiguitySet]

    def accepts(self, form: Any) -> bool:
        return isinstance(form, RobustRisk) and isinstance(form.ambiguity, self.ambiguity)

    def apply(self, form: RobustRisk, options: ReformulationConfig) -> Composite:
        self.form = form
        return self.lifted(form.losses, form.ambiguity, form.regularizer, options)

    @abstractmethod
    def lifted(
        self, losses: Losses, ambiguity: Any, regularizer: Regularizer, options: ReformulationConfig
    ) -> LiftedComposite:
        """Return the composite over `(x, u)`."""

    @abstractmethod
    def first_dual(self, losses: Tensor) -> float | Tensor:
        """Return a good start for `u`, given the losses at the start; of several `u`, a vector."""

    def lift(self, point: Tensor) -> Tensor:
        dual = self.first_dual(self.form.losses.values(point))
        return torch.cat([point, torch.as_tensor(dual, dtype=point.dtype, device=point.device).reshape(-1)])

    def recover(self, point: Tensor) -> Tensor:
        return point[: self.form.dimension]


class Chi2PenaltyTerms(DualTransform):
    """`h_i = (f_i - e + gamma)_+^2 / (2 gamma) - gamma / 2`."""

    outputs = 0
    has_losses = True
    duals = 1

    def __init__(self, gamma: float) -> None:
        self.gamma = gamma

    def apply(self, losses: Tensor, duals: Tensor, shift: Tensor | None) -> DualTerms:
        # s + s^2 / (2 gamma) with s >= -gamma: the same number without cancellation at a large gamma.
        excess = (losses - duals).clamp(min=-self.gamma)
        slope = 1.0 + excess / self.gamma
        terms = LossTerms(None, None, 0.5 * excess * (1.0 + slope), slope, losses.new_zeros(()))
        return DualTerms(terms, None, -slope[:, None])

    def bends(self, losses: Tensor, duals: Tensor, weights: Tensor, shift: Tensor) -> DualBends:
        excess = losses - duals
        slope = (1.0 + excess / self.gamma).clamp(min=0.0)
        return of_difference(slope, (excess > -self.gamma).to(losses.dtype) / self.gamma)


class Chi2PenaltyToComposite(LiftedDivergence):
    """Exact chi-square penalty, weights kept non-negative; equivalent."""

    name = "chi2_penalty"
    ambiguity = Chi2Penalty

    def lifted(
        self, losses: Losses, ambiguity: Chi2Penalty, regularizer: Regularizer, options: ReformulationConfig
    ) -> LiftedComposite:
        parts = Blocks(losses.dimension, regularizer, slope_one(losses))
        terms = Chi2PenaltyTerms(ambiguity.gamma)
        return LiftedComposite(losses, terms, NoOuter(), parts, profile=DualProfile(terms, NoOuter(), 1.0))

    def first_dual(self, losses: Tensor) -> float:
        assert isinstance(self.form.ambiguity, Chi2Penalty)
        return float(self.form.ambiguity.threshold(losses))


class Chi2BallTerms(DualTransform):
    """`g_i = (f_i - e)_+^2`."""

    outputs = 1
    has_losses = False
    duals = 1

    def apply(self, losses: Tensor, duals: Tensor, shift: Tensor | None) -> DualTerms:
        excess = (losses - duals).clamp(min=0.0)[:, None]
        terms = LossTerms(excess.square(), 2.0 * excess, None, None, losses.new_zeros(()), inner_is_positive=True)
        return DualTerms(terms, -2.0 * excess[:, :, None], None)

    def bends(self, losses: Tensor, duals: Tensor, weights: Tensor, shift: Tensor) -> DualBends:
        excess = (losses - duals).clamp(min=0.0)
        return of_difference(2.0 * weights[0] * excess, 2.0 * weights[0] * (excess > 0.0).to(losses.dtype))


class Chi2BallToComposite(LiftedDivergence):
    """Chi-square ball, its root smoothed by `delta = gamma^2`: the value is at most `sqrt(1 + 2 radius) gamma` high.

    Where all losses are equal the root has its kink, hence the stages.
    """

    name = "chi2_ball"
    ambiguity = Chi2Ball
    default_widths = (1.0, 0.3, 0.1, 0.03, 0.01)

    def lifted(
        self, losses: Losses, ambiguity: Chi2Ball, regularizer: Regularizer, options: ReformulationConfig
    ) -> LiftedComposite:
        width = options.width(self.default_widths[-1])
        factor, terms = 1.0 + 2.0 * ambiguity.radius, Chi2BallTerms()
        outer = SmoothedRoot(factor, width * width)
        parts = Blocks(losses.dimension, regularizer, slope_one(losses))
        profiles = DualProfile(terms, outer, 1.0), DualProfile(terms, SmoothedRoot(factor, _TINY * _TINY), 1.0)
        composite = LiftedComposite(losses, terms, outer, parts, profile=profiles[0], exact=profiles[1])
        composite.smoothing_error = math.sqrt(factor) * width
        return composite

    def first_dual(self, losses: Tensor) -> float:
        return float(losses.mean())


class CVaRTerms(DualTransform):
    """`h_i = width softplus((f_i - e) / width) / level`; at width 0 the hinge itself, for searches alone."""

    outputs = 0
    has_losses = True
    duals = 1

    def __init__(self, level: float, width: float) -> None:
        self.level = level
        self.width = width

    def apply(self, losses: Tensor, duals: Tensor, shift: Tensor | None) -> DualTerms:
        excess = losses - duals
        if self.width > 0.0:
            hinge, slope = smooth_hinge(excess, self.width)
        else:
            hinge, slope = excess.clamp(min=0.0), (excess > 0.0).to(excess.dtype)
        slope = slope / self.level
        terms = LossTerms(None, None, hinge / self.level, slope, losses.new_zeros(()))
        return DualTerms(terms, None, -slope[:, None])

    def bends(self, losses: Tensor, duals: Tensor, weights: Tensor, shift: Tensor) -> DualBends:
        excess = losses - duals
        slope = smooth_hinge(excess, self.width)[1] / self.level
        return of_difference(slope, smooth_hinge_bend(excess, self.width) / self.level)


class CVaRToComposite(LiftedDivergence):
    """CVaR with a smoothed hinge of width `gamma`: the value is at most `gamma ln 2 / level` high."""

    name = "cvar"
    ambiguity = CVaR
    default_widths = (0.1, 0.03, 0.01, 0.003, 0.001)

    def width_for(self, form: RobustRisk, error: float, options: ReformulationConfig) -> float:
        assert isinstance(form.ambiguity, CVaR)
        return error * form.ambiguity.level / math.log(2.0)

    def lifted(
        self, losses: Losses, ambiguity: CVaR, regularizer: Regularizer, options: ReformulationConfig
    ) -> LiftedComposite:
        terms = CVaRTerms(ambiguity.level, options.width(self.default_widths[-1]))
        parts = Blocks(losses.dimension, regularizer, slope_one(losses))
        profile = DualProfile(terms, NoOuter(), 1.0)
        exact = DualProfile(CVaRTerms(ambiguity.level, 0.0), NoOuter(), 1.0)
        composite = LiftedComposite(losses, terms, NoOuter(), parts, profile=profile, exact=exact)
        composite.smoothing_error = terms.width * math.log(2.0) / ambiguity.level
        return composite

    def first_dual(self, losses: Tensor) -> float:
        assert isinstance(self.form.ambiguity, CVaR)
        # Not torch's, which stops at 2^24 losses.
        return float(np.quantile(losses.cpu().numpy(), 1.0 - self.form.ambiguity.level))


class TemperatureTilt(DualTransform):
    """`g_i = (exp((f_i - c) / t), t)`."""

    outputs = 2
    has_losses = False
    duals = 1
    uses_shift = True

    def apply(self, losses: Tensor, duals: Tensor, shift: Tensor | None) -> DualTerms:
        if shift is None:
            shift = ExponentialTilt(float(duals[0, 0])).best_shift(losses[0])
        exponents = (losses - shift) / duals
        powers = exponents.exp()
        inner = torch.stack([powers, duals.expand_as(losses)], dim=1)
        slope = torch.stack([powers / duals, torch.zeros_like(powers)], dim=1)
        by_temperature = torch.stack([-powers * exponents / duals, torch.ones_like(powers)], dim=1)[:, :, None]
        terms = LossTerms(inner, slope, None, None, shift, inner_is_positive=True)
        return DualTerms(terms, by_temperature, None)

    def bends(self, losses: Tensor, duals: Tensor, weights: Tensor, shift: Tensor) -> DualBends:
        temperature = duals[0]
        exponents = (losses - shift) / temperature
        slope = exponents.exp() * (weights[0] / temperature)
        bend = slope / temperature
        mixed = -bend * (exponents + 1.0)
        twice = bend * exponents * (exponents + 2.0)
        return DualBends(slope, bend, mixed[None], twice[None, None])

    def at_shift(self, value: Tensor, jacobian: Tensor, old: Tensor, new: Tensor) -> tuple[Tensor, Tensor]:
        """Both powers scale by `k = exp((old - new) / t)`; by `t`, `-(f - new) = -(f - old) + (new - old)`."""
        temperature = value[..., 1]
        factor = ((old - new) / temperature).exp()
        power = value[..., 0] * factor
        row = jacobian[..., 0, :] * factor[..., None]
        row[..., -1] += power * (new - old) / temperature.square()
        return torch.stack([power, temperature], dim=-1), torch.stack([row, jacobian[..., 1, :]], dim=-2)

    def best_shift(self, value: Tensor, shift: Tensor) -> Tensor:
        return shift + value[1] * value[0].log()


class KLBallToComposite(LiftedDivergence):
    """KL ball with the temperature as a variable, kept above `gamma`: at most `gamma max(radius, ln m)` high.

    Where all losses are equal, as at the start of a linear model, the best temperature is zero and the curvature there
    infinite; the bound therefore sinks in stages, and matters only if the final temperature is that small.
    """

    name = "kl_ball"
    ambiguity = KLBall
    default_widths = (1.0, 0.3, 0.1, 0.03, 0.01)

    def lifted(
        self, losses: Losses, ambiguity: KLBall, regularizer: Regularizer, options: ReformulationConfig
    ) -> LiftedComposite:
        width, terms = options.width(self.default_widths[-1]), TemperatureTilt()
        lowest = Box(width, math.inf)
        temperature = Affine(losses.origin().new_tensor([ambiguity.radius]), base=lowest)
        parts = Blocks(losses.dimension, regularizer, temperature)
        profile = DualProfile(terms, Perspective(), ambiguity.radius, lambda _parameters: width)
        exact = DualProfile(terms, Perspective(), ambiguity.radius, lambda _parameters: _TINY)
        composite = LiftedComposite(losses, terms, Perspective(), parts, profile=profile, exact=exact)
        composite.smoothing_error = width * max(ambiguity.radius, math.log(max(losses.samples, 2)))
        return composite

    def first_dual(self, losses: Tensor) -> float:
        return self.default_widths[0]


def slope_one(losses: Losses) -> Affine:
    """`r(e) = e`: the dual variable itself is a term of the objective."""
    return Affine(losses.origin().new_ones(1), base=Zero())

"""Adversaries with a conjugate, balls of any order and spectral risks as composites; each adds scalar variables.

    price            e + mean phi*(f_i - e)                                 h only
    Cressie-Read     e + c (mean (f_i - e)_+^k*)^(1 / k*)                   g = (f - e)_+^k*, f(y) = c (y + s^k*)^(1/k*)
    spectral         sum_j share_j [e_j + mean (f_i - e_j)_+ / level_j]     h only

Slopes of `phi*` that are not Lipschitz are made so by a price `(s / 2) t^2` more, which for a width `s` lowers the
value by at most `s / 2` times the mean of the squared ratios `t = m q_i`. The hinges of a spectral risk become
conjugates of a KL price `s` under the cap, which lowers each CVaR by at most `s ln(1 / level)`. Soft hinges would raise
it by `s ln 2 / level`, and total variation has a part with a level of `1 / m`.
"""

import math
from typing import Any

import torch
from torch import Tensor

from drobench.objective.composites.lifted import (
    DualBends,
    DualProfile,
    DualTerms,
    DualTransform,
    LiftedComposite,
    MixtureProfile,
    of_difference,
)
from drobench.objective.composites.losses import LossTerms
from drobench.objective.divergence_prices import DivergencePrice
from drobench.objective.forms import RobustRisk
from drobench.objective.losses import Losses
from drobench.objective.outer_functions import NoOuter, SmoothedPower
from drobench.objective.power_divergences import CressieReadBall
from drobench.objective.regularizers import Affine, Blocks, Regularizer
from drobench.objective.score_losses import smooth_hinge, smooth_hinge_bend
from drobench.objective.tail_risks import CappedKL, SpectralRisk
from drobench.reformulation.divergence import CVaRTerms, LiftedDivergence, slope_one
from drobench.reformulation.reformulation import ReformulationConfig

_TINY = 1e-12


class PriceTerms(DualTransform):
    """`h_i = phi*(f_i - e)`, smoothed by a width above zero."""

    outputs = 0
    has_losses = True
    duals = 1

    def __init__(self, price: DivergencePrice, width: float = 0.0) -> None:
        self.price = price
        self.width = width

    def apply(self, losses: Tensor, duals: Tensor, shift: Tensor | None) -> DualTerms:
        excess = losses - duals
        values, slopes = self.price.smoothed(excess, self.width) if self.width else self.price.conjugate(excess)
        return DualTerms(LossTerms(None, None, values, slopes, losses.new_zeros(())), None, -slopes[:, None])

    def bends(self, losses: Tensor, duals: Tensor, weights: Tensor, shift: Tensor) -> DualBends:
        excess = losses - duals
        slope = self.apply(losses[None], duals[None], None).terms.loss_slope
        assert slope is not None
        bend = self.price.smoothed_bend(excess, self.width) if self.width else self.price.bend(excess)
        return of_difference(slope[0], bend)


class PriceToComposite(LiftedDivergence):
    """An adversary with a conjugate whose slopes are Lipschitz; equivalent."""

    name = "price"
    ambiguity = DivergencePrice

    def accepts(self, form: Any) -> bool:
        return super().accepts(form) and form.ambiguity.slopes == "lipschitz"

    def lifted(
        self, losses: Losses, ambiguity: DivergencePrice, regularizer: Regularizer, options: ReformulationConfig
    ) -> LiftedComposite:
        terms = PriceTerms(ambiguity)
        parts = Blocks(losses.dimension, regularizer, slope_one(losses))
        return LiftedComposite(losses, terms, NoOuter(), parts, profile=DualProfile(terms, NoOuter(), 1.0))

    def first_dual(self, losses: Tensor) -> float:
        assert isinstance(self.form.ambiguity, DivergencePrice)
        return self.form.ambiguity.threshold(losses)


class SmoothedPriceToComposite(PriceToComposite):
    """An adversary with a conjugate whose slopes are steep or jump, smoothed by a chi-square price of width `gamma`."""

    name = "smoothed_price"
    default_widths = (0.1, 0.03, 0.01, 0.003, 0.001)

    def accepts(self, form: Any) -> bool:
        return LiftedDivergence.accepts(self, form) and form.ambiguity.slopes != "lipschitz"

    def width_for(self, form: RobustRisk, error: float, options: ReformulationConfig) -> float:
        assert isinstance(form.ambiguity, DivergencePrice)
        return 2.0 * error / _largest_ratio(form.ambiguity, form.losses)

    def lifted(
        self, losses: Losses, ambiguity: DivergencePrice, regularizer: Regularizer, options: ReformulationConfig
    ) -> LiftedComposite:
        terms = PriceTerms(ambiguity, options.width(self.default_widths[-1]))
        parts = Blocks(losses.dimension, regularizer, slope_one(losses))
        profile, exact = (DualProfile(one, NoOuter(), 1.0) for one in (terms, PriceTerms(ambiguity)))
        composite = LiftedComposite(losses, terms, NoOuter(), parts, profile=profile, exact=exact)
        # The ratios have the mean one, so that the mean of their squares is at most the largest.
        composite.smoothing_error = 0.5 * terms.width * _largest_ratio(ambiguity, losses)
        return composite


def _largest_ratio(ambiguity: DivergencePrice, losses: Losses) -> float:
    return min(ambiguity.largest_ratio, float(max(losses.samples, 1)))


class PowerTerms(DualTransform):
    """`g_i = (f_i - e)_+^p`, the hinge soft where a width is given."""

    outputs = 1
    has_losses = False
    duals = 1

    def __init__(self, power: float, width: float = 0.0) -> None:
        self.power = power
        self.width = width

    def apply(self, losses: Tensor, duals: Tensor, shift: Tensor | None) -> DualTerms:
        hinge, rise = self._hinge(losses - duals)
        slopes = (self.power * hinge.pow(self.power - 1.0) * rise)[:, None]
        powers = hinge.pow(self.power)[:, None]
        terms = LossTerms(powers, slopes, None, None, losses.new_zeros(()), inner_is_positive=True)
        return DualTerms(terms, -slopes[:, :, None], None)

    def bends(self, losses: Tensor, duals: Tensor, weights: Tensor, shift: Tensor) -> DualBends:
        hinge, rise = self._hinge(losses - duals)
        steep = self.power * weights[0] * hinge.pow(self.power - 1.0)
        curved = torch.where(hinge > 0.0, (self.power - 1.0) * steep / hinge.clamp(min=1e-300), 0.0)
        kink = smooth_hinge_bend(losses - duals, self.width) if self.width else torch.zeros_like(hinge)
        return of_difference(steep * rise, curved * rise.square() + steep * kink)

    def _hinge(self, excess: Tensor) -> tuple[Tensor, Tensor]:
        if self.width:
            return smooth_hinge(excess, self.width)
        return excess.clamp(min=0.0), (excess > 0.0).to(excess.dtype)


class PowerBallToComposite(LiftedDivergence):
    """A Cressie-Read ball, its root smoothed by `s^k*`, for `k > 2` with a soft hinge too.

    By Minkowski's inequality the value is at most `c s` high, and with the soft hinge `c s (1 + ln 2)`.
    """

    name = "cressie_read_ball"
    ambiguity = CressieReadBall
    default_widths = (1.0, 0.3, 0.1, 0.03, 0.01)

    def width_for(self, form: RobustRisk, error: float, options: ReformulationConfig) -> float:
        assert isinstance(form.ambiguity, CressieReadBall)
        return error / _error_per_width(form.ambiguity)

    def lifted(
        self, losses: Losses, ambiguity: CressieReadBall, regularizer: Regularizer, options: ReformulationConfig
    ) -> LiftedComposite:
        width, power = options.width(self.default_widths[-1]), ambiguity.dual_order
        terms = PowerTerms(power, width if ambiguity.order > 2.0 else 0.0)
        outer, sharp = (SmoothedPower(ambiguity.factor, 1.0 / power, size**power) for size in (width, _TINY))
        parts = Blocks(losses.dimension, regularizer, slope_one(losses))
        profiles = DualProfile(terms, outer, 1.0), DualProfile(PowerTerms(power), sharp, 1.0)
        composite = LiftedComposite(losses, terms, outer, parts, profile=profiles[0], exact=profiles[1])
        composite.smoothing_error = width * _error_per_width(ambiguity)
        return composite

    def first_dual(self, losses: Tensor) -> float:
        return float(losses.mean())


def _error_per_width(ambiguity: CressieReadBall) -> float:
    return ambiguity.factor * (1.0 + math.log(2.0) if ambiguity.order > 2.0 else 1.0)


class SpectralTerms(DualTransform):
    """`h_i = sum_j share_j phi_j*(f_i - e_j)` for the conjugates `phi_j*` of KL under the caps of the levels."""

    outputs = 0
    has_losses = True

    def __init__(self, parts: tuple[tuple[float, float], ...], width: float) -> None:
        self.prices = [CappedKL(level, width) for level, _ in parts]
        self.shares = [share for _, share in parts]
        self.duals = len(parts)

    def apply(self, losses: Tensor, duals: Tensor, shift: Tensor | None) -> DualTerms:
        found = [price.conjugate(losses - dual[:, None]) for price, dual in zip(self.prices, duals.T, strict=True)]
        shares = losses.new_tensor(self.shares)[:, None, None]
        values, slopes = (shares * torch.stack(part) for part in zip(*found, strict=True))
        terms = LossTerms(None, None, values.sum(dim=0), slopes.sum(dim=0), losses.new_zeros(()))
        return DualTerms(terms, None, -slopes.movedim(0, 1))

    def bends(self, losses: Tensor, duals: Tensor, weights: Tensor, shift: Tensor) -> DualBends:
        terms = self.apply(losses[None], duals[None], None).terms
        assert terms.loss_slope is not None
        found = [price.bend(losses - dual) for price, dual in zip(self.prices, duals, strict=True)]
        bends = losses.new_tensor(self.shares)[:, None] * torch.stack(found)
        by_duals = torch.diag_embed(bends.T).movedim(0, -1)
        return DualBends(terms.loss_slope[0], bends.sum(dim=0), -bends, by_duals)


class SpectralToComposite(LiftedDivergence):
    """A mixture of CVaRs, each with a variable of its own and smoothed by a KL price of width `gamma`."""

    name = "spectral"
    ambiguity = SpectralRisk
    default_widths = (0.1, 0.03, 0.01, 0.003, 0.001)

    def width_for(self, form: RobustRisk, error: float, options: ReformulationConfig) -> float:
        assert isinstance(form.ambiguity, SpectralRisk)
        # With level 1 alone nothing is smoothed at all.
        return error / max(_spread(form.ambiguity.parts(form.losses.samples)), _TINY)

    def lifted(
        self, losses: Losses, ambiguity: SpectralRisk, regularizer: Regularizer, options: ReformulationConfig
    ) -> LiftedComposite:
        found, width = ambiguity.parts(losses.samples), options.width(self.default_widths[-1])
        levels, shares = zip(*found, strict=True)
        parts = Blocks(losses.dimension, regularizer, Affine(losses.origin().new_tensor(shares)))
        smooth, exact = (
            MixtureProfile(tuple(DualProfile(terms, NoOuter(), 1.0) for terms in by_level), shares)
            for by_level in (
                [PriceTerms(CappedKL(level, width)) for level in levels],
                [CVaRTerms(level, 0.0) for level in levels],
            )
        )
        terms = SpectralTerms(found, width)
        composite = LiftedComposite(losses, terms, NoOuter(), parts, profile=smooth, exact=exact)
        composite.smoothing_error = width * _spread(found)
        return composite

    def first_dual(self, losses: Tensor) -> Tensor:
        assert isinstance(self.form.ambiguity, SpectralRisk)
        ranks = [math.ceil(level * losses.numel()) - 1 for level, _ in self.form.ambiguity.parts(losses.numel())]
        return losses.sort(descending=True).values[torch.tensor(ranks, device=losses.device)]


def _spread(parts: tuple[tuple[float, float], ...]) -> float:
    """Return by how much a width of one lowers the value at most: the mean of the largest KL under each cap."""
    return sum(share * -math.log(level) for level, share in parts)

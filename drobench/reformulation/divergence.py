"""Divergence penalties as composites.

KL: `max over p of sum p_i f_i - gamma KL(p || 1/m) = gamma ln mean exp(f_i / gamma)`. With a shift `c`,
`g_i = exp((f_i - c) / gamma)` and `f(y) = gamma ln(y) + c`; there is no `h`. Value, Jacobian and their recursive
estimates at two shifts differ by one factor, so the direction `f'(y) z = gamma z / y` does not depend on the shift.
"""

import math
from typing import Any

import torch
from torch import Tensor

from drobench.objective.ambiguity_sets import KLPenalty
from drobench.objective.composite import Composite, LossComposite, LossTerms, LossTransform
from drobench.objective.forms import RobustRisk
from drobench.objective.outer_functions import ScaledLog
from drobench.reformulation.reformulation import Reformulation, ReformulationConfig

# exp overflows at 88 in float32 and at 709 in float64; sums and products of the results need room above.
_LARGEST_EXPONENT = {torch.float32: 60.0, torch.float64: 500.0}


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
        exponents = (losses - shift) / self.gamma
        # An empty part of a draw (more processes than rows) has no largest element.
        if losses.shape[1] and float(largest := exponents.max()) > _LARGEST_EXPONENT[losses.dtype]:
            shift = shift + self.gamma * largest
            exponents = exponents - largest
        inner = exponents.exp()[:, None]
        return LossTerms(inner, inner / self.gamma, None, None, shift, inner_is_positive=True)

    def best_shift(self, losses: Tensor) -> Tensor:
        """Return the shift at which the mean of `g` over these losses is exactly one."""
        return self.gamma * (torch.logsumexp(losses / self.gamma, dim=0) - math.log(max(losses.numel(), 1)))

    def rescale(self, inner: Tensor, old: Tensor, new: Tensor) -> Tensor:
        return inner * ((old - new) / self.gamma).exp()


class KLToComposite(Reformulation):
    """KL-penalised robust risk as `gamma ln mean exp(f_i / gamma)`; equivalent, same variables."""

    name = "kl_penalty"
    produces = Composite

    def accepts(self, form: Any) -> bool:
        return isinstance(form, RobustRisk) and isinstance(form.ambiguity, KLPenalty)

    def apply(self, form: RobustRisk, options: ReformulationConfig) -> Composite:
        assert isinstance(form.ambiguity, KLPenalty)
        gamma = form.ambiguity.gamma
        return LossComposite(form.losses, ExponentialTilt(gamma), ScaledLog(gamma), form.regularizer)

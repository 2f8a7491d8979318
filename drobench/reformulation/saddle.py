"""Saddle forms: the adversary's variables stay variables, for solvers that know only an operator and a projection.

Divergences:  `L(x, q) = r(x) + sum q_i f_i(x) - D(q)` over weights `q` on the simplex, or on a ball or cap within it.
Wasserstein:  `L(x, lam, c) = r(x) + lam (radius - kappa/2) + mean [l(t_i) + t_i/2 + c_i (t_i - lam kappa)/2]` over
              `|x|_* <= lam` and `c` in `[-1, 1]^m`; maximised over `c` this is the reduced form.

The operator is `(grad_x L, -grad_q L)`, estimated from any rows without bias: sums over them are scaled by m / |rows|.
"""

import math
from typing import Any

import torch
from torch import Tensor

from drobench.objective.ambiguity_sets import AmbiguitySet, Chi2Ball, Chi2Penalty, CVaR, KLPenalty
from drobench.objective.divergence_prices import DivergencePrice
from drobench.objective.forms import MinMax, NativeForm, RobustRisk
from drobench.objective.losses import LogisticLoss
from drobench.objective.regularizers import NormCone, Simplex
from drobench.objective.sampling import Rows
from drobench.objective.wasserstein import WassersteinRisk
from drobench.objective.weights import under_cap
from drobench.reformulation.reformulation import Reformulation, ReformulationConfig

# The slope of the KL penalty is infinite at zero weight.
SMALLEST_WEIGHT = 1e-12
_BISECTIONS = 100
# Those whose penalty has a slope, and whose set a projection, that are known.
_ADVERSARIES = (KLPenalty, Chi2Penalty, Chi2Ball, CVaR, DivergencePrice)


class DivergenceSaddle(MinMax):
    """`(x, q)` with `m` weights `q`."""

    def __init__(self, form: RobustRisk) -> None:
        self.form = form
        self.samples = form.losses.samples
        self.parameters = form.dimension
        self.dimension = self.parameters + self.samples

    def start(self, point: Tensor) -> Tensor:
        return torch.cat([point, point.new_full((self.samples,), 1.0 / self.samples)])

    def value(self, joint: Tensor) -> Tensor:
        """Return `L(x, q)`."""
        point, weights = joint[: self.parameters], joint[self.parameters :]
        risk = weights.dot(self.form.losses.values(point)) - self.form.ambiguity.penalty(weights)
        return self.form.regularizer.value(point) + risk

    def operator(self, joint: Tensor, rows: Rows) -> Tensor:
        point, weights = joint[: self.parameters], joint[self.parameters :]
        assert rows.samples is not None
        losses, pullback = self.form.losses.linearize(point[None], rows.samples)
        scale = self.samples / max(losses.shape[1], 1)
        by_point = pullback(scale * weights[rows.samples][None, None])[0, 0] + self.form.regularizer.gradient(point)
        by_weights = penalty_slope(self.form.ambiguity, weights)
        numbers = torch.arange(self.samples, device=joint.device)[rows.samples]
        return torch.cat([by_point, by_weights.index_add(0, numbers, -scale * losses[0])])

    def project(self, joint: Tensor) -> Tensor:
        point, weights = joint[: self.parameters], joint[self.parameters :]
        return torch.cat([point, project_weights(self.form.ambiguity, weights)])

    def scales(self, joint: Tensor) -> Tensor:
        """Weights are about `1/m`."""
        return torch.cat([joint.new_ones(self.parameters), joint.new_full((self.samples,), 1.0 / self.samples)])

    def mirror_step(self, joint: Tensor, operator: Tensor, step_size: float, adversary_step: float) -> Tensor:
        """Under a KL penalty the weights move by factors, else in straight lines followed by a projection.

        With `s` the estimate of the losses in `operator` and the step `t`, the weights of a KL penalty become

            argmax <s, q> - gamma KL(q, 1/m) - KL(q, q_old) / t,  proportional to  (q_old exp(t s))^(1 / (1 + t gamma))

        so that the penalty, whose slope is infinite at zero weight, is not linearised.
        """
        point, weights = joint[: self.parameters], joint[self.parameters :]
        moved = point - step_size * operator[: self.parameters]
        against, scale, ambiguity = operator[self.parameters :], 1.0 / self.samples, self.form.ambiguity
        if not isinstance(ambiguity, KLPenalty):
            return torch.cat([moved, project_weights(ambiguity, weights - adversary_step * scale**2 * against)])
        losses = penalty_slope(ambiguity, weights) - against
        # The metric of the entropy at q is 1/q, about 1/scale: one scale less than in straight lines.
        step = adversary_step * scale
        logarithms = weights.clamp(min=SMALLEST_WEIGHT).log()
        return torch.cat([moved, torch.softmax((logarithms + step * losses) / (1.0 + step * ambiguity.gamma), dim=0)])


def penalty_slope(ambiguity: AmbiguitySet, weights: Tensor) -> Tensor:
    """Return the derivative of the adversary's penalty by the weights; zero inside a ball or under a cap."""
    if isinstance(ambiguity, KLPenalty):
        return ambiguity.gamma * ((weights.clamp(min=SMALLEST_WEIGHT) * weights.numel()).log() + 1.0)
    if isinstance(ambiguity, Chi2Penalty):
        return ambiguity.gamma * (weights * weights.numel() - 1.0)
    if isinstance(ambiguity, DivergencePrice):
        return ambiguity.price_and_slope(weights.clamp(min=SMALLEST_WEIGHT) * weights.numel())[1]
    return torch.zeros_like(weights)


def project_weights(ambiguity: AmbiguitySet, weights: Tensor) -> Tensor:
    """Return the nearest weights that the adversary may choose."""
    if isinstance(ambiguity, CVaR):
        return ambiguity.nearest(weights)
    if isinstance(ambiguity, DivergencePrice) and math.isfinite(ambiguity.largest_ratio):
        return under_cap(weights, min(1.0, ambiguity.largest_ratio / weights.numel()))
    simplex = Simplex()
    projected = simplex.project(weights)
    if not isinstance(ambiguity, Chi2Ball):
        return projected
    # Around the uniform weights the ball is Euclidean; the nearest point of both sets is a projection on the simplex of
    # a point pulled towards the centre, just far enough.
    centre, total = 1.0 / weights.numel(), weights.numel()

    def excess(candidate: Tensor) -> float:
        return 0.5 * total * float((candidate - centre).square().sum()) - ambiguity.radius

    if excess(projected) <= 0.0:
        return projected
    low, high = 0.0, 1.0
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        inside = excess(simplex.project(centre + middle * (weights - centre))) <= 0.0
        low, high = (middle, high) if inside else (low, middle)
    return simplex.project(centre + low * (weights - centre))


class WassersteinSaddle(MinMax):
    """`(x, lam, c)` with `m` multipliers `c` in `[-1, 1]`."""

    def __init__(self, form: WassersteinRisk) -> None:
        self.form = form
        self.samples = form.margins.samples
        self.parameters = form.dimension
        self.dimension = self.parameters + 1 + self.samples

    def start(self, point: Tensor) -> Tensor:
        bound = point.new_ones(1)
        flips = (self.form.margins.values(point) - bound * self.form.flip_cost).sign()
        return self.project(torch.cat([point, bound, flips]))

    def value(self, joint: Tensor) -> Tensor:
        """Return `L(x, lam, c)`."""
        point, bound, multipliers = self._parts(joint)
        margins = self.form.margins.values(point)
        losses, _ = LogisticLoss().of_margin(margins)
        flips = 0.5 * multipliers * (margins - bound * self.form.flip_cost)
        linear = bound * (self.form.radius - 0.5 * self.form.flip_cost)
        return self.form.regularizer.value(point) + linear + (losses + 0.5 * margins + flips).mean()

    def operator(self, joint: Tensor, rows: Rows) -> Tensor:
        point, bound, multipliers = self._parts(joint)
        assert rows.samples is not None
        margins, pullback = self.form.margins.linearize(point[None], rows.samples)
        count = max(margins.shape[1], 1)
        _, slopes = LogisticLoss().of_margin(margins[0])
        chosen = multipliers[rows.samples]
        cotangents = (slopes + 0.5 + 0.5 * chosen) / count
        by_point = pullback(cotangents[None, None])[0, 0] + self.form.regularizer.gradient(point)
        by_bound = self.form.radius - 0.5 * self.form.flip_cost * (1.0 + chosen.sum() / count)
        numbers = torch.arange(self.samples, device=joint.device)[rows.samples]
        by_multipliers = torch.zeros_like(multipliers).index_add(
            0, numbers, -(margins[0] - bound * self.form.flip_cost) / (2.0 * count)
        )
        return torch.cat([by_point, by_bound[None], by_multipliers])

    def project(self, joint: Tensor) -> Tensor:
        point, bound, multipliers = self._parts(joint)
        inner = self.form.penalised(point)
        cone = NormCone(self.form.dual_norm).project(torch.cat([inner, bound[None]]))
        return torch.cat([cone[:-1], point[inner.numel() :], cone[-1:], multipliers.clamp(-1.0, 1.0)])

    def mirror_step(self, joint: Tensor, operator: Tensor, step_size: float, adversary_step: float) -> Tensor:
        """Straight lines for both players: a box and a cone have no better geometry."""
        steps = torch.full_like(joint, step_size)
        steps[self.parameters + 1 :] = adversary_step
        return self.project(joint - steps * operator)

    def _parts(self, joint: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return joint[: self.parameters], joint[self.parameters], joint[self.parameters + 1 :]


class ToSaddle(Reformulation):
    """The saddle form of a robust risk or of a Wasserstein problem; equivalent."""

    name = "saddle"
    consumes = NativeForm
    produces = MinMax

    def accepts(self, form: Any) -> bool:
        if isinstance(form, WassersteinRisk):
            return math.isfinite(form.flip_cost)
        return isinstance(form, RobustRisk) and isinstance(form.ambiguity, _ADVERSARIES)

    def apply(self, form: RobustRisk | WassersteinRisk, options: ReformulationConfig) -> MinMax:
        self.saddle = WassersteinSaddle(form) if isinstance(form, WassersteinRisk) else DivergenceSaddle(form)
        return self.saddle

    def lift(self, point: Tensor) -> Tensor:
        return self.saddle.start(point)

    def recover(self, point: Tensor) -> Tensor:
        return point[: self.saddle.parameters]

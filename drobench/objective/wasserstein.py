"""Logistic regression against all distributions within a Wasserstein ball around the sample.

Moving a sample costs `|z - z'| + (kappa / 2) |y - y'|`; `radius` bounds the mean cost. With the dual norm `|.|_*`,
margins `t_i = y_i <w, z_i>` and `l(t) = ln(1 + exp(-t))`, the worst-case risk of parameters `w` is

    F(w) = min over lam >= |w|_* of  radius lam + mean l(t_i) + mean (t_i - lam kappa)_+

whose minimiser is known in closed form. An intercept enters the margins but not the norm: transport moves features.
Reference: Shafieezadeh-Abadeh, Mohajerin Esfahani, Kuhn (NeurIPS 2015).
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from drobench.objective.forms import NativeForm
from drobench.objective.losses import LinearMarginLosses, LogisticLoss
from drobench.objective.regularizers import ElasticNet

DUAL_NORMS = {"l1": "linf", "l2": "l2", "linf": "l1"}
_ORDERS = {"l1": 1.0, "l2": 2.0, "linf": math.inf}


def norm_of(vector: Tensor, norm: str) -> Tensor:
    """Return the norm of a vector by its name."""
    size: Tensor = torch.linalg.vector_norm(vector, _ORDERS[norm])
    return size


@dataclass(frozen=True, eq=False)
class WassersteinRisk(NativeForm):
    """`(l2 / 2) |x|^2 + F(x)`, exact; `norm` is that of the transport cost, `free` the number of intercepts."""

    margins: LinearMarginLosses
    radius: float
    flip_cost: float
    norm: str
    regularizer: ElasticNet
    free: int = 0

    @property
    def dimension(self) -> int:  # type: ignore[override]  # read-only here
        return self.margins.dimension

    @property
    def samples(self) -> int:
        return self.margins.samples

    @property
    def dual_norm(self) -> str:
        """The norm that bounds the slope of the loss."""
        return DUAL_NORMS[self.norm]

    @property
    def convex(self) -> bool:
        return True

    def penalised(self, point: Tensor) -> Tensor:
        """Return the parameters without the intercept."""
        return point[: self.dimension - self.free]

    def best_bound(self, point: Tensor, margins: Tensor) -> Tensor:
        """Return the minimising `lam`."""
        lowest = norm_of(self.penalised(point), self.dual_norm)
        if math.isinf(self.flip_cost) or self.radius >= self.flip_cost:
            return lowest
        # Flipping pays for the largest margins, as many of them as the radius can pay for.
        affordable = math.floor(margins.numel() * self.radius / self.flip_cost)
        quantile = margins.kthvalue(margins.numel() - affordable).values
        return torch.maximum(lowest, quantile / self.flip_cost)

    def value(self, point: Tensor) -> Tensor:
        margins = self.margins.values(point)
        bound = self.best_bound(point, margins)
        losses, _ = LogisticLoss().of_margin(margins)
        risk = self.radius * bound + losses.mean()
        if math.isfinite(self.flip_cost):
            risk = risk + (margins - bound * self.flip_cost).clamp(min=0.0).mean()
        return self.regularizer.value(point) + risk

    def smooth_gradient(self, point: Tensor) -> Tensor:
        """Return a subgradient of `F`: by the envelope theorem the minimising `lam` counts only where `|x|_*` binds."""
        margins, pullback = self.margins.linearize(point[None], slice(None))
        flipped, price = self._flips(point, margins[0])
        _, slopes = LogisticLoss().of_margin(margins)
        gradient = pullback((slopes + flipped)[:, None] / margins.shape[1])[0, 0]
        inner = self.penalised(point)
        gradient[: inner.numel()] += price * norm_gradient(inner, self.dual_norm)
        return gradient

    def _flips(self, point: Tensor, margins: Tensor) -> tuple[Tensor, float]:
        """Return the share of each sample that is flipped at the best `lam`, and what is left for the norm."""
        if math.isinf(self.flip_cost):
            return torch.zeros_like(margins), self.radius
        bound = self.best_bound(point, margins)
        if bool(bound <= norm_of(self.penalised(point), self.dual_norm)):
            flipped = (margins > bound * self.flip_cost).to(margins.dtype)
            return flipped, self.radius - self.flip_cost * float(flipped.mean())
        # The bound is a quantile of the margins: flipping spends the whole radius, the last samples only in part.
        affordable = margins.numel() * self.radius / self.flip_cost
        quantile = margins.kthvalue(margins.numel() - math.floor(affordable)).values
        flipped, tied = (margins > quantile).to(margins.dtype), (margins == quantile).to(margins.dtype)
        return flipped + tied * ((affordable - float(flipped.sum())) / float(tied.sum())), 0.0


def norm_gradient(vector: Tensor, norm: str) -> Tensor:
    """Return a subgradient of a norm, zero at the origin."""
    if norm == "l1":
        return vector.sign()
    size = norm_of(vector, norm)
    if float(size) == 0.0:
        return torch.zeros_like(vector)
    if norm == "l2":
        return vector / size
    largest = vector.abs() >= size
    return vector.sign() * largest / largest.sum()

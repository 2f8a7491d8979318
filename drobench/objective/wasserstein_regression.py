"""Linear regression against all distributions within a Wasserstein ball around the sample.

A pair of features and target `(z, y)` moves by the norm of `(z - z', kappa (y - y'))`; `radius` bounds the mean cost.
With `|.|_*` the dual norm, `c = 1 / kappa` and `N(w) = |(w, c)|_*`; an infinite `kappa` keeps targets as they are:

    losses with a largest slope L   cost = distance       F(w) = mean l(r_i) + radius L N(w)
    squared loss                    cost = distance^2     F(w) = (sqrt(mean r_i^2) + sqrt(radius) N(w))^2

Both are exact: a convex loss rises nowhere faster than by `L`, and attains that slope far away; for squares the
adversary moves every pair in proportion to its residual. An intercept enters the residuals but not the norm.
References: Shafieezadeh-Abadeh, Kuhn, Mohajerin Esfahani (JMLR 2019), for the first; Blanchet, Kang, Murthy (J. Appl.
Probab. 2019) for the second.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from drobench.errors import DrobenchError
from drobench.objective.forms import NativeForm
from drobench.objective.losses import LinearTargetLosses
from drobench.objective.regression_losses import ResidualLoss, SquaredLoss
from drobench.objective.regularizers import ElasticNet
from drobench.objective.wasserstein import DUAL_NORMS, norm_gradient, norm_of
from drobench.objective.wasserstein_bounds import lipschitz_bound, squared_bound


def joint_norm(size: Tensor, offset: float, norm: str) -> tuple[Tensor, Tensor, Tensor]:
    """Return `|(w, offset)|` for `|w| = size` in a norm by its name, and its first two derivatives by the size."""
    one, zero = torch.ones_like(size), torch.zeros_like(size)
    if offset == 0.0:
        return size, one, zero
    if norm == "l1":
        return size + offset, one, zero
    if norm == "linf":
        return size.clamp(min=offset), (size > offset).to(size.dtype), zero
    total = (size.square() + offset * offset).sqrt()
    return total, size / total, offset * offset / total.pow(3)


@dataclass(frozen=True, eq=False)
class WassersteinRegressionRisk(NativeForm):
    """`(l2 / 2) |x|^2 + F(x)`, exact; `norm` is that of the transport cost, `free` the number of intercepts."""

    losses: LinearTargetLosses
    radius: float
    target_cost: float
    norm: str
    regularizer: ElasticNet
    free: int = 0

    def __post_init__(self) -> None:
        loss = self.losses.loss
        if not (isinstance(loss, ResidualLoss) and (self.squared or math.isfinite(loss.largest_slope))):
            raise DrobenchError(
                "A Wasserstein ball around the sample has a finite worst case for the squared loss, and for losses of "
                f"the residual whose `largest_slope` is finite; found {type(loss).__name__}. Choose another loss."
            )

    @property
    def squared(self) -> bool:
        """Whether the loss is the square, and the cost that of the squared distance."""
        return isinstance(self.losses.loss, SquaredLoss)

    @property
    def price(self) -> float:
        """What the norm is multiplied by: `radius L`, or `sqrt(radius)` inside the square."""
        loss = self.losses.loss
        assert isinstance(loss, ResidualLoss)
        return math.sqrt(self.radius) if self.squared else self.radius * loss.largest_slope

    @property
    def offset(self) -> float:
        """`c`."""
        return 0.0 if math.isinf(self.target_cost) else 1.0 / self.target_cost

    @property
    def dimension(self) -> int:  # type: ignore[override]  # read-only here
        return self.losses.dimension

    @property
    def samples(self) -> int:
        return self.losses.samples

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

    def bound(self, point: Tensor) -> Tensor:
        """Return `|w|_*`."""
        return norm_of(self.penalised(point), self.dual_norm)

    def value(self, point: Tensor) -> Tensor:
        values = self.losses.values(point)
        size = self.price * joint_norm(self.bound(point), self.offset, self.dual_norm)[0]
        risk = (values.mean().sqrt() + size).square() if self.squared else values.mean() + size
        return self.regularizer.value(point) + risk

    def smooth_gradient(self, point: Tensor) -> Tensor:
        """Return a subgradient of `F`; at a kink of a norm, or with all residuals zero, one of several."""
        mean, gradient = self.losses.mean(point[None], slice(None))
        size, rise, _ = joint_norm(self.bound(point), self.offset, self.dual_norm)
        inner = self.penalised(point)
        of_norm = torch.zeros_like(point)
        of_norm[: inner.numel()] = self.price * rise * norm_gradient(inner, self.dual_norm)
        if not self.squared:
            return gradient[0] + of_norm
        root = mean[0].sqrt()
        total = root + self.price * size
        of_root = gradient[0] / (2.0 * root) if float(root) > 0.0 else torch.zeros_like(point)
        return 2.0 * total * (of_root + of_norm)

    def lower_bound(self, point: Tensor, dual: Tensor | None = None) -> float:
        """Return a number that the optimum is not below.

        Args:
            point: Any point.
            dual: Slopes of the losses, `(m,)`, of either sign; for squares the residuals up to a factor will do.
        """
        further = [] if dual is None else [dual, -dual]
        if self.squared:
            residuals = self.losses.rows @ point - self.losses.targets
            return max(squared_bound(self, point, direction) for direction in (residuals, *further))
        slopes = self.losses.of_products(self.losses.rows @ point, slice(None))[1]
        return max(lipschitz_bound(self, point, slope) for slope in (slopes, *further))

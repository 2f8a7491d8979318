"""Lower bounds on the optimum of a Wasserstein regression, from a point, by its exact dual.

With `u_i` slopes of the losses, `v` in the unit ball of the transport norm together with `v0`, and the rows `A`:

    Lipschitz   -mean l*(u_i) + price c v0                                 with  s = A^T u / m + price v
    squared     2 p (-<a, y> / sqrt(m) + price c v0) - p^2,  |a| <= 1      with  s = 2 p (A^T a / sqrt(m) + price v)

each less `|s|^2 / (2 l2)`; without `l2` the slopes are scaled until `v` cancels the rest of `s`, and what stays on the
intercept, which no norm covers, is made zero up to rounding, and that rounding charged at `1 + 2 |x|`.
"""

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from drobench.objective.wasserstein import norm_of

if TYPE_CHECKING:
    from drobench.objective.wasserstein_regression import WassersteinRegressionRisk

# Slopes of a convex loss so far out are its least and its largest.
_FAR = 1e30
_BISECTIONS = 200


def lipschitz_bound(form: "WassersteinRegressionRisk", point: Tensor, slopes: Tensor) -> float:
    """Return the dual value at slopes made feasible; solvers give them as shares of a mean, or as they are."""
    losses, samples = form.losses, form.samples
    targets = losses.targets
    ends = [losses.loss.value_and_slope(torch.full_like(targets, side * _FAR), targets)[1] for side in (-1.0, 1.0)]
    slopes = torch.maximum(torch.minimum(slopes, ends[1]), ends[0])
    strength = form.regularizer.l2
    if strength == 0.0 and form.free:
        slopes = _balanced(slopes, ends)
    linear = losses.rows.T @ slopes / samples
    inner = form.penalised(linear)
    factor, direction = _direction(form, point, inner, form.price, 1.0)
    rest = factor * linear
    rest[: inner.numel()] += form.price * direction
    conjugates = losses.loss.conjugate(factor * slopes, targets)
    if conjugates is None:
        return -math.inf
    value = -float(conjugates.mean()) + form.price * form.offset * _room(form, direction)
    return value - _charge(form, point, rest)


def squared_bound(form: "WassersteinRegressionRisk", point: Tensor, residuals: Tensor) -> float:
    """Return the dual value for `a` in the direction of `residuals`."""
    losses, root = form.losses, math.sqrt(form.samples)
    if form.regularizer.l2 == 0.0 and form.free:
        residuals = residuals - residuals.mean()
    size = float(residuals.norm())
    unit = residuals / size if size > 0.0 else residuals
    total = float((form.value(point) - form.regularizer.value(point)).sqrt())
    if total == 0.0:
        return 0.0
    linear = losses.rows.T @ unit / root
    inner = form.penalised(linear)
    factor, direction = _direction(form, point, inner, form.price, 2.0 * total)
    rest = factor * linear
    rest[: inner.numel()] += form.price * direction
    gain = -factor * float(unit.dot(losses.targets)) / root + form.price * form.offset * _room(form, direction)
    # Of all multiples p the best is the gain itself where nothing is charged that grows with p.
    multiple = total if form.regularizer.l2 > 0.0 else max(gain, 0.0)
    return 2.0 * multiple * gain - multiple * multiple - _charge(form, point, 2.0 * multiple * rest)


def _direction(
    form: "WassersteinRegressionRisk", point: Tensor, inner: Tensor, price: float, scale: float
) -> tuple[float, Tensor]:
    """Return what slopes are to be multiplied by, and the `v` that then leaves the least to be charged."""
    strength = form.regularizer.l2
    if strength > 0.0:
        wanted = -(inner + strength * form.penalised(point) / scale) / price
        return 1.0, wanted / max(1.0, float(norm_of(wanted, form.norm)))
    factor = min(1.0, price / max(float(norm_of(inner, form.norm)), 1e-300))
    return factor, -factor * inner / price


def _room(form: "WassersteinRegressionRisk", direction: Tensor) -> float:
    """Return the largest `v0` with `|(v, v0)| <= 1`."""
    size = min(float(norm_of(direction, form.norm)), 1.0)
    if form.norm == "linf":
        return 1.0
    return 1.0 - size if form.norm == "l1" else math.sqrt(1.0 - size * size)


def _charge(form: "WassersteinRegressionRisk", point: Tensor, rest: Tensor) -> float:
    if form.regularizer.l2 > 0.0:
        return float(rest.square().sum()) / (2.0 * form.regularizer.l2)
    return float(rest.norm()) * (1.0 + 2.0 * float(point.norm()))


def _balanced(slopes: Tensor, ends: list[Tensor]) -> Tensor:
    """Return slopes whose sum is zero, shifted alike as far as their ranges allow."""
    low, high = -1.0 - float(slopes.abs().max()), 1.0 + float(slopes.abs().max())

    def shifted(by: float) -> Tensor:
        return torch.maximum(torch.minimum(slopes + by, ends[1]), ends[0])

    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if float(shifted(middle).sum()) < 0.0 else (low, middle)
    return shifted(0.5 * (low + high))

"""Simple convex functions `r` with closed-form proximal maps.

`prox(v, eta)` is the minimiser of `r(y) + |y - v|^2 / (2 eta)`. Every map of this file is compared with an
interior-point solver in the tests. Indicators (boxes, balls, cones) have the value zero on their set and infinity
outside; their proximal map is the Euclidean projection.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from drobench.errors import DrobenchError


class NotDifferentiableError(DrobenchError):
    """A method asked for the gradient of a regularizer that has none."""


class Regularizer(ABC):
    """The part `r` of the objective that a solver handles by its proximal map."""

    @property
    def strong_convexity(self) -> float:
        """Largest `mu` for which `r - (mu / 2) |x|^2` is convex."""
        return 0.0

    @property
    def is_indicator(self) -> bool:
        """Whether the proximal map is a projection on a set."""
        return False

    @property
    def is_smooth(self) -> bool:
        """Whether `r` has a gradient everywhere, which `gradient` returns, and that changes no faster than the point.

        Methods then treat it as a part of the objective like any other; else by its proximal map.
        """
        return False

    @abstractmethod
    def value(self, point: Tensor) -> Tensor:
        """Return `r(point)` as a zero-dimensional tensor."""

    @abstractmethod
    def prox(self, point: Tensor, step_size: float) -> Tensor:
        """Return the proximal map of `step_size * r` at `point`."""

    def gradient(self, point: Tensor) -> Tensor:
        """Return a (sub)gradient of `r`, for methods that have no proximal step."""
        raise NotDifferentiableError(
            f"{type(self).__name__} has no gradient at {tuple(point.shape)} points: use a solver with proximal steps."
        )

    def curvature(self, point: Tensor) -> Tensor:
        """Return the diagonal of the Hessian of a smooth `r`, which has nothing beside it."""
        raise NotDifferentiableError(f"{type(self).__name__} has no second derivatives: use its proximal map.")

    def least_subgradient(self, point: Tensor, smooth_gradient: Tensor) -> Tensor:
        """Return a small subgradient at `point` of `Phi + r`, given the gradient of `Phi`: zero at a minimiser."""
        return smooth_gradient + self.gradient(point)

    def without_bounds(self) -> "Regularizer | None":
        """Return the smooth function that `r` is between bounds on single coordinates; `None`: it has other kinks."""
        return self if self.is_smooth else None

    def bounds(self, point: Tensor) -> tuple[Tensor, Tensor]:
        """Return the lowest and the highest value of each coordinate that `r` allows by such bounds."""
        return torch.full_like(point, -math.inf), torch.full_like(point, math.inf)


class Zero(Regularizer):
    """`r = 0`."""

    @property
    def is_smooth(self) -> bool:
        return True

    def value(self, point: Tensor) -> Tensor:
        return point.new_zeros(())

    def prox(self, point: Tensor, step_size: float) -> Tensor:
        return point

    def gradient(self, point: Tensor) -> Tensor:
        return torch.zeros_like(point)

    def curvature(self, point: Tensor) -> Tensor:
        return torch.zeros_like(point)


@dataclass(frozen=True, eq=False)
class ElasticNet(Regularizer):
    """`r(x) = l1 |x|_1 + (l2 / 2) |x|_2^2`; either weight may be zero."""

    l1: float = 0.0
    l2: float = 0.0

    @property
    def strong_convexity(self) -> float:
        """The quadratic part."""
        return self.l2

    @property
    def is_smooth(self) -> bool:
        """Whether there is no kink."""
        return not self.l1

    def value(self, point: Tensor) -> Tensor:
        value = 0.5 * self.l2 * point.dot(point)
        return value + self.l1 * point.abs().sum() if self.l1 else value

    def prox(self, point: Tensor, step_size: float) -> Tensor:
        if self.l1:
            point = torch.nn.functional.softshrink(point, step_size * self.l1)
        return point / (1.0 + step_size * self.l2) if self.l2 else point

    def gradient(self, point: Tensor) -> Tensor:
        """Return the gradient; the subgradient `l1 sign(x)` stands for the kink."""
        gradient = self.l2 * point
        return gradient + self.l1 * point.sign() if self.l1 else gradient

    def curvature(self, point: Tensor) -> Tensor:
        return torch.full_like(point, self.l2)

    def least_subgradient(self, point: Tensor, smooth_gradient: Tensor) -> Tensor:
        """At a zero coordinate the l1 part can offset the rest up to its weight; elsewhere it is a gradient."""
        rest = smooth_gradient + self.l2 * point
        at_kink = torch.nn.functional.softshrink(rest, self.l1) if self.l1 else rest
        return torch.where(point == 0, at_kink, rest + self.l1 * point.sign())


@dataclass(frozen=True, eq=False)
class Affine(Regularizer):
    """`r(x) = <slope, x> + constant + base(x)`: a shift in front of the proximal map of `base`."""

    slope: Tensor
    constant: float = 0.0
    base: Regularizer = field(default_factory=Zero)

    @property
    def strong_convexity(self) -> float:
        return self.base.strong_convexity

    @property
    def is_indicator(self) -> bool:
        return self.base.is_indicator

    @property
    def is_smooth(self) -> bool:
        return self.base.is_smooth

    def value(self, point: Tensor) -> Tensor:
        return self.slope.dot(point) + self.constant + self.base.value(point)

    def prox(self, point: Tensor, step_size: float) -> Tensor:
        return self.base.prox(point - step_size * self.slope, step_size)

    def gradient(self, point: Tensor) -> Tensor:
        return self.slope + self.base.gradient(point)

    def curvature(self, point: Tensor) -> Tensor:
        return self.base.curvature(point)

    def without_bounds(self) -> Regularizer | None:
        base = self.base.without_bounds()
        return None if base is None else Affine(self.slope, self.constant, base)

    def bounds(self, point: Tensor) -> tuple[Tensor, Tensor]:
        return self.base.bounds(point)


class Indicator(Regularizer):
    """Zero on a convex set, infinite outside."""

    @property
    def is_indicator(self) -> bool:
        return True

    @abstractmethod
    def project(self, point: Tensor) -> Tensor:
        """Return the nearest point of the set."""

    def value(self, point: Tensor) -> Tensor:
        distance = float((self.project(point) - point).norm())
        # Points that the projection returned are inside only up to its rounding.
        inside = distance <= math.sqrt(torch.finfo(point.dtype).eps) * (1.0 + float(point.norm()))
        return point.new_tensor(0.0 if inside else math.inf)

    def prox(self, point: Tensor, step_size: float) -> Tensor:
        return self.project(point)


@dataclass(frozen=True, eq=False)
class Box(Indicator):
    """`lower <= x <= upper`, coordinate by coordinate."""

    lower: float
    upper: float

    def project(self, point: Tensor) -> Tensor:
        return point.clamp(self.lower, self.upper)

    def without_bounds(self) -> Regularizer:
        return Zero()

    def bounds(self, point: Tensor) -> tuple[Tensor, Tensor]:
        return torch.full_like(point, self.lower), torch.full_like(point, self.upper)


@dataclass(frozen=True, eq=False)
class EuclideanBall(Indicator):
    """`|x|_2 <= radius`."""

    radius: float

    def project(self, point: Tensor) -> Tensor:
        norm = float(point.norm())
        return point if norm <= self.radius else point * (self.radius / norm)


@dataclass(frozen=True, eq=False)
class Simplex(Indicator):
    """`x >= 0`, `sum x = total`."""

    total: float = 1.0

    def project(self, point: Tensor) -> Tensor:
        descending = point.sort(descending=True).values
        counts = torch.arange(1, point.numel() + 1, dtype=point.dtype, device=point.device)
        thresholds = (descending.cumsum(0) - self.total) / counts
        last = max(int((descending > thresholds).sum()) - 1, 0)
        return (point - thresholds[last]).clamp(min=0.0)


@dataclass(frozen=True, eq=False)
class L1Ball(Indicator):
    """`|x|_1 <= radius`."""

    radius: float

    def project(self, point: Tensor) -> Tensor:
        if float(point.abs().sum()) <= self.radius:
            return point
        return point.sign() * Simplex(self.radius).project(point.abs())


@dataclass(frozen=True, eq=False)
class NormCone(Indicator):
    """`|b|_norm <= t` for `x = (b, t)`, the bound `t` being the last coordinate.

    `weight` is that of `b` in the metric `weight |b - b'|^2 + (t - t')^2` in which the cone projects; `weight = 1` is
    the Euclidean projection.
    """

    norm: str
    weight: float = 1.0

    def __post_init__(self) -> None:
        if self.norm not in ("l1", "l2", "linf"):
            raise DrobenchError(f"NormCone.norm must be l1, l2 or linf; found {self.norm!r}.")

    def project(self, point: Tensor) -> Tensor:
        inner, bound = point[:-1], point[-1]
        if self.norm == "l2":
            return self._project_euclidean(point, inner, bound)
        if self.norm == "l1":
            return self._project_l1(point, inner, bound)
        return self._project_largest(point, inner, bound)

    def _project_euclidean(self, point: Tensor, inner: Tensor, bound: Tensor) -> Tensor:
        norm = inner.norm()
        if bool(norm <= bound):
            return point
        size = ((self.weight * norm + bound) / (self.weight + 1.0)).clamp(min=0.0)
        if bool(size == 0):
            return torch.zeros_like(point)
        return torch.cat([inner * (size / norm), size[None]])

    def _project_l1(self, point: Tensor, inner: Tensor, bound: Tensor) -> Tensor:
        magnitudes = inner.abs()
        if bool(magnitudes.sum() <= bound):
            return point
        if bool(self.weight * magnitudes.max() <= -bound):
            return torch.zeros_like(point)
        threshold = _breakpoint(magnitudes, -bound, self.weight)
        shrunk = inner.sign() * (magnitudes - threshold).clamp(min=0.0)
        return torch.cat([shrunk, (bound + self.weight * threshold)[None]])

    def _project_largest(self, point: Tensor, inner: Tensor, bound: Tensor) -> Tensor:
        magnitudes = inner.abs()
        if bool(magnitudes.max() <= bound):
            return point
        if bool(self.weight * magnitudes.sum() <= -bound):
            return torch.zeros_like(point)
        size = _breakpoint(magnitudes, bound / self.weight, 1.0 / self.weight).clamp(min=0.0)
        return torch.cat([torch.minimum(torch.maximum(inner, -size), size), size[None]])


def _breakpoint(magnitudes: Tensor, offset: Tensor, extra: float) -> Tensor:
    """Return `(cumsum(u)_k + offset) / (k + extra)`, `u` descending, for the last `k` with `u_k` not below it."""
    descending = magnitudes.sort(descending=True).values
    counts = torch.arange(1, magnitudes.numel() + 1, dtype=magnitudes.dtype, device=magnitudes.device)
    candidates = (descending.cumsum(0) + offset) / (counts + extra)
    return candidates[max(int((descending >= candidates).sum()) - 1, 0)]


@dataclass(frozen=True, eq=False)
class RegularizedCone(Regularizer):
    """`r(b, t) = slope t + (l2 / 2) |b|^2` on the cone `|b|_norm <= t`, for `x = (b, free coordinates, t)`.

    The quadratic part shrinks `b` and gives it the weight `1 + step l2` in the metric of the projection.
    """

    norm: str
    slope: float
    l2: float = 0.0
    free: int = 0
    """Coordinates in front of `t` that take no part in the cone."""

    @property
    def is_indicator(self) -> bool:
        """True: the proximal map projects on the cone."""
        return True

    def value(self, point: Tensor) -> Tensor:
        inside = NormCone(self.norm).value(self._in_cone(point))
        return self.slope * point[-1] + 0.5 * self.l2 * point[:-1].square().sum() + inside

    def prox(self, point: Tensor, step_size: float) -> Tensor:
        weight = 1.0 + step_size * self.l2
        moved = torch.cat([point[:-1] / weight, point[-1:] - step_size * self.slope])
        projected = NormCone(self.norm, weight).project(self._in_cone(moved))
        return torch.cat([projected[:-1], moved[moved.numel() - 1 - self.free : -1], projected[-1:]])

    def _in_cone(self, point: Tensor) -> Tensor:
        return torch.cat([point[: point.numel() - 1 - self.free], point[-1:]]) if self.free else point


@dataclass(frozen=True, eq=False)
class Blocks(Regularizer):
    """A sum over consecutive blocks of coordinates: the first `split` belong to `first`, the others to `second`."""

    split: int
    first: Regularizer
    second: Regularizer

    @property
    def strong_convexity(self) -> float:
        """The smaller of the two."""
        return min(self.first.strong_convexity, self.second.strong_convexity)

    @property
    def is_indicator(self) -> bool:
        return self.first.is_indicator or self.second.is_indicator

    @property
    def is_smooth(self) -> bool:
        return self.first.is_smooth and self.second.is_smooth

    def value(self, point: Tensor) -> Tensor:
        return self.first.value(point[: self.split]) + self.second.value(point[self.split :])

    def prox(self, point: Tensor, step_size: float) -> Tensor:
        return self.scaled_prox(point, step_size, 1.0)

    def scaled_prox(self, point: Tensor, step_size: float, scale: float) -> Tensor:
        """Return the proximal map with a step that is `scale` times as long in the second block."""
        first, second = point[: self.split], point[self.split :]
        return torch.cat([self.first.prox(first, step_size), self.second.prox(second, scale * step_size)])

    def gradient(self, point: Tensor) -> Tensor:
        return torch.cat([self.first.gradient(point[: self.split]), self.second.gradient(point[self.split :])])

    def curvature(self, point: Tensor) -> Tensor:
        return torch.cat([self.first.curvature(point[: self.split]), self.second.curvature(point[self.split :])])

    def without_bounds(self) -> Regularizer | None:
        first, second = self.first.without_bounds(), self.second.without_bounds()
        return None if first is None or second is None else Blocks(self.split, first, second)

    def bounds(self, point: Tensor) -> tuple[Tensor, Tensor]:
        parts = self.first.bounds(point[: self.split]), self.second.bounds(point[self.split :])
        lower, upper = (torch.cat(ends) for ends in zip(*parts, strict=True))
        return lower, upper


class SingleBound(NamedTuple):
    """An interval for one coordinate, between whose ends a regularizer is smooth."""

    smooth: Regularizer
    """What the regularizer is between the ends."""
    place: int
    lower: float
    upper: float


def single_bound(regularizer: Regularizer, point: Tensor) -> SingleBound | None:
    """Return the interval, if one coordinate has one, no other has, and there is no other kink."""
    smooth = None if regularizer.is_smooth else regularizer.without_bounds()
    if smooth is None:
        return None
    lower, upper = regularizer.bounds(point)
    places = (lower.isfinite() | upper.isfinite()).nonzero().flatten().tolist()
    if len(places) != 1:
        return None
    (place,) = places
    return SingleBound(smooth, place, float(lower[place]), float(upper[place]))

"""The ball as a regularizer: a quadratic inside, infinity outside."""

from dataclasses import dataclass

from torch import Tensor

from drobench.objective.regularizers import EuclideanBall, Regularizer

# Relative distance from the sphere that is rounding only.
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class RidgeOnBall(Regularizer):
    """`r(x) = (l2 / 2) |x|^2` where `|x|_2 <= radius`, infinite elsewhere.

    Its proximal map is the projection of the shrunk point, since both parts look at the distance from the origin only.
    """

    radius: float
    l2: float

    @property
    def strong_convexity(self) -> float:
        """That of the quadratic."""
        return self.l2

    @property
    def is_indicator(self) -> bool:
        """True: the proximal map projects, and is counted as a projection."""
        return True

    def value(self, point: Tensor) -> Tensor:
        return 0.5 * self.l2 * point.dot(point) + EuclideanBall(self.radius).value(point)

    def prox(self, point: Tensor, step_size: float) -> Tensor:
        return EuclideanBall(self.radius).project(point / (1.0 + step_size * self.l2))

    def least_subgradient(self, point: Tensor, smooth_gradient: Tensor) -> Tensor:
        """On the sphere any outward multiple of the point is a subgradient of the ball, and may cancel the rest."""
        rest = smooth_gradient + self.l2 * point
        if float(point.norm()) < self.radius * (1.0 - _ROUNDING):
            return rest
        outward = float(-rest.dot(point) / point.dot(point))
        return rest + max(outward, 0.0) * point

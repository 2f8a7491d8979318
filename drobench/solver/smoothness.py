"""The constants of the convergence theorems, measured at a point, and the step size they allow.

With Lipschitz constants `l` of functions and `L` of their derivatives,

    L_Phi = l_g^2 L_f + l_f L_g + L_h,      G_0 = 3 (l_g^4 L_f^2 + l_f^2 L_g^2 + L_h^2)
    eta  <= 1 / (L_Phi + sqrt(L_Phi^2 + 3 G_0))

where `g` and `h` stand for every single `g_i` and `h_i`. The theorems ask for these constants on the whole space, where
the exponentials of a KL problem have none; here they are those of the drawn rows at one point. Of a row's second
derivative the Frobenius norm is taken, which is never below the Lipschitz constant and for linear models equal to it.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from drobench.objective.composite import RowTerms
from drobench.objective.oracles.composite import CompositeOracle
from drobench.solver.communicator import Communicator
from drobench.solver.curvature import DIFFERENCE, rows_for_curvature
from drobench.solver.estimators import Estimates, refresh

# More directions than this are drawn at random, which estimates the Frobenius norm without bias.
_MOST_DIRECTIONS = 12


class Smoothness(NamedTuple):
    """Lipschitz constants of the parts of a composite."""

    inner_slope: float
    """`l_g`."""
    inner_curvature: float
    """`L_g`."""
    outer_slope: float
    """`l_f`."""
    outer_curvature: float
    """`L_f`."""
    loss_curvature: float
    """`L_h`."""

    @property
    def curvature(self) -> float:
        """`L_Phi`."""
        return (
            self.inner_slope**2 * self.outer_curvature + self.outer_slope * self.inner_curvature + self.loss_curvature
        )

    @property
    def noise(self) -> float:
        """`G_0`: the squared error of an estimate is at most `G_0 / S` times the squared distance travelled."""
        return 3.0 * (
            self.inner_slope**4 * self.outer_curvature**2
            + self.outer_slope**2 * self.inner_curvature**2
            + self.loss_curvature**2
        )

    @property
    def largest_step(self) -> float:
        """The step size for which the descent lemma holds with `tau = S`."""
        return 1.0 / (self.curvature + math.sqrt(self.curvature**2 + 3.0 * self.noise))


def measure_smoothness(oracle: CompositeOracle, communicator: Communicator, point: Tensor) -> Smoothness:
    """Return the constants at `point` over one draw of at most 500 rows; counted, and the same on every process."""
    rows = oracle.draw(*rows_for_curvature(oracle))
    estimates = refresh(oracle, communicator, point, rows)
    base = oracle.row_terms(point, rows, estimates.shift)
    difference = DIFFERENCE[point.dtype] * (1.0 + float(point.norm()))
    directions = _directions(oracle, point)
    inner = point.new_zeros(base.inner_value.shape[0])
    losses = torch.zeros_like(inner)
    for direction in directions:
        moved = oracle.row_terms(point + difference * direction, rows, estimates.shift)
        jacobian = oracle.rescale(moved.inner_jacobian, moved.shift, base.shift)
        inner = inner + ((jacobian - base.inner_jacobian) / difference).square().sum(dim=(1, 2))
        if base.loss_gradient is not None and moved.loss_gradient is not None:
            losses = losses + ((moved.loss_gradient - base.loss_gradient) / difference).square().sum(dim=1)
    slopes = base.inner_jacobian.square().sum(dim=(1, 2))
    squares = [_largest(values) for values in (slopes, inner, losses)]
    inner_slope, inner_curvature, loss_curvature = communicator.maximum(torch.stack(squares)).sqrt().tolist()
    outer_slope, outer_curvature = _outer(oracle, estimates, base)
    return Smoothness(inner_slope, inner_curvature, outer_slope, outer_curvature, loss_curvature)


def _directions(oracle: CompositeOracle, point: Tensor) -> Tensor:
    size = point.numel()
    if size <= _MOST_DIRECTIONS:
        return torch.eye(size, dtype=point.dtype, device=point.device)
    noise = oracle.generator.standard_normal((_MOST_DIRECTIONS, size)) / math.sqrt(_MOST_DIRECTIONS)
    return torch.from_numpy(noise).to(point)


def _largest(values: Tensor) -> Tensor:
    """Return the largest value, or zero where this process drew no row."""
    return values.max() if values.numel() else values.new_zeros(())


def _outer(oracle: CompositeOracle, estimates: Estimates, base: RowTerms) -> tuple[float, float]:
    """Return `l_f` and `L_f` at the inner value, which for a smooth function of few variables is a matter of slopes."""
    if not oracle.outputs:
        return 0.0, 0.0
    value = oracle.rescale(estimates.inner_value, estimates.shift, base.shift)
    slope = oracle.outer_gradient(value, base.shift)
    difference = DIFFERENCE[value.dtype] * (1.0 + float(value.abs().max()))
    steps = difference * torch.eye(value.numel(), dtype=value.dtype, device=value.device)
    columns = [(oracle.outer_gradient(value + step, base.shift) - slope) / difference for step in steps]
    return float(slope.norm()), float(torch.stack(columns).norm())

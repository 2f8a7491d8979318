"""Comparisons that the checks of problems and of reformulations share: values of two forms, slopes and differences."""

import math
from collections.abc import Callable
from typing import Any

import torch
from scipy.optimize import minimize
from torch import Tensor

from drobench.objective.composite import Composite

# Two widths of a smoothing.
WIDE, NARROW = 0.1, 0.01
# How much two ways to one number may differ, relative to it.
EXACT = 1e-8
# How much closer to the original the narrow smoothing has to be than the wide one.
CLOSER = 0.5
_DIFFERENCE = 1e-5
_GRADIENT_TOLERANCE = 1e-5
_OUTSIDE = 1e6


def best_over_extra(form: Any, lifted: Tensor, parameters: int) -> float:
    """Return the form's value at a lifted point, with whatever variables are beside the parameters at their best."""
    if len(lifted) == parameters:
        return float(form.value(lifted))
    point = lifted[:parameters]

    def value(duals: Any) -> float:
        joint = torch.cat([point, torch.as_tensor(duals, dtype=point.dtype)])
        # Where a variable has a domain the regularizer is infinite outside, which no search can follow.
        found = float(form.value(joint))
        return found if math.isfinite(found) else _OUTSIDE

    started = lifted[parameters:].numpy()
    found = minimize(value, started, method="Nelder-Mead", options={"xatol": 1e-10, "fatol": 1e-12, "maxiter": 500})
    return float(found.fun)


def smooth_part(form: Composite, point: Tensor) -> Tensor:
    """Return the composite without its regularizer, which may be infinite at the point."""
    estimate = form.estimate(point[None], form.everything(), None)
    return estimate.loss_value[0] + form.outer.value(estimate.inner_value[0], estimate.shift)


def slopes_in_a_direction(
    value: Callable[[Tensor], Tensor], point: Tensor, gradient: Tensor, seed: int
) -> tuple[float, float, bool]:
    """Return a directional derivative by central differences and by the gradient, and whether they agree."""
    generator = torch.Generator().manual_seed(seed)
    direction = torch.randn(len(point), generator=generator, dtype=torch.float64)
    direction = direction / direction.norm()
    above, below = (float(value(point + sign * _DIFFERENCE * direction)) for sign in (1.0, -1.0))
    expected, found = (above - below) / (2.0 * _DIFFERENCE), float(gradient.dot(direction))
    scale = 1.0 + float(gradient.norm())
    return expected, found, abs(expected - found) <= _GRADIENT_TOLERANCE * scale


def smoothing_of(samples: int) -> float:
    """Return by how much the narrow smoothing may flatter a solution: a temperature or a hinge of that width."""
    return NARROW * (1.0 + math.log(max(samples, 2)))

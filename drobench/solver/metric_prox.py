"""The proximal step in the metric of a matrix `P`, which asks for no data.

    z = argmin  <gradient, z - x> + (z - x)^T P (z - x) / (2 length) + r(z)

Where `r` is smooth its own curvature belongs to `P`, and the step is one linear system; a shorter step goes a part of
the way. The same where `r` is smooth but for an interval of one coordinate (the temperature of a KL ball): if the step
leaves it, the coordinate `z_k` is put to the end `b` of its interval, and the others follow,

    z <- z + (b - z_k) c / c_k,     c = P^-1 e_k

For any other `r` with a proximal map it is solved by alternating directions: with the price `q` of the copy `v = z`,

    z = (P + q I)^-1 (P x - gradient + q (v - u)),     v = prox_{r / q}(z + u),     u += z - v

where `q` follows the balance of both residuals, each new one at the cost of a factorisation.

Reference: Boyd, Parikh, Chu, Peleato, Eckstein, "Distributed optimization and statistical learning via the alternating
direction method of multipliers" (2011), sections 3.3 and 3.4.1.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from drobench.objective.oracles.composite import CompositeOracle
from drobench.objective.regularizers import SingleBound

_MOST_ITERATIONS = 500
_RELAXATION = 1.6
_BALANCE_EVERY, _IMBALANCE = 20, 10.0
# Of the largest eigenvalue: what the smallest is at least made to be.
_SMALLEST_VALUE = {torch.float64: 1e-11, torch.float32: 1e-6}
# Curvature below this is none at all: what far tails of exponentials leave where losses are straight.
_NO_CURVATURE = {torch.float64: 1e-100, torch.float32: 1e-15}


def metric_factor(oracle: CompositeOracle, hessian: Tensor, point: Tensor) -> Tensor:
    """Return the lower triangular factor of a positive metric near the Hessian of the smooth part at `point`.

    The curvature of `r` is a part of it wherever `metric_step` needs no alternation.
    """
    if oracle.regularizer_is_smooth:
        return positive_factor(hessian + oracle.regularizer_curvature(point).diag())
    bound = oracle.regularizer_bound(point)
    return positive_factor(hessian if bound is None else hessian + bound.smooth.curvature(point).diag())


def positive_factor(matrix: Tensor) -> Tensor:
    """Return the Cholesky factor of a symmetric matrix, made positive if it is not.

    Of eigenvalues that are negative the size is taken, as a measure of how far to go, and those near zero are raised.
    A matrix that is not finite, or has nothing in it, is replaced by the identity: a step is one along the gradient.
    """
    if not bool(matrix.isfinite().all()) or float(matrix.abs().max()) < _NO_CURVATURE[matrix.dtype]:
        return _identity(matrix)
    factor: Tensor
    factor, failed = torch.linalg.cholesky_ex(matrix)
    diagonal, least = matrix.diagonal(), _SMALLEST_VALUE[matrix.dtype]
    # A pivot that is nothing but rounding says nothing about curvature.
    if not int(failed) and float(factor.diagonal().min()) ** 2 > least * float(diagonal.max()):
        return factor
    values, vectors = torch.linalg.eigh(matrix)
    sizes = values.abs()
    largest = float(sizes.max())
    factor = torch.linalg.cholesky((vectors * sizes.clamp(min=least * largest)) @ vectors.T)
    return factor


def metric_step(
    oracle: CompositeOracle,
    point: Tensor,
    gradient: Tensor,
    factor: Tensor,
    length: float = 1.0,
    accuracy: float = 1e-10,
) -> Tensor:
    """Return `z` for `P = factor factor^T`.

    Args:
        oracle: Knows `r`.
        point: `x`.
        gradient: Of the smooth part at `x`, or an estimate of it.
        factor: By `metric_factor`.
        length: How far to go; 1 is the minimum of the model.
        accuracy: Of the residuals of the alternation, relative to the step.
    """
    if oracle.regularizer_is_smooth:
        slope = gradient + oracle.regularizer_gradient(point)
        return torch.sub(point, torch.cholesky_solve(slope[:, None], factor)[:, 0], alpha=length)
    bound = oracle.regularizer_bound(point)
    if bound is not None:
        return torch.lerp(point, _within(bound, point, gradient + bound.smooth.gradient(point), factor), length)
    return _by_alternation(factor @ factor.T / length, point, gradient, oracle.regularizer_prox, accuracy)


def _within(bound: SingleBound, point: Tensor, slope: Tensor, factor: Tensor) -> Tensor:
    """Return the minimum of the model with one coordinate in its interval."""
    found = torch.sub(point, torch.cholesky_solve(slope[:, None], factor)[:, 0])
    place, here = bound.place, float(found[bound.place])
    end = min(max(here, bound.lower), bound.upper)
    if end == here:
        return found
    unit = torch.zeros_like(point)
    unit[place] = 1.0
    column = torch.cholesky_solve(unit[:, None], factor)[:, 0]
    found = torch.add(found, column, alpha=(end - here) / float(column[place]))
    # Without rounding it would be there.
    found[place] = end
    return found


def _by_alternation(
    metric: Tensor, point: Tensor, gradient: Tensor, prox: Callable[[Tensor, float], Tensor], accuracy: float
) -> Tensor:
    linear = metric @ point - gradient
    values = torch.linalg.eigvalsh(metric)
    price = math.sqrt(max(float(values[0]), 1e-8 * float(values[-1])) * float(values[-1]))
    factor = torch.linalg.cholesky(metric + price * _identity(metric))
    copy, multiplier = point, torch.zeros_like(point)
    for iteration in range(1, _MOST_ITERATIONS + 1):
        found = torch.cholesky_solve((linear + price * (copy - multiplier))[:, None], factor)[:, 0]
        relaxed = _RELAXATION * found + (1.0 - _RELAXATION) * copy
        before, copy = copy, prox(relaxed + multiplier, 1.0 / price)
        multiplier = multiplier + relaxed - copy
        primal, dual, size = torch.stack(
            [(found - copy).norm(), (copy - before).norm(), (copy - point).norm()]
        ).tolist()
        if max(primal, dual) <= accuracy * size or size == 0.0 == primal:
            break
        if iteration % _BALANCE_EVERY == 0 and not 1.0 / _IMBALANCE < primal / max(dual, 1e-300) < _IMBALANCE:
            change = 2.0 if primal > dual else 0.5
            price, multiplier = change * price, multiplier / change
            factor = torch.linalg.cholesky(metric + price * _identity(metric))
    return copy


def _identity(matrix: Tensor) -> Tensor:
    return torch.eye(matrix.shape[0], dtype=matrix.dtype, device=matrix.device)

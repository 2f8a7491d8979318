"""Multilevel Monte Carlo: gradients of a composite with the bias of a large batch, at the cost of small ones.

With `D(S) = g'_S(x)^T f'(g_S(x)) + h'_S(x)`, a level J in 1..levels is drawn with probability P(J) = 2^-J (the last
level has what is left), then n = 2^J `batch` rows with replacement, whose halves are S' and S'':

    D = D(S_0) + (D(S' u S'') - D(S') / 2 - D(S'') / 2) / P(J),    S_0 the first `batch` rows of S'

The sum over the levels telescopes: the mean of D is that of D(S) for a draw of 2^levels `batch` rows.

Reference: Levy, Carmon, Duchi, Sidford (NeurIPS 2020), section 4.
"""

import math

from torch import Tensor

from drobench.solver import Communicator, CompositeOracle, Estimates, direction, sample


def multilevel_gradient(
    point: Tensor, batch: int, levels: int, oracle: CompositeOracle, communicator: Communicator
) -> Tensor:
    """Return one estimate of the gradient of the smooth part at `point`."""
    level = min(int(oracle.generator.geometric(0.5)), levels)
    probability = 0.5 ** min(level, levels - 1)

    def measure(size: int, shift: Tensor | None) -> Estimates:
        return sample(oracle, communicator, point, oracle.draw(size, size, replacement=True), shift)

    first = measure(batch, None)
    base = direction(first, oracle)
    half = batch * 2 ** (level - 1)
    if half > batch:
        first = _together(first, measure(half - batch, first.shift), batch / half, oracle)
    second = measure(half, first.shift)
    parts = 0.5 * (direction(first, oracle) + direction(second, oracle))
    whole = direction(_together(first, second, 0.5, oracle), oracle)
    return base + (whole - parts) / probability


def most_levels(batch: int, oracle: CompositeOracle) -> tuple[int, int]:
    """Return how many doublings of the batch stay within the rows, at least one, and how many rows that is about."""
    # An index set no larger than the smallest batch is evaluated as a whole at every level.
    sizes = [size for size in (oracle.samples, oracle.constraints) if size > batch]
    most = max(1, math.floor(math.log2(min(sizes) / batch))) if sizes else 1
    return most, min(sizes, default=batch)


def multilevel_draws(batch: int, levels: int) -> list[list[int]]:
    """Return the sizes of the draws of a step, for every level that it may have."""
    halves = [batch * 2**level for level in range(levels)]
    return [[batch, half - batch, half] for half in halves]


def _together(first: Estimates, second: Estimates, share: float, oracle: CompositeOracle) -> Estimates:
    """Return the estimates of two draws at the same point as those of one, of which the first is `share`."""
    value, jacobian = oracle.at_shift(first.inner_value, first.inner_jacobian, first.shift, second.shift)
    return Estimates(
        share * value + (1.0 - share) * second.inner_value,
        share * jacobian + (1.0 - share) * second.inner_jacobian,
        share * first.loss_value + (1.0 - share) * second.loss_value,
        share * first.loss_gradient + (1.0 - share) * second.loss_gradient,
        second.shift,
    )

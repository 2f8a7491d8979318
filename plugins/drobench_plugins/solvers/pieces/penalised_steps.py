"""Pieces that the solvers of exact penalties share: step sizes, gradients of the objective, the worst constraint.

With a weight `alpha` above the sum of the optimal multipliers, `min f(x) + alpha max(0, max_k c_k(x))` has the
solutions of `min f(x)` subject to `c_k(x) <= 0`. Such a weight is also any above `G / rho`, where `G` bounds the slope
of `f` and no convex combination of the slopes of violated constraints is shorter than `rho`.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from drobench.solver import Communicator, ConstrainedOracle, Rows, require_one_of, require_positive

_DEFAULT_PENALTY = 2.0


@dataclass
class PenalisedConfig:
    """Hyperparameters that all methods with decreasing steps have."""

    step_size: float = 0.5
    decay: str = "strongly_convex"
    """Step k is `step_size (1 + (k - 1) / delay)^-power` with power 1 for `strongly_convex` and 1/2 for `convex`. The
    published `2 / (mu (k + 1))` is `step_size = 1 / mu` and `delay = 2`."""
    delay: int = 100
    batch: int | None = 32
    """Samples of the objective in a step; null: all."""
    replacement: bool = False
    output: str = "average"
    """`average`, of the later steps, or `last`."""

    def __post_init__(self) -> None:
        require_one_of(self, "decay", ("strongly_convex", "convex"))
        require_one_of(self, "output", ("average", "last"))
        require_positive(self, "step_size", "delay", "batch")

    def step_at(self, count: int) -> float:
        """Return the size of step number `count`, counted from one."""
        power = 1.0 if self.decay == "strongly_convex" else 0.5
        return float(self.step_size * (1.0 + (count - 1) / self.delay) ** -power)

    def weight_at(self, count: int) -> float:
        """Return what the iterate after step `count` counts in the mean: as much as steps have shrunk."""
        return float(count) if self.decay == "strongly_convex" else 1.0


def penalty_of(setting: float | None, oracle: ConstrainedOracle) -> float:
    """Return the weight of the largest violation: the given one, one that the problem knows to be exact, or 2."""
    return setting or oracle.penalty or _DEFAULT_PENALTY


def objective_gradient(
    oracle: ConstrainedOracle, communicator: Communicator, point: Tensor, config: PenalisedConfig
) -> Tensor:
    """Return the mean gradient of the losses on a fresh draw, of the rows of all processes."""
    if not oracle.samples:
        return torch.zeros_like(point)
    rows = oracle.draw(config.batch, replacement=config.replacement)
    gradient = oracle.objective(point[None], rows)[1][0]
    return gradient if communicator.world_size == 1 else communicator.total([gradient * rows.sample_share])[0]


def all_constraints(oracle: ConstrainedOracle) -> Rows:
    """Return this process's part of all constraints."""
    count = oracle.constraints
    first, last = oracle.shard.bounds(count)
    return Rows(None, slice(first, last), 1.0, (last - first) / count, 1.0, drawn_constraints=count)


def one_constraint(number: int, oracle: ConstrainedOracle) -> Rows:
    """Return a single constraint, for methods of one process."""
    return Rows(None, torch.tensor([number], device=oracle.device), covered=1.0 / oracle.constraints)


def worst_constraint(oracle: ConstrainedOracle, communicator: Communicator, point: Tensor) -> tuple[float, Tensor]:
    """Return the largest surrogate and a subgradient of it: the mean slope of those constraints that attain it."""
    values, pullback = oracle.surrogates(point[None], all_constraints(oracle))
    # More processes than constraints: one may hold none.
    largest = torch.cat([values[0], values.new_full((1,), -torch.inf)]).max()
    if communicator.world_size > 1:
        largest = communicator.maximum(largest)
    attain = (values[0] == largest).to(point.dtype)
    count, slope = attain.sum(), pullback(attain[None, None])[0, 0]
    if communicator.world_size > 1:
        count, slope = communicator.total([count, slope])
    # None attains a largest value that is no number; the division passes that on.
    return float(largest), slope / count

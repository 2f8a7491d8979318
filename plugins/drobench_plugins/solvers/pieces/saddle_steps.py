"""Pieces that the saddle-point solvers share: rows of their own choice, pooled operators, projected steps."""

from torch import Tensor

from drobench.solver import Communicator, MinMaxOracle, Oracle, Rows


def chosen_samples(oracle: Oracle, numbers: Tensor) -> Rows:
    """Return this process's part of the samples that all processes have chosen alike."""
    size = numbers.numel()
    first, last = oracle.shard.bounds(size)
    return Rows(numbers[first:last], None, (last - first) / size, 1.0, size / oracle.samples, drawn_samples=size)


def pooled_operator(oracle: MinMaxOracle, communicator: Communicator, joint: Tensor, rows: Rows) -> Tensor:
    """Return the operator's estimate from the rows of all processes.

    What does not depend on rows is in every part; the shares, which add up to one, make it count once.
    """
    return pooled(oracle.operator(joint, rows), rows, communicator)


def pooled(estimate: Tensor, rows: Rows, communicator: Communicator) -> Tensor:
    """Return the estimate from the rows of all processes, for this process's estimate from its part of them."""
    if communicator.world_size == 1:
        return estimate
    return communicator.total([estimate * rows.sample_share])[0]


def project_step(oracle: MinMaxOracle, base: Tensor, against: Tensor, step_size: float) -> Tensor:
    """Return `P(base - step_size against)`, with steps in the scale of each variable."""
    return oracle.project(base - step_size * oracle.scales(base).square() * against)

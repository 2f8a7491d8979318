"""Rows that are not drawn but come in turn: the next ones of a list that begins again at its end."""

import torch
from torch import Tensor

from drobench.solver import Oracle, Rows


def next_in_turn(steps: int, size: int, total: int, oracle: Oracle) -> tuple[Tensor, float]:
    """Return this process's part of the `size` of `total` rows whose turn it is after `steps` steps, and its share."""
    first, last = oracle.shard.bounds(size)
    return (steps * size + torch.arange(first, last, device=oracle.device)) % total, (last - first) / size


def samples_and_their_constraints(steps: int, size: int, oracle: Oracle, *, whole_samples: bool) -> Rows:
    """Return the next `size` samples and, of the constraints, those of the same samples, equally many for each.

    With `whole_samples` the constraints come in turn and the samples are all of them.
    """
    samples, share = next_in_turn(steps, size, oracle.samples, oracle)
    each = oracle.constraints // oracle.samples
    constraints = (samples[:, None] * each + torch.arange(each, device=oracle.device)).flatten()
    everything = oracle.draw()
    rows = everything._replace(
        constraints=constraints, constraint_share=share, covered=size / oracle.samples, drawn_constraints=size * each
    )
    return rows if whole_samples else rows._replace(samples=samples, sample_share=share, drawn_samples=size)

"""Snapshots: the objective and the largest violation of an iterate, measured on everything."""

import torch
from torch import Tensor

from drobench.solver import Communicator, ConstrainedOracle


def measure_snapshot(point: Tensor, oracle: ConstrainedOracle, communicator: Communicator) -> tuple[Tensor, Tensor]:
    """Return the mean loss over all samples and the largest exact violation of all constraints; counted."""
    rows = oracle.draw()
    objective = point.new_zeros(())
    if oracle.samples:
        objective = oracle.objective(point[None], rows)[0][0] * rows.sample_share
    # A process may hold no constraint, and what a maximum over processes makes of "not a number" is not defined.
    violations = torch.cat([oracle.violations(point[None], rows)[0], point.new_zeros(1)])
    violation = torch.where(violations.isnan(), torch.inf, violations).max()
    if communicator.world_size > 1:
        (objective,) = communicator.total([objective])
        violation = communicator.maximum(violation)
    return objective, violation

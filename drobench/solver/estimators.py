"""Estimates of inner value, inner Jacobian and loss gradient, shared by the composite solvers.

`refresh` measures them on a batch; `advance` adds the recursive increment
`mean over S of [quantity(x_j) - quantity(x_{j-1})]` (SARAH / SPIDER). Both pool over processes with one fused exchange.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from drobench.objective.composite import Estimate, Rows
from drobench.objective.oracle import CompositeOracle
from drobench.solver.communicator import Communicator


@dataclass(frozen=True)
class Estimates:
    """Current estimates at one point, all at one shift."""

    inner_value: Tensor
    """`(p,)`, the `y` of the literature."""
    inner_jacobian: Tensor
    """`(p, d)`, its `z`."""
    loss_value: Tensor
    """`()`; exact after a refresh on everything, not tracked in between."""
    loss_gradient: Tensor
    """`(d,)`, its `w`."""
    shift: Tensor


def refresh(oracle: CompositeOracle, communicator: Communicator, point: Tensor, rows: Rows) -> Estimates:
    """Measure the estimates at `point` on `rows`, at the shift that suits this point."""
    return sample(oracle, communicator, point, rows, None)


def sample(
    oracle: CompositeOracle, communicator: Communicator, point: Tensor, rows: Rows, shift: Tensor | None
) -> Estimates:
    """Measure the estimates at `point` on `rows`, at `shift` or, where that would overflow, at a higher one."""
    local = oracle.estimate(point[None], rows, shift)
    if communicator.world_size > 1 and oracle.uses_shift:
        agreed = communicator.maximum(local.shift)
        local = _at_shift(oracle, local, agreed) if oracle.rescalable else oracle.estimate(point[None], rows, agreed)
    value, jacobian, loss_value, loss_gradient = _pool(
        oracle,
        communicator,
        rows,
        [local.inner_value[0], local.inner_jacobian[0]],
        [local.loss_value[0], local.loss_gradient[0]],
    )
    return Estimates(value, jacobian, loss_value, loss_gradient, local.shift)


def advance(
    estimates: Estimates,
    oracle: CompositeOracle,
    communicator: Communicator,
    point: Tensor,
    previous: Tensor,
    rows: Rows,
) -> tuple[Estimates, bool]:
    """Move the estimates from `previous` to `point` by an increment measured on `rows`.

    Returns the new estimates and whether they are sound: `False` means that the inner value left the range that the
    rows prove, or is not finite, and the estimates should be measured afresh.
    """
    local = oracle.estimate(torch.stack([point, previous]), rows, estimates.shift)
    increments, agreed = _increments(oracle, communicator, rows, local, estimates.shift)
    value_step, jacobian_step, floor, loss_step = increments
    inner_value = oracle.rescale(estimates.inner_value, estimates.shift, agreed) + value_step
    moved = Estimates(
        inner_value,
        oracle.rescale(estimates.inner_jacobian, estimates.shift, agreed) + jacobian_step,
        estimates.loss_value,
        estimates.loss_gradient + loss_step,
        agreed,
    )
    guarded = oracle.guard(inner_value, rows, agreed, floor)
    sound = bool(((guarded == inner_value) & inner_value.isfinite()).all())
    if sound and not oracle.rescalable:
        # No shift protects these exponentials within an epoch: the slopes may overflow before the values do.
        sound = bool((moved.inner_jacobian.sum() + moved.loss_gradient.sum()).isfinite())
    return moved, sound


def direction(estimates: Estimates, oracle: CompositeOracle) -> Tensor:
    """Return the gradient estimate `z^T f'(y) + w` of the smooth part."""
    outer_gradient = oracle.outer_gradient(estimates.inner_value, estimates.shift)
    return torch.addmv(estimates.loss_gradient, estimates.inner_jacobian.T, outer_gradient)


def _increments(
    oracle: CompositeOracle, communicator: Communicator, rows: Rows, local: Estimate, asked: Tensor
) -> tuple[list[Tensor], Tensor]:
    """Return pooled increments of value, Jacobian, floor and loss gradient, and the shift they are expressed at."""

    def pooled(part: Estimate, extra: list[Tensor]) -> list[Tensor]:
        return _pool(
            oracle,
            communicator,
            rows,
            [
                part.inner_value[0] - part.inner_value[1],
                part.inner_jacobian[0] - part.inner_jacobian[1],
                part.inner_floor[0],
            ],
            [part.loss_gradient[0] - part.loss_gradient[1], *extra],
        )

    if communicator.world_size == 1 or not oracle.uses_shift:
        return pooled(local, []), local.shift
    raised = asked.new_tensor([float(local.shift is not asked)])
    *increments, anyone_raised = pooled(local, [raised])
    if not bool(anyone_raised > 0):
        return increments, asked
    # Somewhere an exponential would have overflowed: agree on the highest shift and exchange once more.
    agreed = communicator.maximum(local.shift)
    return pooled(_at_shift(oracle, local, agreed), []), agreed


def _at_shift(oracle: CompositeOracle, estimate: Estimate, shift: Tensor) -> Estimate:
    return estimate._replace(
        inner_value=oracle.rescale(estimate.inner_value, estimate.shift, shift),
        inner_jacobian=oracle.rescale(estimate.inner_jacobian, estimate.shift, shift),
        inner_floor=oracle.rescale(estimate.inner_floor, estimate.shift, shift),
        shift=shift,
    )


def _pool(
    oracle: CompositeOracle, communicator: Communicator, rows: Rows, inner: list[Tensor], losses: list[Tensor]
) -> list[Tensor]:
    """Return the means of the whole draw from the means of its parts, each weighted by its share of the draw."""
    if communicator.world_size == 1:
        return inner + losses
    inner_share = rows.constraint_share if oracle.constraints else rows.sample_share
    weighted = [tensor * inner_share for tensor in inner] + [tensor * rows.sample_share for tensor in losses]
    return communicator.total(weighted)

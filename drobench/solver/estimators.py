"""Estimates of inner value, inner Jacobian and loss gradient, shared by the composite solvers.

`refresh` measures them on a batch; `advance` adds the recursive increment
`mean over S of [quantity(x_j) - quantity(x_{j-1})]` (SARAH / SPIDER). Both pool over processes with one fused exchange.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from drobench.objective.composite import Change, Rows
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
    value, jacobian, used = local.inner_value[0], local.inner_jacobian[0], local.shift
    exchanged = communicator.world_size > 1 and oracle.uses_shift
    if exchanged:
        used = communicator.maximum(local.shift)
        value, jacobian = oracle.at_shift(value, jacobian, local.shift, used)
    value, jacobian, loss_value, loss_gradient = _pool(
        oracle, communicator, rows, [value, jacobian], [local.loss_value[0], local.loss_gradient[0]]
    )
    if exchanged and shift is None:
        # The highest of the parts' shifts kept the exchange in range; one process would have chosen this one.
        best = oracle.best_shift(value, used)
        (value, jacobian), used = oracle.at_shift(value, jacobian, used, best), best
    return Estimates(value, jacobian, loss_value, loss_gradient, used)


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
    local = oracle.change(torch.stack([point, previous]), rows, estimates.shift)
    change = _pooled_change(oracle, communicator, rows, local, estimates.shift)
    moved = Estimates(
        _moved(oracle.rescale(estimates.inner_value, estimates.shift, change.shift), change.inner_value),
        oracle.rescale(estimates.inner_jacobian, estimates.shift, change.shift) + change.inner_jacobian,
        estimates.loss_value,
        estimates.loss_gradient if change.loss_gradient is None else estimates.loss_gradient + change.loss_gradient,
        change.shift,
    )
    sound = oracle.admits(moved.inner_value, rows, change.shift, change.inner_floor)
    if sound and not oracle.rescalable:
        # No shift protects these exponentials within an epoch: the slopes may overflow before the values do.
        sound = bool((moved.inner_jacobian.sum() + moved.loss_gradient.sum()).isfinite())
    return moved, sound


def direction(estimates: Estimates, oracle: CompositeOracle) -> Tensor:
    """Return the gradient estimate `z^T f'(y) + w` of the smooth part."""
    return descend(torch.zeros_like(estimates.loss_gradient), estimates, oracle, -1.0)


def descend(point: Tensor, estimates: Estimates, oracle: CompositeOracle, step_size: float) -> Tensor:
    """Return `point - step_size (z^T f'(y) + w)`, leaving out what the objective does not have."""
    if oracle.outputs:
        outer_gradient = oracle.outer_gradient(estimates.inner_value, estimates.shift)
        point = torch.addmv(point, estimates.inner_jacobian.T, outer_gradient, alpha=-step_size)
    return torch.sub(point, estimates.loss_gradient, alpha=step_size) if oracle.has_losses else point


def _pooled_change(
    oracle: CompositeOracle, communicator: Communicator, rows: Rows, local: Change, asked: Tensor
) -> Change:
    """Return the change over the whole draw, at a shift that all processes agree on."""
    if communicator.world_size == 1:
        return local

    like = local.inner_jacobian

    def pooled(change: Change, extra: list[Tensor]) -> tuple[Change, list[Tensor]]:
        inner = [like.new_tensor(change.inner_value), change.inner_jacobian, like.new_tensor(change.inner_floor)]
        losses = [] if change.loss_gradient is None else [change.loss_gradient]
        value, jacobian, floor, *rest = _pool(oracle, communicator, rows, inner, losses + extra)
        gradient = rest.pop(0) if losses else None
        return Change(value.tolist(), jacobian, gradient, floor.tolist(), change.shift), rest

    if not oracle.uses_shift:
        return pooled(local, [])[0]
    change, (anyone_raised,) = pooled(local, [asked.new_tensor([float(local.shift is not asked)])])
    if not bool(anyone_raised > 0):
        return change._replace(shift=asked)
    # Somewhere an exponential would have overflowed: agree on the highest shift and exchange once more.
    agreed = communicator.maximum(local.shift)
    value, jacobian, floor = (
        oracle.rescale(part, local.shift, agreed)
        for part in (like.new_tensor(local.inner_value), local.inner_jacobian, like.new_tensor(local.inner_floor))
    )
    return pooled(Change(value.tolist(), jacobian, local.loss_gradient, floor.tolist(), agreed), [])[0]


def _moved(inner_value: Tensor, step: list[float]) -> Tensor:
    """Return the inner value after a step; most problems have just one."""
    return inner_value + step[0] if len(step) == 1 else inner_value + inner_value.new_tensor(step)


def _pool(
    oracle: CompositeOracle, communicator: Communicator, rows: Rows, inner: list[Tensor], losses: list[Tensor]
) -> list[Tensor]:
    """Return the means of the whole draw from the means of its parts, each weighted by its share of the draw."""
    if communicator.world_size == 1:
        return inner + losses
    inner_share = rows.constraint_share if oracle.constraints else rows.sample_share
    shares = [inner_share] * len(inner) + [rows.sample_share] * len(losses)
    # A part without rows adds nothing, even where its bound is minus infinity.
    parts = zip(inner + losses, shares, strict=True)
    return communicator.total([tensor * share if share else torch.zeros_like(tensor) for tensor, share in parts])

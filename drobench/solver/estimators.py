"""Estimates of inner value, inner Jacobian and loss gradient, shared by the composite solvers.

`refresh` measures them on a batch; `advance` adds the recursive increment
`mean over S of [quantity(x_j) - quantity(x_{j-1})]` (SARAH / SPIDER). Both pool over processes with one fused exchange.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from drobench.objective.composite import Change, Means, Total
from drobench.objective.oracles.composite import CompositeOracle
from drobench.objective.sampling import Rows
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


Draw = Rows | Sequence[Rows]
"""One part of a draw, or several whose rows count differently."""


def refresh(oracle: CompositeOracle, communicator: Communicator, point: Tensor, rows: Draw) -> Estimates:
    """Measure the estimates at `point` on `rows`, at the shift that suits this point."""
    return sample(oracle, communicator, point, rows, None)


class Settling(NamedTuple):
    """What was measured on all rows, and where: at the given parameters, with the best dual variables for them."""

    point: Tensor
    estimates: Estimates
    original: float
    """The objective of the problem itself, without any smoothing."""


def settle(oracle: CompositeOracle, communicator: Communicator, point: Tensor, rows: Draw) -> Settling:
    """Measure on `rows`, which are all of them, after dual variables were set to their best; one call a row."""
    original = None
    if oracle.settles:
        parts = _parts(rows)
        pooling = (lambda tensor: communicator.total([tensor])[0]), communicator.maximum
        point, local, original = oracle.settle_duals(point, parts, *pooling)
        estimates = _pooled(oracle, communicator, parts, local, None)
    else:
        estimates = refresh(oracle, communicator, point, rows)
    if original is None:
        means = estimates.inner_value, estimates.loss_value, estimates.shift
        original = float(oracle.original(point, *means))
    return Settling(point, estimates, original)


def sample(
    oracle: CompositeOracle, communicator: Communicator, point: Tensor, rows: Draw, shift: Tensor | None
) -> Estimates:
    """Measure the estimates at `point` on `rows`, at `shift` or, where that would overflow, at a higher one."""
    parts = _parts(rows)
    local = [oracle.estimate(point[None], part, shift, *_pooling(part, communicator)) for part in parts]
    return _pooled(oracle, communicator, parts, local, shift)


def _pooled(
    oracle: CompositeOracle,
    communicator: Communicator,
    parts: Sequence[Rows],
    local: Sequence[Means],
    shift: Tensor | None,
) -> Estimates:
    """Return the means over all parts of all processes."""
    if _is_whole(parts, communicator):
        (found,) = local
        means = found.inner_value[0], found.inner_jacobian[0], found.loss_value[0], found.loss_gradient[0]
        return Estimates(*means, found.shift)
    used = local[0].shift
    # A shift that was given stays as it is where estimates could not be expressed at another one.
    if oracle.uses_shift and (shift is None or oracle.rescalable):
        used = communicator.maximum(torch.stack([found.shift for found in local]).amax())
    terms: list[list[tuple[Tensor, float]]] = [[], [], [], []]
    for part, found in zip(parts, local, strict=True):
        inner = found.inner_value[0], found.inner_jacobian[0]
        value, jacobian = oracle.at_shift(*inner, found.shift, used) if oracle.uses_shift else inner
        value_share, slope_share = _inner_shares(oracle, communicator, part)
        terms[0].append((value, value_share))
        terms[1].append((jacobian, slope_share))
        terms[2].append((found.loss_value[0], part.sample_share))
        terms[3].append((found.loss_gradient[0], part.sample_share))
    if oracle.has_losses:
        value, jacobian, loss_value, loss_gradient = _pool(communicator, terms)
    else:
        value, jacobian = _pool(communicator, terms[:2])
        loss_value, loss_gradient = local[0].loss_value[0], local[0].loss_gradient[0]
    if oracle.uses_shift and shift is None:
        # The highest of the parts' shifts kept the exchange in range; one process would have chosen this one.
        best = oracle.best_shift(value, used)
        (value, jacobian), used = oracle.at_shift(value, jacobian, used, best), best
    return Estimates(value, jacobian, loss_value, loss_gradient, used)


def sample_pair(
    oracle: CompositeOracle, communicator: Communicator, points: Tensor, rows: Rows, shift: Tensor
) -> tuple[Estimates, Estimates, list[float]]:
    """Measure the estimates at each of two points on the same rows, at one shift.

    Returns also what the mean of `g` over everything cannot be below at the first point; see `CompositeOracle.admits`.
    """
    found = oracle.estimate(points, rows, shift, *_pooling(rows, communicator))
    value, jacobian, loss_value, loss_gradient, floor, used = found
    if communicator.world_size > 1:
        if oracle.uses_shift and oracle.rescalable:
            used = communicator.maximum(found.shift)
            value, jacobian, floor = (oracle.rescale(part, found.shift, used) for part in (value, jacobian, floor))
        value_share, slope_share = _inner_shares(oracle, communicator, rows)
        value, jacobian, floor, loss_value, loss_gradient = _pool(
            communicator,
            [
                [(value, value_share)],
                [(jacobian, slope_share)],
                [(floor, value_share)],
                [(loss_value, rows.sample_share)],
                [(loss_gradient, rows.sample_share)],
            ],
        )
    here, there = (
        Estimates(value[place], jacobian[place], loss_value[place], loss_gradient[place], used) for place in (0, 1)
    )
    return here, there, floor[0].tolist()


def advance(
    estimates: Estimates,
    oracle: CompositeOracle,
    communicator: Communicator,
    point: Tensor,
    previous: Tensor,
    rows: Draw,
) -> tuple[Estimates, bool]:
    """Move the estimates from `previous` to `point` by an increment measured on `rows`.

    Returns the new estimates and whether they are sound: `False` means that the inner value left the range that the
    rows prove, or is not finite, and the estimates should be measured afresh.
    """
    parts, points = _parts(rows), torch.stack([point, previous])
    local = [oracle.change(points, part, estimates.shift, *_pooling(part, communicator)) for part in parts]
    change = _pooled_change(oracle, communicator, parts, local, estimates.shift)
    moved = Estimates(
        _moved(oracle.rescale(estimates.inner_value, estimates.shift, change.shift), change.inner_value),
        oracle.rescale(estimates.inner_jacobian, estimates.shift, change.shift) + change.inner_jacobian,
        estimates.loss_value,
        estimates.loss_gradient if change.loss_gradient is None else estimates.loss_gradient + change.loss_gradient,
        change.shift,
    )
    sound = oracle.admits(moved.inner_value, parts[0], change.shift, change.inner_floor)
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
    oracle: CompositeOracle, communicator: Communicator, parts: Sequence[Rows], local: Sequence[Change], asked: Tensor
) -> Change:
    """Return the change over the whole draw, at a shift that all processes agree on."""
    if _is_whole(parts, communicator):
        return local[0]
    like = local[0].inner_jacobian
    # Whether there are floors is a property of the form, and so the same everywhere.
    floors = all(floor != -math.inf for change in local for floor in change.inner_floor)

    def pooled(changes: Sequence[Change], shift: Tensor) -> Change:
        terms: list[list[tuple[Tensor, float]]] = [[], [], [], []]
        for part, change in zip(parts, changes, strict=True):
            value_share, slope_share = _inner_shares(oracle, communicator, part)
            terms[0].append((like.new_tensor(change.inner_value), value_share))
            terms[1].append((change.inner_jacobian, slope_share))
            if floors:
                terms[2].append((like.new_tensor(change.inner_floor), value_share))
            if change.loss_gradient is not None:
                terms[3].append((change.loss_gradient, part.sample_share))
        value, jacobian, *rest = _pool(communicator, [term for term in terms if term])
        floor = rest.pop(0).tolist() if floors else local[0].inner_floor
        return Change(value.tolist(), jacobian, rest.pop(0) if rest else None, floor, shift)

    if not oracle.uses_shift:
        return pooled(local, asked)
    raised = any(change.shift is not asked for change in local)
    # Infinity in the sum tells everybody that somewhere an exponential would have overflowed.
    sent = [change._replace(inner_value=[math.inf] * len(change.inner_value)) for change in local] if raised else local
    change = pooled(sent, asked)
    if all(map(math.isfinite, change.inner_value)):
        return change
    # All agree on the highest shift and exchange once more.
    agreed = communicator.maximum(torch.stack([change.shift for change in local]).amax())
    return pooled([_at_shift(oracle, change, agreed) for change in local], agreed)


def _at_shift(oracle: CompositeOracle, change: Change, shift: Tensor) -> Change:
    like = change.inner_jacobian
    value, jacobian, floor = (
        oracle.rescale(part, change.shift, shift)
        for part in (like.new_tensor(change.inner_value), like, like.new_tensor(change.inner_floor))
    )
    return change._replace(inner_value=value.tolist(), inner_jacobian=jacobian, inner_floor=floor.tolist(), shift=shift)


def _moved(inner_value: Tensor, step: list[float]) -> Tensor:
    """Return the inner value after a step; most problems have just one."""
    return inner_value + step[0] if len(step) == 1 else inner_value + inner_value.new_tensor(step)


def _parts(rows: Draw) -> Sequence[Rows]:
    return (rows,) if isinstance(rows, Rows) else rows


def _is_whole(parts: Sequence[Rows], communicator: Communicator) -> bool:
    """Whether there is nothing to pool."""
    return len(parts) == 1 and communicator.world_size == 1


def _pooling(part: Rows, communicator: Communicator) -> tuple[Total, ...]:
    """Return how sums over rows are pooled, where a part has such."""
    return () if part.data is None else (lambda tensor: communicator.total([tensor])[0],)


def _inner_shares(oracle: CompositeOracle, communicator: Communicator, part: Rows) -> tuple[float, float]:
    """Return what a part's inner values and its inner slopes count in the sum over all parts."""
    if not oracle.constraints:
        return part.sample_share, part.sample_share
    if part.constraints is None:
        return 0.0, 0.0
    if part.data is not None:
        # Values are made of sums over all rows and the same everywhere, slopes are those of the own rows.
        return 1.0 / communicator.world_size, 1.0
    return part.constraint_share, part.constraint_share


def _pool(communicator: Communicator, quantities: Sequence[Sequence[tuple[Tensor, float]]]) -> list[Tensor]:
    """Return the sum of each quantity over its weighted parts, here and on all other processes, in one exchange."""
    # A part that counts nothing adds nothing, even where its bound is minus infinity.
    sums = [
        sum((tensor * share for tensor, share in terms if share), start=torch.zeros_like(terms[0][0]))
        for terms in quantities
    ]
    return communicator.total(sums)

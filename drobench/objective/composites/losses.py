"""Composites made of per-sample losses: a reduction says what each loss contributes to `g` and to `h`."""

import math
from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor

from drobench.objective.composite import Change, Composite, Means, RowTerms
from drobench.objective.losses import Losses, Pullback, PullbackDifference
from drobench.objective.outer_functions import OuterFunction
from drobench.objective.regularizers import Regularizer
from drobench.objective.sampling import Index, Rows

# exp overflows at 88 in float32 and at 709 in float64; sums and products of the results need room above.
LARGEST_EXPONENT = {torch.float32: 60.0, torch.float64: 500.0}
LARGEST_POWER = {dtype: math.exp(exponent) for dtype, exponent in LARGEST_EXPONENT.items()}


class LossTerms(NamedTuple):
    """What a reduction makes of losses `(k, rows)`: values and derivatives by the loss, row by row.

    There are `k` points and `p` outputs; rows come last everywhere.
    """

    inner: Tensor | None
    """`g`, `(k, p, rows)`, or `None` without inner map."""
    inner_slope: Tensor | None
    """The derivative of each entry of `inner` by the loss of its row, `(k, p, rows)`; `None` as `inner` is."""
    loss: Tensor | None
    """`h`, `(k, rows)`, or `None` without `h`."""
    loss_slope: Tensor | None
    """The derivative of each entry of `loss` by the loss of its row, `(k, rows)`; `None` as `loss` is."""
    shift: Tensor
    """The shift at which `inner` is expressed, one number of shape `()`; zero where there is none."""
    inner_is_positive: bool = False
    """Whether no entry of `inner` can be below zero, and so no estimate of its mean should be."""
    slope_scale: float = 1.0
    """What `inner_slope` is still to be multiplied by: cheaper after the sum over the rows than before."""


class LossBends(NamedTuple):
    """First and second derivatives by the loss of `h_i + <weights, g_i>`, `(rows,)` each."""

    slope: Tensor
    bend: Tensor


class LossTransform(ABC):
    """`g_i = G(f_i)` and `h_i = H(f_i)`: a reduction on the level of losses."""

    outputs: int
    has_losses: bool
    uses_shift: bool = False

    @abstractmethod
    def apply(self, losses: Tensor, shift: Tensor | None) -> LossTerms:
        """Return the terms for losses `(k, rows)`."""

    def safe_shift(self, losses: Tensor, shift: Tensor | None) -> Tensor | None:
        """Return `shift`, or a higher one where the terms at `shift` might overflow; for `None`, a good one."""
        return shift

    def bends(self, losses: Tensor, weights: Tensor, shift: Tensor) -> LossBends:
        """Return the derivatives for losses `(rows,)`, with one weight for each output.

        By automatic differentiation of the slopes, unless a reduction knows better.
        """
        with torch.enable_grad():
            leaf = losses.detach().clone().requires_grad_(True)
            slope = weighted_slope(self.apply(leaf[None], shift), weights, leaf)
            return LossBends(slope.detach(), derivative(slope, leaf))

    def rescale(self, inner: Tensor, old: Tensor, new: Tensor) -> Tensor:
        """See `Composite.rescale`."""
        return inner


def weighted_slope(terms: LossTerms, weights: Tensor, losses: Tensor) -> Tensor:
    """Return the slope of `h_i + <weights, g_i>` at one point, `(rows,)`."""
    slope = torch.zeros_like(losses)
    if terms.inner_slope is not None:
        slope = slope + terms.slope_scale * (weights @ terms.inner_slope[0])
    return slope if terms.loss_slope is None else slope + terms.loss_slope[0]


def with_weights(terms: LossTerms, weights: Tensor | None) -> LossTerms:
    """Return the terms with each row multiplied by its weight, if rows have such."""
    if weights is None:
        return terms
    inner, slope, loss, loss_slope = (
        None if part is None else part * weights
        for part in (terms.inner, terms.inner_slope, terms.loss, terms.loss_slope)
    )
    return terms._replace(inner=inner, inner_slope=slope, loss=loss, loss_slope=loss_slope)


def derivative(values: Tensor, leaf: Tensor) -> Tensor:
    """Return the gradient of the sum of `values`, which may be constants."""
    if not values.requires_grad:
        return torch.zeros_like(leaf)
    (found,) = torch.autograd.grad(values.sum(), leaf, retain_graph=True, materialize_grads=True)
    return found


class PlainLosses(LossTransform):
    """`h_i = f_i`, no inner map: empirical risk."""

    outputs = 0
    has_losses = True

    def apply(self, losses: Tensor, shift: Tensor | None) -> LossTerms:
        return LossTerms(None, None, losses, torch.ones_like(losses), losses.new_zeros(()))

    def bends(self, losses: Tensor, weights: Tensor, shift: Tensor) -> LossBends:
        return LossBends(torch.ones_like(losses), torch.zeros_like(losses))


class LossComposite(Composite):
    """A composite whose parts are functions of per-sample losses."""

    weighs_rows = True

    def __init__(
        self, losses: Losses, transform: LossTransform, outer: OuterFunction, regularizer: Regularizer
    ) -> None:
        self.losses = losses
        self.transform = transform
        self.outer = outer
        self.regularizer = regularizer
        self.dimension = losses.dimension
        self.samples = losses.samples
        self.outputs = transform.outputs
        self.has_losses = transform.has_losses
        self.uses_shift = transform.uses_shift

    def estimate(self, points: Tensor, rows: Rows, shift: Tensor | None) -> Means:
        index = rows.samples
        assert index is not None
        values, pullback = self.losses.linearize(points, index)
        terms = self.transform.apply(values, self.transform.safe_shift(values, shift))
        return self._means(terms, points, rows, pullback, values.shape[1])

    def _means(self, terms: LossTerms, points: Tensor, rows: Rows, pullback: Pullback, count: int) -> Means:
        scale, terms = 1.0 / max(count, 1), with_weights(terms, rows.sample_weights)
        inner_value, inner_jacobian, floor = self._inner(terms, points, rows, scale, pullback)
        if terms.loss is None or terms.loss_slope is None:
            loss_value = points.new_zeros(points.shape[0])
            loss_gradient = torch.zeros_like(points)
        else:
            loss_value = terms.loss.sum(dim=-1) * scale
            loss_gradient = pullback(terms.loss_slope[:, None])[:, 0].mul_(scale)
        return Means(inner_value, inner_jacobian, loss_value, loss_gradient, floor, terms.shift)

    def row_terms(self, point: Tensor, rows: Rows, shift: Tensor | None) -> RowTerms:
        assert rows.samples is not None
        values, gradients = self.losses.row_gradients(point, rows.samples)
        losses = values[None]
        return self._row_terms(self.transform.apply(losses, self.transform.safe_shift(losses, shift)), gradients)

    def _row_terms(self, terms: LossTerms, gradients: Tensor) -> RowTerms:
        """Return the terms of every row by the chain rule, for gradients `(rows, d)` of the losses."""
        count, dimension = gradients.shape
        if terms.inner is None or terms.inner_slope is None:
            value, jacobian = gradients.new_zeros(count, 0), gradients.new_zeros(count, 0, dimension)
        else:
            value = terms.inner[0].T
            jacobian = (terms.slope_scale * terms.inner_slope[0].T)[:, :, None] * gradients[:, None]
        loss_gradient = None if terms.loss_slope is None else terms.loss_slope[0][:, None] * gradients
        return RowTerms(value, jacobian, loss_gradient, terms.inner_is_positive, terms.shift)

    def change(self, points: Tensor, rows: Rows, shift: Tensor) -> Change:
        """One pullback of differences, half the work of two pullbacks."""
        assert rows.samples is not None
        values, pullback = self.losses.linearize_difference(points, rows.samples)
        terms = with_weights(self.transform.apply(values, shift), rows.sample_weights)
        totals = inner_totals(terms)
        # Seen from the sums, which are needed anyway; looking at all terms beforehand would cost more.
        if self.uses_shift and not max(max(total) for total in totals) <= LARGEST_POWER[values.dtype]:
            higher = self.transform.safe_shift(values, shift)
            terms = with_weights(self.transform.apply(values, higher), rows.sample_weights)
            totals = inner_totals(terms)
        return self._change(terms, totals, points, rows, pullback, values.shape[1])

    def _change(
        self,
        terms: LossTerms,
        totals: list[list[float]],
        points: Tensor,
        rows: Rows,
        pullback: PullbackDifference,
        count: int,
    ) -> Change:
        scale = 1.0 / max(count, 1)
        here, there = totals
        value = [scale * (first - second) for first, second in zip(here, there, strict=True)]
        floor = [scale * rows.covered * first if terms.inner_is_positive else -math.inf for first in here]
        if terms.inner_slope is None:
            jacobian = points.new_empty(0, self.dimension)
        else:
            jacobian = pullback(terms.inner_slope, scale * terms.slope_scale)
        gradient = None if terms.loss_slope is None else pullback(terms.loss_slope[:, None], scale)[0]
        return Change(value, jacobian, gradient, floor, terms.shift)

    def _inner(
        self, terms: LossTerms, points: Tensor, rows: Rows, scale: float, pullback: Pullback
    ) -> tuple[Tensor, Tensor, Tensor]:
        if terms.inner is None or terms.inner_slope is None:
            empty = points.new_zeros(points.shape[0], 0)
            return empty, points.new_zeros(points.shape[0], 0, points.shape[1]), empty
        value = terms.inner.sum(dim=-1) * scale
        jacobian = pullback(terms.inner_slope).mul_(scale * terms.slope_scale)
        # Positive terms outside the rows can only add to the mean over everything.
        floor = value * rows.covered if terms.inner_is_positive else torch.full_like(value, -torch.inf)
        return value, jacobian, floor

    @property
    def has_leverages(self) -> bool:  # type: ignore[override]  # read-only here
        return self.losses.has_leverages

    @property
    def has_hessian(self) -> bool:  # type: ignore[override]  # read-only here
        return self.losses.has_hessian

    @property
    def has_hessian_products(self) -> bool:  # type: ignore[override]  # read-only here
        return self.losses.has_hessian_products

    def row_weights(self, point: Tensor, rows: Rows, weights: Tensor, shift: Tensor) -> Tensor:
        return self._bends(point, rows, weights, shift)[1].slope.abs()

    def leverages(self, point: Tensor, rows: Rows, weights: Tensor, shift: Tensor, factor: Tensor) -> Tensor:
        index, bends = self._bends(point, rows, weights, shift)
        return self.losses.leverages(point, index, bends.bend, bends.slope, factor)

    def hessian(self, point: Tensor, rows: Rows, weights: Tensor, shift: Tensor) -> Tensor:
        index, bends = self._bends(point, rows, weights, shift)
        return self.losses.hessian(point, index, bends.bend, bends.slope)

    def hessian_product(self, point: Tensor, rows: Rows, weights: Tensor, shift: Tensor, vector: Tensor) -> Tensor:
        index, bends = self._bends(point, rows, weights, shift)
        return self.losses.hessian_product(point, index, bends.bend, bends.slope, vector)

    def _bends(self, point: Tensor, rows: Rows, weights: Tensor, shift: Tensor) -> tuple[Index, LossBends]:
        """Return the derivatives by the losses, each counting by its share of the mean."""
        assert rows.samples is not None
        losses = self.losses.linearize(point[None], rows.samples)[0][0]
        slope, bend = self.transform.bends(losses, weights, shift)
        scale = share_of_row(rows, losses)
        return rows.samples, LossBends(slope * scale, bend * scale)

    def rescale(self, inner: Tensor, old: Tensor, new: Tensor) -> Tensor:
        return self.transform.rescale(inner, old, new)


def share_of_row(rows: Rows, losses: Tensor) -> Tensor | float:
    """Return what each of these rows counts in the mean over the whole draw."""
    share = rows.sample_share / max(losses.numel(), 1)
    return share if rows.sample_weights is None else share * rows.sample_weights


def inner_totals(terms: LossTerms) -> list[list[float]]:
    """Return the sums of the inner terms at two points."""
    if terms.inner is None:
        return [[], []]
    totals: list[list[float]] = terms.inner.sum(dim=-1).tolist()
    return totals

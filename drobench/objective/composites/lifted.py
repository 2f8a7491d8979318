"""Composites of losses and a few scalar dual variables, which are minimised along with the parameters."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from drobench.errors import DrobenchError
from drobench.objective.composite import Change, Means, RowTerms, Settled, Total
from drobench.objective.composites.losses import (
    LossComposite,
    LossTerms,
    derivative,
    inner_totals,
    share_of_row,
    with_weights,
)
from drobench.objective.losses import Losses, Pullback
from drobench.objective.outer_functions import OuterFunction
from drobench.objective.regularizers import Blocks, Regularizer
from drobench.objective.sampling import Rows
from drobench.objective.scalar_search import minimise_convex


class DualTerms(NamedTuple):
    """The terms of a reduction with scalar dual variables, and their derivatives by those."""

    terms: LossTerms
    inner_dual_slope: Tensor | None = None
    """`(k, p, e, rows)`."""
    loss_dual_slope: Tensor | None = None
    """`(k, e, rows)`."""


class DualBends(NamedTuple):
    """Derivatives of `h_i + <weights, g_i>` by the loss and by the dual variables."""

    slope: Tensor
    """`(rows,)`, by the loss."""
    bend: Tensor
    """`(rows,)`, twice by the loss."""
    mixed: Tensor
    """`(e, rows)`, by the loss and a dual variable."""
    by_duals: Tensor
    """`(e, e, rows)`, twice by dual variables."""


def of_difference(slope: Tensor, bend: Tensor, factor: float = 1.0) -> DualBends:
    """Return the derivatives of a function of `f_i - factor u` from its slope and bend."""
    return DualBends(slope, bend, -factor * bend[None], factor * factor * bend[None, None])


class DualTransform(ABC):
    """`g_i = G(f_i, u)` and `h_i = H(f_i, u)` with `e` further variables `u`, minimised along with the parameters."""

    outputs: int
    has_losses: bool
    duals: int
    uses_shift: bool = False

    @abstractmethod
    def apply(self, losses: Tensor, duals: Tensor, shift: Tensor | None) -> DualTerms:
        """Return the terms for losses `(k, rows)` and dual variables `(k, e)`."""

    def bends(self, losses: Tensor, duals: Tensor, weights: Tensor, shift: Tensor) -> DualBends:
        """Return the second derivatives for losses `(rows,)` and dual variables `(e,)`, one weight for each output.

        By automatic differentiation of the slopes, unless a reduction knows better.
        """
        with torch.enable_grad():
            # Every row is a point of its own here, with its own copy of the dual variables.
            leaf = losses.detach()[:, None].requires_grad_(True)
            dual_leaf = duals.detach().expand(losses.numel(), -1).clone().requires_grad_(True)
            found = self.apply(leaf, dual_leaf, shift)
            slope, terms = torch.zeros_like(leaf), found.terms
            by_dual = torch.zeros_like(dual_leaf)
            if terms.inner_slope is not None:
                slope = slope + terms.slope_scale * torch.einsum("p,rpo->ro", weights, terms.inner_slope)
            if terms.loss_slope is not None:
                slope = slope + terms.loss_slope
            if found.inner_dual_slope is not None:
                by_dual = by_dual + torch.einsum("p,rpeo->re", weights, found.inner_dual_slope)
            if found.loss_dual_slope is not None:
                by_dual = by_dual + found.loss_dual_slope[..., 0]
            mixed = torch.stack([derivative(of_dual, leaf)[:, 0] for of_dual in by_dual.T])
            twice = torch.stack([derivative(of_dual, dual_leaf).T for of_dual in by_dual.T])
            return DualBends(slope.detach()[:, 0], derivative(slope, leaf)[:, 0], mixed, twice)

    def at_shift(self, value: Tensor, jacobian: Tensor, old: Tensor, new: Tensor) -> tuple[Tensor, Tensor]:
        """See `Composite.at_shift`; the dual variables are the last columns of the Jacobian."""
        return value, jacobian

    def best_shift(self, value: Tensor, shift: Tensor) -> Tensor:
        """See `Composite.best_shift`."""
        return shift


@dataclass(frozen=True, eq=False)
class DualProfile:
    """The objective as a convex function of its one dual variable, at given losses of all rows."""

    terms: DualTransform
    outer: OuterFunction
    slope: float
    """Of the regularizer, which is linear in the dual variable."""
    lowest: Callable[[Tensor], float] = lambda _parameters: -math.inf
    """The smallest value allowed, for given parameters."""

    def best(
        self, losses: Tensor, weights: Tensor, near: float, parameters: Tensor, total: Total, maximum: Total
    ) -> tuple[float, float]:
        """Return the best dual variable, and the objective there without the parameters' part of the regularizer.

        Args:
            losses: `(1, rows)`, those of this process.
            weights: `(rows,)`, which over all processes sum to one.
            near: Where to begin to look.
            parameters: The other variables.
            total: Sums over all processes.
            maximum: Takes the maximum over all processes.
        """
        # At the largest loss no exponential overflows, whatever the temperature.
        top = losses.amax() if losses.numel() else losses.new_tensor(-math.inf)
        shift = maximum(top) if self.terms.uses_shift else losses.new_zeros(())

        def look(dual: float) -> tuple[float, float]:
            found = self.terms.apply(losses, losses.new_full((1, 1), dual), shift)
            return self._pooled(found, weights, shift, total)

        dual = minimise_convex(lambda dual: self.slope + look(dual)[1], near, self.lowest(parameters))
        return dual, self.slope * dual + look(dual)[0]

    def _pooled(self, found: DualTerms, weights: Tensor, shift: Tensor, total: Total) -> tuple[float, float]:
        """Return value and slope, in one exchange."""
        nothing = weights.new_zeros(0)
        inner, loss = found.terms.inner, found.terms.loss
        by_dual, loss_by_dual = found.inner_dual_slope, found.loss_dual_slope
        sums = [
            nothing if inner is None else inner[0] @ weights,
            nothing if by_dual is None else by_dual[0, :, 0] @ weights,
            nothing if loss is None else (loss[0] @ weights)[None],
            nothing if loss_by_dual is None else loss_by_dual[0] @ weights,
        ]
        pooled = torch.split(total(torch.cat(sums)), [part.numel() for part in sums])
        value = self.outer.value(pooled[0], shift) + pooled[2].sum()
        slope = self.outer.gradient(pooled[0], shift).dot(pooled[1]) if pooled[1].numel() else 0.0
        return float(value), float(slope + pooled[3].sum())


class LiftedComposite(LossComposite):
    """A loss-level composite over `(parameters, dual variables)`; the dual variables come last."""

    rescalable = False

    def __init__(
        self,
        losses: Losses,
        transform: DualTransform,
        outer: OuterFunction,
        regularizer: Regularizer,
        *,
        profile: DualProfile | None = None,
        exact: DualProfile | None = None,
    ) -> None:
        """Take the parts.

        Args:
            losses: One for each row.
            transform: What they contribute.
            outer: The outer function.
            regularizer: Of parameters and dual variables.
            profile: The objective by its dual variable, where that is to be set to its best value (`settle`).
            exact: The same for the problem without smoothing, if there is any.
        """
        self.profile, self.exact = profile, exact
        self.settles = profile is not None or exact is not None
        self.scaled_duals = 1 if isinstance(regularizer, Blocks) else 0
        self.losses = losses
        self.lifted = transform
        self.outer = outer
        self.regularizer = regularizer
        self.dimension = losses.dimension + transform.duals
        self.samples = losses.samples
        self.outputs = transform.outputs
        self.has_losses = transform.has_losses
        self.uses_shift = transform.uses_shift

    def estimate(self, points: Tensor, rows: Rows, shift: Tensor | None) -> Means:
        assert rows.samples is not None
        values, pullback = self.losses.linearize(points[:, : self.losses.dimension], rows.samples)
        return self._estimate(points, rows, shift, values, pullback)

    def _estimate(self, points: Tensor, rows: Rows, shift: Tensor | None, values: Tensor, pullback: Pullback) -> Means:
        parameters, duals = points[:, : self.losses.dimension], points[:, self.losses.dimension :]
        found = _weighted_slopes(self.lifted.apply(values, duals, shift), rows.sample_weights)
        estimate = self._means(found.terms, parameters, rows, pullback, values.shape[1])
        scale = 1.0 / max(values.shape[1], 1)
        jacobian, gradient = estimate.inner_jacobian, estimate.loss_gradient
        by_duals = jacobian.new_zeros(points.shape[0], self.outputs, duals.shape[1])
        if found.inner_dual_slope is not None:
            by_duals = found.inner_dual_slope.sum(dim=-1) * scale
        gradient_by_duals = torch.zeros_like(duals)
        if found.loss_dual_slope is not None:
            gradient_by_duals = found.loss_dual_slope.sum(dim=-1) * scale
        return estimate._replace(
            inner_jacobian=torch.cat([jacobian, by_duals], dim=-1),
            loss_gradient=torch.cat([gradient, gradient_by_duals], dim=-1),
        )

    def row_terms(self, point: Tensor, rows: Rows, shift: Tensor | None) -> RowTerms:
        assert rows.samples is not None
        parameters, duals = point[: self.losses.dimension], point[self.losses.dimension :]
        values, gradients = self.losses.row_gradients(parameters, rows.samples)
        found = self.lifted.apply(values[None], duals[None], shift)
        terms = self._row_terms(found.terms, gradients)
        jacobian, gradient = terms.inner_jacobian, terms.loss_gradient
        by_duals = jacobian.new_zeros(*jacobian.shape[:2], duals.numel())
        if found.inner_dual_slope is not None:
            by_duals = found.inner_dual_slope[0].permute(2, 0, 1)
        if found.loss_dual_slope is not None and gradient is not None:
            gradient = torch.cat([gradient, found.loss_dual_slope[0].T], dim=-1)
        return terms._replace(inner_jacobian=torch.cat([jacobian, by_duals], dim=-1), loss_gradient=gradient)

    def change(self, points: Tensor, rows: Rows, shift: Tensor) -> Change:
        assert rows.samples is not None
        parameters, duals = points[:, : self.losses.dimension], points[:, self.losses.dimension :]
        values, pullback = self.losses.linearize_difference(parameters, rows.samples)
        found = _weighted_slopes(self.lifted.apply(values, duals, shift), rows.sample_weights)
        terms = with_weights(found.terms, rows.sample_weights)
        change = self._change(terms, inner_totals(terms), parameters, rows, pullback, values.shape[1])
        scale = 1.0 / max(values.shape[1], 1)
        if found.inner_dual_slope is not None:
            by_duals = _difference(found.inner_dual_slope.sum(dim=-1)).mul_(scale)
            change = change._replace(inner_jacobian=torch.cat([change.inner_jacobian, by_duals], dim=-1))
        if found.loss_dual_slope is not None and change.loss_gradient is not None:
            by_duals = _difference(found.loss_dual_slope.sum(dim=-1)).mul_(scale)
            change = change._replace(loss_gradient=torch.cat([change.loss_gradient, by_duals], dim=-1))
        return change

    def row_weights(self, point: Tensor, rows: Rows, weights: Tensor, shift: Tensor) -> Tensor:
        return self._dual_bends(point, rows, weights, shift)[1].slope.abs()

    def leverages(self, point: Tensor, rows: Rows, weights: Tensor, shift: Tensor, factor: Tensor) -> Tensor:
        """Of the parameters alone, whose block of the metric has the first block of the triangular factor."""
        parameters, bends = self._dual_bends(point, rows, weights, shift)
        assert rows.samples is not None
        size = self.losses.dimension
        return self.losses.leverages(parameters, rows.samples, bends.bend, bends.slope, factor[:size, :size])

    def hessian(self, point: Tensor, rows: Rows, weights: Tensor, shift: Tensor) -> Tensor:
        parameters, bends = self._dual_bends(point, rows, weights, shift)
        assert rows.samples is not None
        own = self.losses.hessian(parameters, rows.samples, bends.bend, bends.slope)
        mixed = self._mixed(parameters, rows, bends)
        return torch.cat([torch.cat([own, mixed.T], dim=1), torch.cat([mixed, bends.by_duals.sum(dim=-1)], dim=1)])

    def hessian_product(self, point: Tensor, rows: Rows, weights: Tensor, shift: Tensor, vector: Tensor) -> Tensor:
        parameters, bends = self._dual_bends(point, rows, weights, shift)
        assert rows.samples is not None
        inner, outer = vector[: self.losses.dimension], vector[self.losses.dimension :]
        own = self.losses.hessian_product(parameters, rows.samples, bends.bend, bends.slope, inner)
        mixed = self._mixed(parameters, rows, bends)
        return torch.cat([own + mixed.T @ outer, mixed @ inner + bends.by_duals.sum(dim=-1) @ outer])

    def _dual_bends(self, point: Tensor, rows: Rows, weights: Tensor, shift: Tensor) -> tuple[Tensor, DualBends]:
        """Return the parameters, and the derivatives, which count by the rows' share of the mean."""
        assert rows.samples is not None
        parameters, duals = point[: self.losses.dimension], point[self.losses.dimension :]
        losses = self.losses.linearize(parameters[None], rows.samples)[0][0]
        scale = share_of_row(rows, losses)
        found = self.lifted.bends(losses, duals, weights, shift)
        return parameters, DualBends(*(part * scale for part in found))

    def _mixed(self, parameters: Tensor, rows: Rows, bends: DualBends) -> Tensor:
        """Return the derivatives by a dual variable and the parameters, `(e, d)`."""
        assert rows.samples is not None
        return self.losses.linearize(parameters[None], rows.samples)[1](bends.mixed[None])[0]

    def settle(self, point: Tensor, parts: Sequence[Rows], total: Total, maximum: Total) -> Settled:
        parameters = point[: self.losses.dimension]
        # A process without rows has nothing to add, and takes part in every exchange.
        found = [
            self.losses.linearize(parameters[None], slice(0, 0) if part.samples is None else part.samples)
            for part in parts
        ]
        losses = torch.cat([values for values, _ in found], dim=1)
        weights = torch.cat(
            [
                values.new_full((values.shape[1],), part.sample_share / max(values.shape[1], 1))
                for part, (values, _) in zip(parts, found, strict=True)
            ]
        )
        settled, dual, original = point, float(point[-1]), None
        if self.profile is not None:
            dual, _ = self.profile.best(losses, weights, dual, parameters, total, maximum)
            settled = torch.cat([parameters, point.new_tensor([dual])])
        if self.exact is not None:
            _, rest = self.exact.best(losses, weights, dual, parameters, total, maximum)
            original = float(self.regularizer.value(settled)) - self.exact.slope * dual + rest
        means = [
            self._estimate(settled[None], part, None, values, pullback)
            for part, (values, pullback) in zip(parts, found, strict=True)
        ]
        return Settled(settled, means, original)

    def rescale(self, inner: Tensor, old: Tensor, new: Tensor) -> Tensor:
        raise DrobenchError("The shift of a composite with a varying temperature is fixed between refreshes.")

    def at_shift(self, value: Tensor, jacobian: Tensor, old: Tensor, new: Tensor) -> tuple[Tensor, Tensor]:
        return self.lifted.at_shift(value, jacobian, old, new)

    def best_shift(self, value: Tensor, shift: Tensor) -> Tensor:
        return self.lifted.best_shift(value, shift)


def _weighted_slopes(found: DualTerms, weights: Tensor | None) -> DualTerms:
    """Return the derivatives by the dual variables with each row multiplied by its weight, if rows have such."""
    if weights is None:
        return found
    by_duals, loss_by_duals = (
        None if part is None else part * weights for part in (found.inner_dual_slope, found.loss_dual_slope)
    )
    return found._replace(inner_dual_slope=by_duals, loss_dual_slope=loss_by_duals)


def _difference(pair: Tensor) -> Tensor:
    """Return the first less the second."""
    here, there = pair.unbind()
    return here - there

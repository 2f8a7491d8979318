"""Composites of losses and a few scalar dual variables, which are minimised along with the parameters."""

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor

from drobench.errors import DrobenchError
from drobench.objective.composite import Change, Means, RowTerms
from drobench.objective.composites.losses import LossComposite, LossTerms, inner_totals
from drobench.objective.losses import Losses
from drobench.objective.outer_functions import OuterFunction
from drobench.objective.regularizers import Regularizer
from drobench.objective.sampling import Rows


class DualTerms(NamedTuple):
    """The terms of a reduction with scalar dual variables, and their derivatives by those."""

    terms: LossTerms
    inner_dual_slope: Tensor | None = None
    """`(k, p, e, rows)`."""
    loss_dual_slope: Tensor | None = None
    """`(k, e, rows)`."""


class DualTransform(ABC):
    """`g_i = G(f_i, u)` and `h_i = H(f_i, u)` with `e` further variables `u`, minimised along with the parameters."""

    outputs: int
    has_losses: bool
    duals: int
    uses_shift: bool = False

    @abstractmethod
    def apply(self, losses: Tensor, duals: Tensor, shift: Tensor | None) -> DualTerms:
        """Return the terms for losses `(k, rows)` and dual variables `(k, e)`."""

    def at_shift(self, value: Tensor, jacobian: Tensor, old: Tensor, new: Tensor) -> tuple[Tensor, Tensor]:
        """See `Composite.at_shift`; the dual variables are the last columns of the Jacobian."""
        return value, jacobian

    def best_shift(self, value: Tensor, shift: Tensor) -> Tensor:
        """See `Composite.best_shift`."""
        return shift


class LiftedComposite(LossComposite):
    """A loss-level composite over `(parameters, dual variables)`; the dual variables come last."""

    rescalable = False

    def __init__(
        self, losses: Losses, transform: DualTransform, outer: OuterFunction, regularizer: Regularizer
    ) -> None:
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
        parameters, duals = points[:, : self.losses.dimension], points[:, self.losses.dimension :]
        values, pullback = self.losses.linearize(parameters, rows.samples)
        found = self.lifted.apply(values, duals, shift)
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
        found = self.lifted.apply(values, duals, shift)
        change = self._change(found.terms, inner_totals(found.terms), parameters, rows, pullback, values.shape[1])
        scale = 1.0 / max(values.shape[1], 1)
        if found.inner_dual_slope is not None:
            by_duals = _difference(found.inner_dual_slope.sum(dim=-1)).mul_(scale)
            change = change._replace(inner_jacobian=torch.cat([change.inner_jacobian, by_duals], dim=-1))
        if found.loss_dual_slope is not None and change.loss_gradient is not None:
            by_duals = _difference(found.loss_dual_slope.sum(dim=-1)).mul_(scale)
            change = change._replace(loss_gradient=torch.cat([change.loss_gradient, by_duals], dim=-1))
        return change

    def rescale(self, inner: Tensor, old: Tensor, new: Tensor) -> Tensor:
        raise DrobenchError("The shift of a composite with a varying temperature is fixed between refreshes.")

    def at_shift(self, value: Tensor, jacobian: Tensor, old: Tensor, new: Tensor) -> tuple[Tensor, Tensor]:
        return self.lifted.at_shift(value, jacobian, old, new)

    def best_shift(self, value: Tensor, shift: Tensor) -> Tensor:
        return self.lifted.best_shift(value, shift)


def _difference(pair: Tensor) -> Tensor:
    """Return the first less the second."""
    here, there = pair.unbind()
    return here - there

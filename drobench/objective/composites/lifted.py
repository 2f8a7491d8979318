"""Composites of losses and a few scalar dual variables, which are minimised along with the parameters."""

from collections.abc import Sequence

import torch
from torch import Tensor

from drobench.errors import DrobenchError
from drobench.objective.composite import Change, Means, RowTerms, Settled, Total
from drobench.objective.composites.losses import LossComposite, inner_totals, share_of_row, with_weights
from drobench.objective.composites.profiles import DualProfile, MixtureProfile, Profile
from drobench.objective.composites.transforms import DualBends, DualTerms, DualTransform, of_difference
from drobench.objective.losses import Losses, Pullback
from drobench.objective.outer_functions import OuterFunction
from drobench.objective.regularizers import Blocks, Regularizer
from drobench.objective.sampling import Rows

__all__ = [
    "DualBends",
    "DualProfile",
    "DualTerms",
    "DualTransform",
    "LiftedComposite",
    "MixtureProfile",
    "Profile",
    "of_difference",
]


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
        profile: Profile | None = None,
        exact: Profile | None = None,
    ) -> None:
        """Take the parts.

        Args:
            losses: One for each row.
            transform: What they contribute.
            outer: The outer function.
            regularizer: Of parameters and dual variables.
            profile: The objective by its dual variables, where these are to be set to their best values (`settle`).
            exact: The same for the problem without smoothing, if there is any.
        """
        self.profile, self.exact = profile, exact
        self.settles = profile is not None or exact is not None
        self.scaled_duals = transform.duals if isinstance(regularizer, Blocks) else 0
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
        settled, duals, original = point, point[self.losses.dimension :].tolist(), None
        if self.profile is not None:
            duals, _ = self.profile.best_duals(losses, weights, duals, parameters, total, maximum)
            settled = torch.cat([parameters, point.new_tensor(duals)])
        if self.exact is not None:
            _, rest = self.exact.best_duals(losses, weights, duals, parameters, total, maximum)
            linear = sum(slope * dual for slope, dual in zip(self.exact.slopes, duals, strict=True))
            original = float(self.regularizer.value(settled)) - linear + rest
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

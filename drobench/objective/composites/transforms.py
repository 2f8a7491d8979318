"""What a reduction with scalar dual variables makes of each loss: terms of a composite, and their derivatives."""

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor

from drobench.objective.composites.losses import LossTerms, derivative


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

"""The hinge loss as an objective: what the multiplier methods of the literature train on."""

from torch import Tensor

from drobench.objective.losses import MarginLoss


class HingeLoss(MarginLoss):
    """`(1 - t)_+`; at the kink the derivative from the right, zero, stands for the subdifferential."""

    convex = True

    def of_margin(self, margins: Tensor) -> tuple[Tensor, Tensor]:
        values = (1.0 - margins).clamp(min=0.0)
        return values, -(values > 0).to(margins.dtype)

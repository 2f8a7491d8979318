"""Losses of any differentiable score function, with derivatives by automatic differentiation."""

from collections.abc import Callable

import torch
from torch import Tensor

from drobench.objective.loss_contract import Losses, Pullback
from drobench.objective.sampling import Index
from drobench.objective.score_losses import ScoreLoss


class NetworkLosses(Losses):
    """Losses of any differentiable score function, with derivatives by automatic differentiation.

    The points are visited one after the other: on a CPU two ordinary passes are faster than one vectorised pass over
    stacked parameters, and there are never more than two or three points.
    """

    convex = False

    def __init__(
        self,
        scores: Callable[[Tensor, Tensor], Tensor],
        dimension: int,
        features: Tensor,
        targets: Tensor,
        loss: ScoreLoss,
    ) -> None:
        self.scores = scores
        self.dimension = dimension
        self.features = features
        self.targets = targets
        self.loss = loss
        self.samples = features.shape[0]

    def origin(self) -> Tensor:
        return self.features.new_zeros(self.dimension)

    def linearize(self, points: Tensor, index: Index) -> tuple[Tensor, Pullback]:
        features, targets = self.features[index], self.targets[index]
        leaves = [point.detach().clone().requires_grad_(True) for point in points]
        with torch.enable_grad():
            scores = [self.scores(leaf, features) for leaf in leaves]
        pairs = [self.loss.value_and_slope(score.detach(), targets) for score in scores]

        def pullback(cotangents: Tensor) -> Tensor:
            return torch.stack(
                [
                    torch.stack([_gradient(score, leaf, _weigh(cotangent, slope)) for cotangent in of_point])
                    for score, leaf, (_, slope), of_point in zip(scores, leaves, pairs, cotangents, strict=True)
                ]
            )

        return torch.stack([values for values, _ in pairs]), pullback

    def hessian_product(self, point: Tensor, index: Index, outer: Tensor, curve: Tensor, vector: Tensor) -> Tensor:
        features, targets = self.features[index], self.targets[index]

        def losses(at: Tensor) -> Tensor:
            return self.loss.value_and_slope(self.scores(at, features), targets)[0]

        def weighted_gradient(at: Tensor) -> Tensor:
            gradient: Tensor = torch.func.vjp(losses, at)[1](curve)[0]
            return gradient

        pushed = torch.func.jvp(losses, (point,), (vector,))[1]
        pullback = torch.func.vjp(losses, point)[1]
        curved = torch.func.jvp(weighted_gradient, (point,), (vector,))[1]
        product: Tensor = pullback(outer * pushed)[0] + curved
        return product


def _weigh(cotangent: Tensor, slope: Tensor) -> Tensor:
    """Multiply the slopes of each row, one or one per class, by the row's cotangent."""
    return slope * cotangent.reshape(cotangent.shape + (1,) * (slope.dim() - 1))


def _gradient(output: Tensor, leaf: Tensor, cotangent: Tensor) -> Tensor:
    return torch.autograd.grad(output, leaf, cotangent, retain_graph=True)[0]

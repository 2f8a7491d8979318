"""Steps of gradient descent whose size each coordinate may learn: SGD, Adagrad, Adam.

    sgd      u -= eta g
    adagrad  A += g^2;  u -= eta g / (sqrt(A) + eps)
    adam     m, v: running means of g and g^2;  u -= eta m^ / (sqrt(v^) + eps), with bias corrections

Each function takes what was remembered and a gradient, and returns the step with what is to be remembered from now on;
nothing is changed in place. The updates are those of `torch.optim`, number for number. Keras differs in its constants
only: its sums of squares start at 0.1, and its epsilon is 1e-7.

References: Duchi, Hazan, Singer (JMLR 2011); Kingma and Ba (ICLR 2015).
"""

from typing import NamedTuple

import torch
from torch import Tensor

OPTIMIZERS = ("sgd", "adagrad", "adam")
TORCH_EPSILON = {"sgd": 0.0, "adagrad": 1e-10, "adam": 1e-8}


class Step(NamedTuple):
    """`rate * direction / scale`, not yet taken."""

    rate: float
    direction: Tensor
    scale: Tensor | None = None
    """A divisor for each coordinate; `None`: 1."""

    def from_point(self, point: Tensor) -> Tensor:
        """Return where the step leads from `point`."""
        if self.scale is None:
            return point - self.rate * self.direction
        return torch.addcdiv(point, self.direction, self.scale, value=-self.rate)


class Moments(NamedTuple):
    """What is remembered of past gradients; each has the shape of a gradient."""

    first: Tensor
    """Adam's running mean of gradients; zero for the others."""
    second: Tensor
    """Adagrad's sum, or Adam's running mean, of squared gradients; zero for SGD."""


def no_moments(like: Tensor, optimizer: str, accumulator: float = 0.0) -> Moments:
    """Return what is remembered before the first gradient; `accumulator` is where Adagrad's sums of squares start."""
    start = accumulator if optimizer == "adagrad" else 0.0
    return Moments(torch.zeros_like(like), torch.full_like(like, start))


def adaptive_step(
    optimizer: str, gradient: Tensor, moments: Moments, count: int, *, rate: float, epsilon: float
) -> tuple[Step, Moments]:
    """Return step number `count`, counted from one, of one of the `OPTIMIZERS`."""
    if optimizer == "sgd":
        return Step(rate, gradient), moments
    if optimizer == "adagrad":
        step, squares = adagrad(gradient, moments.second, rate=rate, epsilon=epsilon)
        return step, Moments(moments.first, squares)
    return adam(gradient, moments, count, rate=rate, epsilon=epsilon)


def adagrad(gradient: Tensor, squares: Tensor, *, rate: float, epsilon: float) -> tuple[Step, Tensor]:
    """Return the step of Adagrad and the new sums of squares."""
    squares = torch.addcmul(squares, gradient, gradient)
    return Step(rate, gradient, squares.sqrt().add_(epsilon)), squares


def adam(
    gradient: Tensor,
    moments: Moments,
    count: int,
    *,
    rate: float,
    epsilon: float,
    first_decay: float = 0.9,
    second_decay: float = 0.999,
) -> tuple[Step, Moments]:
    """Return step number `count`, counted from one, of Adam, and the new running means."""
    first = torch.lerp(moments.first, gradient, 1.0 - first_decay)
    second = torch.addcmul(second_decay * moments.second, gradient, gradient, value=1.0 - second_decay)
    scale = (second.sqrt() / (1.0 - second_decay**count) ** 0.5).add_(epsilon)
    return Step(rate / (1.0 - first_decay**count), first, scale), Moments(first, second)

"""Small logistic problems whose exact answers are cheap."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from drobench.objective.composite import Composite
from drobench.objective.composites.losses import LossComposite, LossTerms
from drobench.objective.losses import LinearMarginLosses, LogisticLoss
from drobench.objective.outer_functions import ScaledLog
from drobench.objective.regularizers import Regularizer, Zero
from drobench.reformulation.divergence import ExponentialTilt
from drobench.solver import SingleProcess


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def communicator() -> SingleProcess:
    return SingleProcess()


@pytest.fixture
def signed_rows() -> Callable[..., Tensor]:
    """Return `y_i z_i` of a random classification problem whose columns shrink from 1 to 1/10."""

    def make(m: int, n: int, seed: int) -> Tensor:
        generator = torch.Generator().manual_seed(seed)
        rows = torch.randn(m, n, generator=generator, dtype=torch.float64)
        rows = rows * torch.logspace(0.0, -1.0, n, dtype=torch.float64)
        weights = torch.randn(n, generator=generator, dtype=torch.float64)
        noise = torch.randn(m, generator=generator, dtype=torch.float64)
        return rows * torch.sign(rows @ weights + noise)[:, None]

    return make


class TiltAndSquare(ExponentialTilt):
    """The inner map of the KL penalty, together with `h_i = f_i^2 / 2`."""

    has_losses = True

    def apply(self, losses: Tensor, shift: Tensor | None) -> LossTerms:
        return super().apply(losses, shift)._replace(loss=0.5 * losses.square(), loss_slope=losses)


@pytest.fixture
def logistic() -> Callable[..., Composite]:
    """Return `gamma ln mean exp(f_i / gamma)` of logistic losses, with or without the mean of `f_i^2 / 2`."""

    def make(rows: Tensor, gamma: float, with_h: bool = False, regularizer: Regularizer | None = None) -> Composite:
        losses = LinearMarginLosses(rows, torch.ones(rows.shape[0], dtype=rows.dtype), LogisticLoss())
        transform = TiltAndSquare(gamma) if with_h else ExponentialTilt(gamma)
        return LossComposite(losses, transform, ScaledLog(gamma), regularizer or Zero())

    return make


@pytest.fixture
def logistic_value() -> Callable[..., Callable[[Tensor], Tensor]]:
    """Return the same function written down directly, for automatic differentiation."""

    def make(rows: Tensor, gamma: float, with_h: bool = False) -> Callable[[Tensor], Tensor]:
        def value(point: Tensor) -> Tensor:
            losses = torch.log1p(torch.exp(-(rows @ point)))
            robust = gamma * torch.log(torch.exp(losses / gamma).mean())
            return robust + 0.5 * losses.square().mean() if with_h else robust

        return value

    return make

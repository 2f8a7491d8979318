"""Small seeded problems for the tests of the mathematics."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from drobench.objective.losses import LinearMarginLosses, LogisticLoss, MarginLoss


@pytest.fixture
def random_points() -> Callable[..., Tensor]:
    """Return seeded normal numbers of a given shape."""

    def make(seed: int, *shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
        return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)

    return make


@pytest.fixture
def margin_losses(random_points) -> Callable[..., LinearMarginLosses]:
    """Return the losses of a linear score on seeded rows with seeded labels."""

    def make(
        samples: int = 12,
        inputs: int = 4,
        seed: int = 0,
        loss: MarginLoss | None = None,
        scale: float = 1.0,
        dtype: torch.dtype = torch.float64,
    ) -> LinearMarginLosses:
        rows = scale * random_points(seed, samples, inputs, dtype=dtype)
        signs = torch.where(random_points(seed + 1000, samples, dtype=dtype) > 0, 1.0, -1.0).to(dtype)
        return LinearMarginLosses(rows, signs, loss or LogisticLoss())

    return make

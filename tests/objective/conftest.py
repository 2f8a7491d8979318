"""Small seeded problems for the tests of the mathematics."""

from collections.abc import Callable

import pytest
import torch
from oracle_samples import CONSTRAINTS, DIMENSION, SAMPLES, HalfSpaces, InnerAndLoss, TwoSets
from torch import Tensor

from drobench.objective.composites.losses import LossComposite, PlainLosses
from drobench.objective.forms import Constrained, FiniteSum
from drobench.objective.losses import LinearMarginLosses, LogisticLoss, MarginLoss
from drobench.objective.outer_functions import NoOuter, ScaledLog
from drobench.objective.regularizers import Zero
from drobench.reformulation.divergence import ExponentialTilt


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


@pytest.fixture
def composite(margin_losses, random_points):
    """Build a composite with the named parts."""

    def build(parts="inner", regularizer=None, outer=None):
        losses, regularizer = margin_losses(SAMPLES, DIMENSION), regularizer or Zero()
        if parts == "constraints":
            return TwoSets(losses, random_points(9, CONSTRAINTS, DIMENSION), regularizer, outer)
        transform, default = {
            "inner": (ExponentialTilt(0.5), ScaledLog(0.5)),
            "losses": (PlainLosses(), NoOuter()),
            "both": (InnerAndLoss(), ScaledLog(1.0)),
        }[parts]
        return LossComposite(losses, transform, outer or default, regularizer)

    return build


@pytest.fixture
def finite_sum(margin_losses):
    return lambda regularizer=None: FiniteSum(margin_losses(SAMPLES, DIMENSION), regularizer or Zero())


@pytest.fixture
def constrained(finite_sum, random_points):
    return lambda regularizer=None: Constrained(
        finite_sum(regularizer), HalfSpaces(random_points(9, CONSTRAINTS, DIMENSION))
    )

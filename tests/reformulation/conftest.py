"""The data set of the specification's test vectors."""

import pytest
import torch

from drobench.objective.losses import LinearMarginLosses, LogisticLoss


@pytest.fixture(scope="session")
def t20_rows():
    """`Z_ik = sin(i k) + 0.5 cos(2 i + k)` for i = 1..20, k = 1..3."""
    i = torch.arange(1, 21, dtype=torch.float64)[:, None]
    k = torch.arange(1, 4, dtype=torch.float64)[None]
    return torch.sin(i * k) + 0.5 * torch.cos(2 * i + k)


@pytest.fixture(scope="session")
def t20_signs():
    """`+1` where `sin(3 i) + 0.3 > 0`."""
    i = torch.arange(1, 21, dtype=torch.float64)
    return torch.where(torch.sin(3 * i) + 0.3 > 0, 1.0, -1.0).double()


@pytest.fixture(scope="session")
def t20(t20_rows, t20_signs):
    """The logistic losses of the twenty rows."""
    return LinearMarginLosses(t20_rows, t20_signs, LogisticLoss())


@pytest.fixture(scope="session")
def hat():
    """The point at which the test vectors are given."""
    return torch.tensor([0.5, -0.25, 0.1], dtype=torch.float64)

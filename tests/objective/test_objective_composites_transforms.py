"""Terms with dual variables: derivatives by automatic differentiation are those that a reduction writes down."""

import pytest
import torch

from drobench.objective.composites.transforms import DualTransform, of_difference
from drobench.objective.tail_risks import CappedChi2, CappedKL
from drobench.reformulation.divergence import Chi2PenaltyTerms, CVaRTerms
from drobench.reformulation.prices import PowerTerms, PriceTerms, SpectralTerms

LOSSES = torch.linspace(-0.9, 1.3, 12, dtype=torch.float64)
ZERO = torch.zeros((), dtype=torch.float64)
TRANSFORMS = {
    "chi2": Chi2PenaltyTerms(0.4),
    "cvar": CVaRTerms(0.3, 0.2),
    "capped_kl": PriceTerms(CappedKL(0.3, 0.4)),
    "capped_chi2": PriceTerms(CappedChi2(0.3, 0.4)),
    "power": PowerTerms(3.0),
    "soft_power": PowerTerms(1.5, 0.2),
    "spectral": SpectralTerms(((0.3, 0.6), (0.1, 0.4)), 0.2),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_second_derivatives_are_those_of_automatic_differentiation(name):
    transform = TRANSFORMS[name]
    duals = torch.linspace(0.11, 0.27, transform.duals, dtype=torch.float64)
    weights = torch.full((transform.outputs,), 0.7, dtype=torch.float64)
    own = transform.bends(LOSSES, duals, weights, ZERO)
    general = DualTransform.bends(transform, LOSSES, duals, weights, ZERO)
    for one, other in zip(own, general, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


def test_of_a_difference():
    found = of_difference(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]), 2.0)
    assert found.mixed.tolist() == [[-6.0, -8.0]]
    assert found.by_duals.tolist() == [[[12.0, 16.0]]]

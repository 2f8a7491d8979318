"""A composite's objective by its dual variables: the best ones, against a search and closed forms."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar

from drobench.objective.ambiguity_sets import CVaR
from drobench.objective.composites.profiles import DualProfile, MixtureProfile
from drobench.objective.outer_functions import NoOuter
from drobench.objective.tail_risks import CappedKL
from drobench.reformulation.divergence import CVaRTerms
from drobench.reformulation.prices import PriceTerms

LOSSES = torch.from_numpy(np.random.default_rng(0).gamma(1.0, 1.0, 21))[None]
WEIGHTS = torch.full((21,), 1.0 / 21, dtype=torch.float64)
PARTS = {0.3: 0.4, 0.1: 0.6}


def alone(part):
    return part


def best(profile, near):
    return profile.best_duals(LOSSES, WEIGHTS, near, torch.zeros(2), alone, alone)


@pytest.mark.parametrize("terms", [PriceTerms(CappedKL(0.3, 0.2)), CVaRTerms(0.3, 0.05)], ids=["kl", "cvar"])
@pytest.mark.parametrize("near", [0.0, 3.0])
def test_one_variable_is_set_to_its_best_value(terms, near):
    def value(dual):
        found = terms.apply(LOSSES, torch.full((1, 1), dual, dtype=torch.float64), None)
        return dual + float(found.terms.loss.mean())

    searched = minimize_scalar(value, bounds=(-1.0, 8.0), method="bounded", options={"xatol": 1e-10})
    (dual,), objective = best(DualProfile(terms, NoOuter(), 1.0), [near])
    assert objective == pytest.approx(searched.fun, rel=1e-12)
    assert dual == pytest.approx(searched.x, abs=1e-5)


def test_a_mixture_is_the_sum_of_its_parts():
    profile = MixtureProfile(
        tuple(DualProfile(CVaRTerms(level, 0.0), NoOuter(), 1.0) for level in PARTS), tuple(PARTS.values())
    )
    duals, objective = best(profile, [0.0, 5.0])
    expected = sum(share * float(CVaR(level).worst_case(LOSSES[0])) for level, share in PARTS.items())
    assert objective == pytest.approx(expected, rel=1e-13)
    assert profile.slopes == tuple(PARTS.values())
    # Each at a quantile: about as many losses above as its level says.
    above = [int((LOSSES[0] > dual).sum()) for dual in duals]
    assert above == [pytest.approx(level * 21, abs=1.0) for level in PARTS]

"""Mixtures of superquantiles and total variation against cvxpy, and the hull of their weights."""

import cvxpy as cp
import numpy as np
import pytest
import torch

from drobench.errors import SettingError
from drobench.objective.ambiguity_sets import CVaR
from drobench.objective.tail_risks import SuperquantileMixture, TotalVariationBall

LOSSES = torch.from_numpy(np.random.default_rng(4).gamma(1.0, 1.0, 13))
MIXTURE = SuperquantileMixture((0.1, 0.35, 1.0), (0.2, 0.5, 0.3))


def best(value, conditions, losses):
    weights = cp.Variable(losses.numel(), nonneg=True)
    program = cp.Problem(cp.Maximize(weights @ losses.numpy()), [cp.sum(weights) == 1, *conditions(weights)])
    program.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    assert float(value) == pytest.approx(program.value, abs=1e-8)


@pytest.mark.parametrize("radius", [0.0, 0.05, 0.3, 0.95, 1.0])
def test_total_variation_is_that_of_its_definition(radius):
    ball, samples = TotalVariationBall(radius), LOSSES.numel()
    best(ball.worst_case(LOSSES), lambda q: [0.5 * cp.norm1(q - 1 / samples) <= radius], LOSSES)
    weights = ball.weights(LOSSES)
    assert ball.penalty(weights) == 0.0
    assert float(weights.dot(LOSSES)) == pytest.approx(float(ball.worst_case(LOSSES)), rel=1e-13)


def test_a_mixture_is_the_best_sum_of_weights_under_caps():
    samples = LOSSES.numel()

    def conditions(weights):
        parts = [cp.Variable(samples, nonneg=True) for _ in MIXTURE.levels]
        found = [weights == sum(share * part for share, part in zip(MIXTURE.shares, parts, strict=True))]
        for level, part in zip(MIXTURE.levels, parts, strict=True):
            found += [cp.sum(part) == 1, part <= max(1.0 / (level * samples), 1 / samples)]
        return found

    best(MIXTURE.worst_case(LOSSES), conditions, LOSSES)
    expected = sum(
        share * CVaR(level).worst_case(LOSSES) for level, share in zip(MIXTURE.levels, MIXTURE.shares, strict=True)
    )
    torch.testing.assert_close(MIXTURE.worst_case(LOSSES), expected, rtol=1e-13, atol=0)
    weights = MIXTURE.weights(LOSSES)
    assert float(weights.dot(LOSSES)) == pytest.approx(float(expected), rel=1e-13)
    assert float(weights.sum()) == pytest.approx(1.0, rel=1e-13)


@pytest.mark.parametrize("adversary", [MIXTURE, TotalVariationBall(0.25), SuperquantileMixture((0.4,), (1.0,))])
def test_the_penalty_knows_the_hull(adversary):
    """Weights are allowed exactly where no losses can be found that they weigh more than the worst case does."""
    generator = torch.Generator().manual_seed(0)
    seen = set()
    for _ in range(60):
        spread = torch.rand(1, generator=generator, dtype=torch.float64) * 3.0
        weights = torch.softmax(spread * torch.randn(13, generator=generator, dtype=torch.float64), dim=0)
        # The most telling losses are the indicators of the largest weights.
        order = weights.argsort(descending=True)
        indicators = torch.zeros(13, 13, dtype=torch.float64)
        for count in range(13):
            indicators[count, order[: count + 1]] = 1.0
        excess = max(float(weights.dot(f) - adversary.worst_case(f)) for f in indicators)
        assert (adversary.penalty(weights) == 0.0) == (excess <= 1e-12)
        seen.add(excess <= 1e-12)
        assert adversary.penalty(adversary.nearest(weights)) == 0.0
    assert seen == {True, False}


def test_one_level_is_cvar_and_level_one_the_mean():
    one = SuperquantileMixture((0.3,), (1.0,))
    torch.testing.assert_close(one.worst_case(LOSSES), CVaR(0.3).worst_case(LOSSES), rtol=1e-14, atol=0)
    torch.testing.assert_close(one.weights(LOSSES), CVaR(0.3).weights(LOSSES), rtol=0, atol=1e-15)
    mean = SuperquantileMixture((1.0,), (1.0,)).worst_case(LOSSES)
    torch.testing.assert_close(mean, LOSSES.mean(), rtol=1e-14, atol=0)


@pytest.mark.parametrize(
    ("levels", "shares", "message"),
    [
        ((), (), "needs levels"),
        ((0.1,), (0.5, 0.5), "one share for each"),
        ((0.0,), (1.0,), r"levels in \(0, 1\]"),
        ((1.5,), (1.0,), r"levels in \(0, 1\]"),
        ((0.1, 0.2), (0.5, 0.6), "sum to 1"),
        ((0.1, 0.2), (1.5, -0.5), "above 0"),
    ],
)
def test_a_mixture_that_is_none_is_refused(levels, shares, message):
    with pytest.raises(SettingError, match=message):
        SuperquantileMixture(levels, shares)


@pytest.mark.parametrize("radius", [-0.1, 1.1])
def test_a_radius_beyond_one_is_refused(radius):
    with pytest.raises(SettingError, match=r"total variation ball must be in \[0, 1\]"):
        TotalVariationBall(radius)
